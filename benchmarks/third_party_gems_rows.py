"""Reductions, scans, norms and losses of flag_gems."""

from __future__ import annotations

import torch

from third_party_gems import (
    case,
    cubes_shape,
    each,
    experimental_op,
    gems,
    ids,
    points_shape,
    rows_shape,
    uniform,
)

# ---- reductions and scans ------------------------------------------------------------


@case
def reduce_rows_a(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.sum_dim(a, [1]),
        lambda: gems.mean_dim(a, [1]),
        lambda: gems.amax(a, [1]),
        lambda: gems.max_dim(a, 1),
        lambda: gems.min_dim(a, 1),
        lambda: gems.prod_dim(a, 1),
    )


@case
def reduce_rows_b(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.argmax(a, 1),
        lambda: gems.argmin(a, 1),
        lambda: gems.all_dim(a, 1),
        lambda: gems.any_dim(a, 1),
        lambda: gems.var_mean(a, [1]),
        lambda: gems.vector_norm(a, 2, [1]),
    )


@case
def reduce_rows_c(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.aminmax(a, dim=1),
        lambda: gems.count_nonzero(a, 1),
        lambda: gems.std(a, [1]),
        lambda: gems.var_dim(a, [1]),
        lambda: gems.vector_norm(a, float("inf"), [1]),
        lambda: gems.vector_norm(a, 1, [1]),
    )


@case
def reduce_rows_fp32(maker):
    a = maker.normal(*rows_shape(maker), dtype=torch.float32)
    return each(
        lambda: gems.sum_dim(a, [1]),
        lambda: gems.mean_dim(a, [1]),
        lambda: gems.amax(a, [1]),
        lambda: gems.max_dim(a, 1),
        lambda: gems.argmax(a, 1),
        lambda: gems.var_mean(a, [1]),
    )


@case
def reduce_columns(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: gems.sum_dim(a, [0]),
        lambda: gems.mean_dim(a, [0]),
        lambda: gems.amax(a, [0]),
        lambda: gems.max_dim(a, 0),
        lambda: gems.argmax(a, 0),
        lambda: gems.prod_dim(a, 0),
    )


@case
def reduce_3d(maker):
    a = maker.normal(*cubes_shape(maker))
    return each(
        lambda: gems.sum_dim(a, [1]),
        lambda: gems.mean_dim(a, [0, 2]),
        lambda: gems.amax(a, [0, 1]),
        lambda: gems.argmin(a, 1),
        lambda: gems.min_dim(a, 1),
        lambda: gems.all_dims(a, [0, 1]),
    )


@case
def reduce_all_a(maker):
    a = maker.normal(*points_shape(maker))
    return each(
        lambda: gems.sum(a),
        lambda: gems.mean(a),
        lambda: gems.max(a),
        lambda: gems.min(a),
        lambda: gems.prod(uniform(maker, *points_shape(maker))),
        lambda: gems.all(a),
    )


@case
def reduce_all_b(maker):
    a = maker.normal(*points_shape(maker))
    return each(
        lambda: gems.any(a),
        lambda: gems.argmax(a),
        lambda: gems.argmin(a),
        lambda: gems.count_nonzero(a),
        lambda: gems.amax(a),
        lambda: gems.equal(a, a.clone()),
    )


@case
def reduce_all_c(maker):
    a = maker.normal(*points_shape(maker))
    return each(
        lambda: gems.var(a),
        lambda: gems.std(a),
        lambda: gems.vector_norm(a),
        lambda: gems.aminmax(a),
        lambda: gems.trace(a),
        lambda: gems._is_all_true(a == a),
    )


@case
def scan_rows(maker):
    a = maker.normal(*rows_shape(maker), dtype=torch.float32)
    return each(
        lambda: gems.cumsum(a, 1),
        lambda: gems.cummax(a, 1),
        lambda: gems.cummin(a, 1),
        lambda: gems.normed_cumsum(uniform(maker, *rows_shape(maker), dtype=torch.float32), 1),
    )


@case
def scan_columns(maker):
    a = maker.normal(*rows_shape(maker), dtype=torch.float32)
    return each(lambda: gems.cumsum(a, 0), lambda: gems.cummax(a, 0), lambda: gems.cummin(a, 0))


@case
def scan_long(maker):
    a = maker.normal(maker.sized(5000, 1 << 22), dtype=torch.float32)
    return each(lambda: gems.cumsum(a, 0), lambda: gems.cummax(a, 0), lambda: gems.cummin(a, 0))


