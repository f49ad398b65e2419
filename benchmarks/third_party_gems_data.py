"""Operators of flag_gems that make and move data: fills, random numbers, slices, indices, sorts."""

from __future__ import annotations

import torch

from third_party_gems import (
    case,
    each,
    experimental_op,
    gems,
    ids,
    integers,
    points,
    points_shape,
    rows_shape,
    uniform,
)

# ---- making tensors, random numbers ------------------------------------------------------------


@case
def fill(maker):
    a = points(maker)
    return each(
        lambda: gems.full(points_shape(maker), 3.0, dtype=torch.bfloat16, device=maker.device),
        lambda: gems.full_like(a, 2.0),
        lambda: gems.fill_scalar(a, 1.0),
        lambda: gems.fill_tensor(a, torch.tensor(2.0, device=maker.device)),
        lambda: gems.zero_(a.clone()),
        lambda: gems.new_full(a, points_shape(maker), 2.0),
    )


@case
def fill_b(maker):
    a = points(maker)
    return each(
        lambda: gems.ones(points_shape(maker), device=maker.device),
        lambda: gems.zeros(points_shape(maker), device=maker.device),
        lambda: gems.ones_like(a),
        lambda: gems.zeros_like(a),
        lambda: gems.eye(maker.sized(65, 4096), device=maker.device),
        lambda: gems.eye_m(maker.sized(65, 4096), maker.sized(33, 8192), device=maker.device),
    )


@case
def ranges(maker):
    n = maker.sized(1001, 1 << 25)
    return each(
        lambda: gems.arange(n, device=maker.device),
        lambda: gems.arange_start(3, n, 2, dtype=torch.float32, device=maker.device),
        lambda: gems.linspace(0, 1, n, device=maker.device),
        lambda: gems.logspace(0, 1, n, device=maker.device),
    )


@case
def random_a(maker):
    a = points(maker, torch.float32)
    return each(
        lambda: gems.rand(points_shape(maker), device=maker.device),
        lambda: gems.randn(points_shape(maker), device=maker.device),
        lambda: gems.rand_like(a),
        lambda: gems.randn_like(a),
    )


@case
def random_b(maker):
    a = points(maker, torch.float32)
    return each(
        lambda: gems.uniform_(a.clone()),
        lambda: gems.normal_(a.clone()),
        lambda: gems.bernoulli_(a.clone(), 0.3),
        lambda: gems.exponential_(a.clone()),
        lambda: gems.dropout(a, 0.3),
    )


@case
def random_c(maker):
    a = uniform(maker, *points_shape(maker), dtype=torch.float32)
    return each(
        lambda: gems.normal_tensor_tensor(a, a),
        lambda: gems.normal_tensor_float(a, 1.0),
        lambda: gems.normal_float_tensor(1.0, a),
    )


@case
def multinomial(maker):
    return each(
        lambda: gems.multinomial(
            uniform(maker, maker.sized(5, 512), maker.sized(100, 32000), dtype=torch.float32),
            4,
            True,
        ),
        lambda: gems.randperm(maker.sized(1000, 1 << 20), device=maker.device),
    )


# ---- moving data ------------------------------------------------------------


@case
def cat(maker):
    a, b = (maker.normal(*rows_shape(maker)), maker.normal(*rows_shape(maker)))
    return each(
        lambda: gems.cat([a, b, a], 0),
        lambda: gems.cat([a, b, a], 1),
        lambda: gems.stack([a, b], 1),
        lambda: gems.hstack([a, b]),
        lambda: gems.vstack([a, b]),
    )


@case
def repeat(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.repeat(a, [2, 3]),
        lambda: gems.tile(a, [3, 2]),
        lambda: gems.flip(a, [0, 1]),
        lambda: gems.roll(a, 3, 1),
        lambda: gems.roll(a, [5, 3], [0, 1]),
    )


