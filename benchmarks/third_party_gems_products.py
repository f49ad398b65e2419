"""Matrix products of flag_gems."""

from __future__ import annotations

import importlib

import torch

from third_party_gems import (
    case,
    each,
    experimental_op,
    gems,
    integers,
    points_shape,
    side,
    uniform,
)

# ---- matmuls ------------------------------------------------------------


@case
def mm(maker):
    a, b = (
        maker.normal(side(maker), side(maker), dtype=torch.float16),
        maker.normal(side(maker), side(maker), dtype=torch.float16),
    )
    return each(lambda: gems.mm(a, b))


@case
def mm_bf16_transposed(maker):
    a, b = (maker.normal(side(maker), side(maker)), maker.normal(side(maker), side(maker)))
    return each(lambda: gems.mm(a, b.t()))


@case
def mm_fp32(maker):
    return each(
        lambda: gems.mm(
            maker.normal(side(maker) // 2, side(maker) // 2, dtype=torch.float32),
            maker.normal(side(maker) // 2, side(maker) // 2, dtype=torch.float32),
        )
    )


@case
def mm_few_rows(maker):
    return each(
        lambda: gems.mm(
            maker.normal(16, maker.sized(64, 4096)),
            maker.normal(maker.sized(64, 4096), maker.sized(96, 11008)),
        )
    )


@case
def mm_symmetric(maker):
    a = maker.normal(side(maker), side(maker) // 2)
    return each(lambda: gems.mm(a, a.t()))


@case
def mm_deep(maker):
    return each(
        lambda: gems.mm(
            maker.normal(maker.sized(16, 128), maker.sized(512, 65536)),
            maker.normal(maker.sized(512, 65536), maker.sized(16, 128)),
        )
    )


@case
def mm_out_general(maker):
    m = importlib.import_module("flag_gems.ops.mm")
    a, b = (maker.normal(side(maker), side(maker)), maker.normal(side(maker), side(maker)))
    return each(
        lambda: m.general_mm(
            a,
            b,
            torch.empty(side(maker), side(maker), device=maker.device, dtype=torch.bfloat16),
            side(maker),
            side(maker),
            side(maker),
        )
    )


@case
def streamk_mm(maker):
    m = importlib.import_module("flag_gems.ops.mm_streamk")
    k = maker.sized(64, 8192)
    return each(
        lambda: m.streamk_mm(
            maker.normal(maker.sized(64, 1536), k),
            maker.normal(k, maker.sized(64, 1536)),
            torch.empty(
                maker.sized(64, 1536),
                maker.sized(64, 1536),
                device=maker.device,
                dtype=torch.bfloat16,
            ),
            maker.sized(64, 1536),
            maker.sized(64, 1536),
            k,
            maker.sized(4, 132),
        )
    )


@case
def addmm(maker):
    return each(
        lambda: gems.addmm(
            maker.normal(side(maker)),
            maker.normal(side(maker), side(maker)),
            maker.normal(side(maker), side(maker)),
        )
    )


@case
def addmm_fp32(maker):
    return each(
        lambda: gems.addmm(
            maker.normal(side(maker) // 2, dtype=torch.float32),
            maker.normal(side(maker) // 2, side(maker) // 2, dtype=torch.float32),
            maker.normal(side(maker) // 2, side(maker) // 2, dtype=torch.float32),
        )
    )


@case
def bmm(maker):
    return each(
        lambda: gems.bmm(
            maker.normal(maker.sized(3, 16), side(maker) // 4, side(maker) // 4),
            maker.normal(maker.sized(3, 16), side(maker) // 4, side(maker) // 4),
        )
    )


@case
def baddbmm(maker):
    return each(
        lambda: gems.baddbmm(
            maker.normal(maker.sized(3, 16), side(maker) // 4, side(maker) // 4),
            maker.normal(maker.sized(3, 16), side(maker) // 4, side(maker) // 4),
            maker.normal(maker.sized(3, 16), side(maker) // 4, side(maker) // 4),
        )
    )


@case
def mv(maker):
    return each(
        lambda: gems.mv(maker.normal(side(maker), 2 * side(maker)), maker.normal(2 * side(maker))),
        lambda: gems.addmv(
            maker.normal(side(maker)),
            maker.normal(side(maker), 2 * side(maker)),
            maker.normal(2 * side(maker)),
        ),
        lambda: gems.dot(
            maker.normal(points_shape(maker)[0] * points_shape(maker)[1]),
            maker.normal(points_shape(maker)[0] * points_shape(maker)[1]),
        ),
        lambda: gems.vdot(
            maker.normal(points_shape(maker)[0] * points_shape(maker)[1]),
            maker.normal(points_shape(maker)[0] * points_shape(maker)[1]),
        ),
    )


@case
def outer(maker):
    return each(
        lambda: gems.outer(maker.normal(side(maker)), maker.normal(2 * side(maker))),
        lambda: gems.addr(
            maker.normal(side(maker), side(maker)),
            maker.normal(side(maker)),
            maker.normal(side(maker)),
        ),
        lambda: gems.kron(
            maker.normal(maker.sized(5, 64), maker.sized(7, 64)),
            maker.normal(maker.sized(3, 64), maker.sized(4, 64)),
        ),
        lambda: experimental_op("mv").mv(
            maker.normal(side(maker), side(maker)), maker.normal(side(maker))
        ),
    )


@case
def group_mm(maker):
    e, k, n = (maker.sized(3, 16), maker.sized(64, 2048), maker.sized(64, 2048))
    m = maker.sized(16, 512)
    offs = torch.arange(1, e + 1, device=maker.device, dtype=torch.int32) * m
    return each(lambda: gems.group_mm(maker.normal(e * m, k), maker.normal(e, k, n), offs))


def fp8(maker, *s):
    return (torch.randn(*s, device=maker.device) * 0.3).to(torch.float8_e4m3fn)


@case
def fp8_matmul(maker):
    n = maker.sized(128, 4096)
    return each(
        lambda: gems.fp8_matmul(
            fp8(maker, n, n),
            uniform(maker, n, n // 128, dtype=torch.float32),
            fp8(maker, n, n),
            uniform(maker, n // 128, n // 128, dtype=torch.float32),
        )
    )


@case
def w8a8_block_fp8_matmul(maker):
    n = maker.sized(128, 4096)
    return each(
        lambda: gems.w8a8_block_fp8_matmul(
            fp8(maker, n, n),
            fp8(maker, n, n),
            uniform(maker, n, n // 128, dtype=torch.float32),
            uniform(maker, n // 128, n // 128, dtype=torch.float32),
            [128, 128],
        )
    )


@case
def cutlass_scaled_mm_block(maker):
    n = maker.sized(128, 4096)
    return each(
        lambda: (
            gems.cutlass_scaled_mm(
                (c := torch.empty(n, n, device=maker.device, dtype=torch.bfloat16)),
                fp8(maker, n, n),
                fp8(maker, n, n).t(),
                uniform(maker, n, n // 128, dtype=torch.float32),
                uniform(maker, n // 128, n // 128, dtype=torch.float32),
            )
            or c
        )
    )


@case
def cutlass_scaled_mm_token(maker):
    n = maker.sized(128, 4096)
    return each(
        lambda: (
            gems.cutlass_scaled_mm(
                (c := torch.empty(n, n, device=maker.device, dtype=torch.bfloat16)),
                fp8(maker, n, n),
                fp8(maker, n, n).t(),
                uniform(maker, n, 1, dtype=torch.float32),
                uniform(maker, 1, n, dtype=torch.float32),
            )
            or c
        )
    )


@case
def cutlass_scaled_mm_int8(maker):
    n = maker.sized(128, 4096)

    def q():
        return integers(maker, n, n, dtype=torch.int8)

    return each(
        lambda: (
            gems.cutlass_scaled_mm(
                (c := torch.empty(n, n, device=maker.device, dtype=torch.bfloat16)),
                q(),
                q().t(),
                uniform(maker, n, 1, dtype=torch.float32),
                uniform(maker, 1, n, dtype=torch.float32),
            )
            or c
        )
    )


@case
def quantize(maker):
    a = maker.normal(maker.sized(16, 4096), maker.sized(256, 7168))
    return each(
        lambda: gems.act_quant_triton(a),
        lambda: gems.per_token_group_quant_fp8(a, 128),
        lambda: gems.per_token_group_quant_fp8(a, 128, column_major_scales=True),
    )


@case
def hadamard(maker):
    a = maker.normal(maker.sized(5, 8192), maker.sized(64, 1024))
    h = importlib.import_module("flag_gems.ops.hadamard_transform")
    return each(
        lambda: h.hadamard_transform(a),
        lambda: h.hadamard_transform_12N(
            maker.normal(maker.sized(5, 8192), 12 * maker.sized(16, 128))
        ),
        lambda: h.hadamard_transform_20N(
            maker.normal(maker.sized(5, 8192), 20 * maker.sized(16, 128))
        ),
        lambda: h.hadamard_transform_28N(
            maker.normal(maker.sized(5, 4096), 28 * maker.sized(16, 128))
        ),
        lambda: h.hadamard_transform_40N(
            maker.normal(maker.sized(5, 4096), 40 * maker.sized(16, 128))
        ),
    )