@case
def quantile(maker):
    a = uniform(maker, maker.sized(7, 256), maker.sized(65, 1024), dtype=torch.float32)
    return each(
        lambda: gems.quantile(a, torch.tensor([0.1, 0.5, 0.9], device=maker.device), 1),
        lambda: gems.quantile(a, 0.5),
    )


@case
def softmax(maker):
    a, b = (maker.normal(*rows_shape(maker)), maker.normal(*rows_shape(maker)))
    return each(
        lambda: gems.softmax(a, 1),
        lambda: gems.softmax_backward(b, gems.softmax(a, 1), 1, torch.bfloat16),
        lambda: gems.log_softmax(a, 1),
        lambda: gems.log_softmax_backward(b, gems.log_softmax(a, 1), 1, torch.bfloat16),
        lambda: gems._safe_softmax(a, 1),
    )


@case
def softmax_columns(maker):
    a, b = (maker.normal(*cubes_shape(maker)), maker.normal(*cubes_shape(maker)))
    return each(
        lambda: gems.softmax(a, 1),
        lambda: gems.softmax_backward(b, gems.softmax(a, 1), 1, torch.bfloat16),
        lambda: gems.log_softmax(a, 1),
        lambda: gems.log_softmax_backward(b, gems.log_softmax(a, 1), 1, torch.bfloat16),
    )


@case
def softmax_long(maker):
    a, b = (
        maker.normal(maker.sized(3, 512), maker.sized(9000, 65536)),
        maker.normal(maker.sized(3, 512), maker.sized(9000, 65536)),
    )
    return each(
        lambda: gems.softmax(a, 1),
        lambda: gems.softmax_backward(b, gems.softmax(a, 1), 1, torch.bfloat16),
        lambda: gems.log_softmax(a, 1),
        lambda: gems.log_softmax_backward(b, gems.log_softmax(a, 1), 1, torch.bfloat16),
    )


@case
def scaled_softmax(maker):
    a = maker.normal(
        maker.sized(1, 4),
        maker.sized(2, 16),
        maker.sized(64, 2048),
        maker.sized(64, 2048),
        dtype=torch.float16,
    )
    return each(
        lambda: gems.scaled_softmax_forward(a, 0.5),
        lambda: gems.scaled_softmax_backward(a, gems.scaled_softmax_forward(a, 0.5), 0.5),
    )


# ---- norms ------------------------------------------------------------


@case
def layer_norm(maker):
    n = rows_shape(maker)[1]
    a, w, b = (maker.normal(*rows_shape(maker)), maker.normal(n), maker.normal(n))

    def f():
        y, m, s = gems.layer_norm(a, [n], w, b)
        return [
            y,
            m,
            s,
            *gems.layer_norm_backward(
                maker.normal(*rows_shape(maker)), a, [n], m, s, w, b, [True] * 3
            ),
        ]

    return each(
        f,
        lambda: gems.skip_layer_norm(
            maker.normal(*rows_shape(maker)), maker.normal(*rows_shape(maker)), [n], w, b
        ),
        lambda: gems.fused_add_rms_norm(
            maker.normal(*rows_shape(maker)), maker.normal(*rows_shape(maker)), [n], w
        ),
    )


@case
def layer_norm_long(maker):
    n = maker.sized(5000, 32768)
    a, w, b = (maker.normal(maker.sized(4, 1024), n), maker.normal(n), maker.normal(n))

    def f():
        y, m, s = gems.layer_norm(a, [n], w, b)
        return [
            y,
            m,
            s,
            *gems.layer_norm_backward(
                maker.normal(maker.sized(4, 1024), n), a, [n], m, s, w, b, [True] * 3
            ),
        ]

    return each(f)


@case
def rms_norm(maker):
    n = rows_shape(maker)[1]
    a, w = (maker.normal(*rows_shape(maker)), maker.normal(n))

    def f():
        y, s = gems.rms_norm_forward(a, [n], w)
        return [y, s, *gems.rms_norm_backward(maker.normal(*rows_shape(maker)), a, s, [n], w)]

    return each(f, lambda: experimental_op("rmsnorm").rmsnorm(a, w))