@case
def diag(maker):
    a = maker.normal(*rows_shape(maker))
    n = rows_shape(maker)[1]
    return each(
        lambda: gems.diag(a, 1),
        lambda: gems.diag(maker.normal(n)),
        lambda: gems.diag_embed(maker.normal(maker.sized(7, 16), maker.sized(33, 1024))),
        lambda: gems.diagonal_backward(
            maker.normal(rows_shape(maker)[0]),
            [rows_shape(maker)[0], rows_shape(maker)[0]],
            0,
            0,
            1,
        ),
        lambda: gems.tril(a),
        lambda: gems.triu(a, 1),
    )


@case
def slices(maker):
    a = maker.normal(*rows_shape(maker))
    k, n = rows_shape(maker)
    return each(
        lambda: gems.slice_scatter(a, maker.normal(k, n // 2), 1, 0, n // 2 * 2, 2),
        lambda: gems.select_scatter(a, maker.normal(k), 1, 3),
        lambda: gems.slice_backward(maker.normal(k, n // 2), [k, n], 1, 0, n // 2, 1),
        lambda: gems.select_backward(maker.normal(k), [k, n], 1, 3),
        lambda: gems.unfold_backward(maker.normal(k, (n - 4) // 2 + 1, 4), [k, n], 1, 4, 2),
    )


@case
def repeat_interleave(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.repeat_interleave_self_int(a, 3, 0),
        lambda: gems.repeat_interleave_self_tensor(
            a, integers(maker, rows_shape(maker)[0], lo=0, hi=4, dtype=torch.int64), 0
        ),
        lambda: gems.repeat_interleave_tensor(
            integers(maker, rows_shape(maker)[0] * 16, lo=0, hi=4, dtype=torch.int64)
        ),
    )


@case
def one_hot(maker):
    return each(
        lambda: gems.one_hot(
            integers(
                maker, maker.sized(65, 8192), lo=0, hi=maker.sized(33, 1024), dtype=torch.int64
            ),
            maker.sized(33, 1024),
        ),
        lambda: gems.isin(
            integers(maker, *points_shape(maker), lo=0, hi=1000),
            integers(maker, maker.sized(10, 50), lo=0, hi=1000),
        ),
        lambda: gems.isin(
            integers(maker, *rows_shape(maker), lo=0, hi=1000),
            integers(maker, maker.sized(300, 100000), lo=0, hi=1000000),
        ),
    )


# ---- indices ------------------------------------------------------------


@case
def gather(maker):
    a = maker.normal(*rows_shape(maker))
    j = ids(maker, rows_shape(maker)[1], *rows_shape(maker))
    return each(
        lambda: gems.gather(a, 1, j),
        lambda: gems.gather_backward(
            maker.normal(*rows_shape(maker), dtype=torch.float16), a.half(), 1, j, False
        ),
        lambda: gems.gather(a, 0, ids(maker, rows_shape(maker)[0], *rows_shape(maker))),
    )


@case
def scatter(maker):
    a, b = (maker.normal(*rows_shape(maker)), maker.normal(*rows_shape(maker)))
    j = torch.rand(*rows_shape(maker), device=maker.device).argsort(1)
    return each(
        lambda: gems.scatter(a, 1, j, b),
        lambda: gems.scatter(
            a.float(),
            1,
            ids(maker, rows_shape(maker)[1], *rows_shape(maker)),
            b.float(),
            reduce="add",
        ),
    )


@case
def scatter_add(maker):
    return each(
        lambda: gems.scatter_add_(
            maker.normal(*rows_shape(maker), dtype=torch.float32),
            1,
            ids(maker, rows_shape(maker)[1], *rows_shape(maker)),
            maker.normal(*rows_shape(maker), dtype=torch.float32),
        ),
        lambda: gems.scatter_add_(
            maker.normal(*rows_shape(maker), dtype=torch.float16),
            0,
            ids(maker, rows_shape(maker)[0], *rows_shape(maker)),
            maker.normal(*rows_shape(maker), dtype=torch.float16),
        ),
    )


@case
def index(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.index(a, [ids(maker, rows_shape(maker)[0], rows_shape(maker)[0])]),
        lambda: gems.index(
            a,
            [
                ids(maker, rows_shape(maker)[0], maker.sized(99, 1 << 20)),
                ids(maker, rows_shape(maker)[1], maker.sized(99, 1 << 20)),
            ],
        ),
        lambda: gems.index_select(a, 0, ids(maker, rows_shape(maker)[0], rows_shape(maker)[0])),
        lambda: gems.index_select(a, 1, ids(maker, rows_shape(maker)[1], rows_shape(maker)[1])),
    )


@case
def index_put(maker):
    a = maker.normal(*rows_shape(maker), dtype=torch.float32)
    j = torch.randperm(rows_shape(maker)[0], device=maker.device)[: rows_shape(maker)[0] // 2]
    return each(
        lambda: gems.index_put(
            a,
            [j],
            maker.normal(rows_shape(maker)[0] // 2, rows_shape(maker)[1], dtype=torch.float32),
        ),
        lambda: gems.index_put(
            a,
            [ids(maker, rows_shape(maker)[0], rows_shape(maker)[0])],
            maker.normal(*rows_shape(maker), dtype=torch.float32),
            True,
        ),
        lambda: gems.index_add(
            a,
            0,
            ids(maker, rows_shape(maker)[0], rows_shape(maker)[0]),
            maker.normal(*rows_shape(maker), dtype=torch.float32),
        ),
    )


@case
def embedding(maker):
    v, h = (maker.sized(100, 32000), maker.sized(65, 4096))
    j = ids(maker, v, maker.sized(4, 16), maker.sized(9, 1024))
    return each(
        lambda: gems.embedding(maker.normal(v, h), j),
        lambda: gems.embedding_backward(maker.normal(*j.shape, h), j, v),
        lambda: gems.embedding_dense_backward(maker.normal(*j.shape, h), j, v, -1, False),
    )


@case
def masked(maker):
    a = maker.normal(*rows_shape(maker))
    m = maker.normal(*rows_shape(maker)) > 0
    return each(
        lambda: gems.masked_select(a, m),
        lambda: gems.masked_scatter(a, m, maker.normal(*rows_shape(maker))),
        lambda: gems.nonzero(m),
        lambda: experimental_op("masked_select").masked_select(a, m),
    )


@case
def unique(maker):
    a = integers(
        maker, maker.sized(1000, 1 << 20), lo=0, hi=maker.sized(50, 10000), dtype=torch.int64
    )
    return each(
        lambda: gems._unique2(a, True, True, True),
        lambda: gems._unique2(a, True, False, False),
        lambda: gems.unique_consecutive(a.sort()[0], True, True),
    )


@case
def sort(maker):
    return each(
        lambda: gems.sort_stable(
            maker.normal(maker.sized(5, 1024), maker.sized(100, 2048), dtype=torch.float32),
            stable=True,
        ),
        lambda: gems.sort_stable(
            integers(maker, maker.sized(3, 16), maker.sized(3000, 65536)), stable=True, dim=-1
        ),
    )


@case
def sort_fp16(maker):
    return each(
        lambda: gems.sort_stable(
            maker.normal(maker.sized(5, 1024), maker.sized(100, 1024), dtype=torch.float16),
            stable=True,
            descending=True,
        )
    )


@case
def topk(maker):
    return each(
        lambda: gems.topk(
            maker.normal(maker.sized(5, 512), maker.sized(100, 4096), dtype=torch.float32), 5
        ),
        lambda: gems.topk(
            maker.normal(maker.sized(5, 64), maker.sized(3000, 65536), dtype=torch.float32), 8
        ),
    )


@case
def bincount(maker):
    return each(
        lambda: gems.bincount(ids(maker, maker.sized(20, 1000), maker.sized(1000, 1 << 22))),
        lambda: gems.bincount(
            ids(maker, maker.sized(20, 1000), maker.sized(1000, 1 << 20)),
            maker.normal(maker.sized(1000, 1 << 20), dtype=torch.float32),
        ),
    )