@case
def group_norm(maker):
    n, c, hw, k = (
        maker.sized(2, 16),
        maker.sized(12, 256),
        maker.sized(35, 4096),
        maker.sized(3, 32),
    )
    a, w, b = (maker.normal(n, c, hw), maker.normal(c), maker.normal(c))

    def f():
        y, m, s = gems.group_norm(a, w, b, n, c, hw, k)
        return [
            y,
            m,
            s,
            *gems.group_norm_backward(maker.normal(n, c, hw), a, m, s, w, n, c, hw, k, [True] * 3),
        ]

    return each(f)


@case
def batch_norm(maker):
    n, c, h = (maker.sized(3, 16), maker.sized(5, 64), maker.sized(9, 112))
    a, w, b = (
        maker.normal(n, c, h, h, dtype=torch.float32),
        maker.normal(c, dtype=torch.float32),
        maker.normal(c, dtype=torch.float32),
    )
    rm, rv = (torch.zeros(c, device=maker.device), torch.ones(c, device=maker.device))

    def f():
        y, m, s = gems.batch_norm(a, w, b, rm, rv, True)
        return [
            y,
            m,
            s,
            *gems.batch_norm_backward(
                maker.normal(n, c, h, h, dtype=torch.float32),
                a,
                w,
                rm,
                rv,
                m,
                s,
                True,
                1e-05,
                [True] * 3,
            ),
        ]

    return each(f)


@case
def instance_norm(maker):
    n, c, h = (maker.sized(3, 16), maker.sized(5, 64), maker.sized(9, 112))
    return each(
        lambda: gems.instance_norm(
            maker.normal(n, c, h, h, dtype=torch.float32),
            maker.normal(c, dtype=torch.float32),
            maker.normal(c, dtype=torch.float32),
        )
    )


@case
def weight_norm(maker):
    v, w = (
        maker.normal(*rows_shape(maker), dtype=torch.float32),
        maker.normal(rows_shape(maker)[0], 1, dtype=torch.float32),
    )

    def f():
        y, n = gems.weight_norm_interface(v, w, 0)
        return [
            y,
            n,
            *gems.weight_norm_interface_backward(
                maker.normal(*rows_shape(maker), dtype=torch.float32), v, w, n, 0
            ),
        ]

    def k():
        y, n = gems.weight_norm_interface(
            v, maker.normal(1, rows_shape(maker)[1], dtype=torch.float32), 1
        )
        return [y, n]

    return each(f, k)


# ---- losses ------------------------------------------------------------


@case
def nll_loss(maker):
    n, c = (maker.sized(33, 8192), maker.sized(65, 32000))
    a, t, w = (
        maker.normal(n, c, dtype=torch.float32),
        ids(maker, c, n),
        uniform(maker, c, dtype=torch.float32),
    )

    def f():
        y, s = gems.nll_loss_forward(a, t, w)
        return [
            y,
            s,
            gems.nll_loss_backward(torch.ones((), device=maker.device), a, t, w, 1, -100, s),
        ]

    def k():
        b, q = (
            maker.normal(
                maker.sized(2, 16),
                maker.sized(5, 64),
                maker.sized(7, 128),
                maker.sized(9, 128),
                dtype=torch.float32,
            ),
            ids(
                maker,
                maker.sized(5, 64),
                maker.sized(2, 16),
                maker.sized(7, 128),
                maker.sized(9, 128),
            ),
        )
        y, s = gems.nll_loss2d_forward(b, q)
        return [
            y,
            s,
            gems.nll_loss2d_backward(torch.ones((), device=maker.device), b, q, None, 1, -100, s),
        ]

    return each(f, k)


@case
def cross_entropy(maker):
    n, c = (maker.sized(33, 8192), maker.sized(65, 32000))

    def f(**k):
        a = maker.normal(n, c).requires_grad_(True)
        y = gems.cross_entropy_loss(a, ids(maker, c, n), **k)
        y.backward()
        return [y.detach(), a.grad]

    return each(f, lambda: f(label_smoothing=0.1))


@case
def losses(maker):
    a, b = (maker.normal(*points_shape(maker)), maker.normal(*points_shape(maker)))
    t = torch.sign(b) + (b == 0)
    return each(
        lambda: gems.mse_loss(a, b),
        lambda: gems.mse_loss(a, b, 0),
        lambda: gems.soft_margin_loss(a, t, 1),
        lambda: gems.margin_ranking_loss(a, b, t, 0.1, 1),
        lambda: experimental_op("huber_loss").huber_loss(a, b, 0),
        lambda: experimental_op("smooth_l1_loss").smooth_l1_loss(a, b, 0),
    )
