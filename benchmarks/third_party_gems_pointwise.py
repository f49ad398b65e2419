"""Pointwise operators of flag_gems, the experimental ones included."""

from __future__ import annotations

import importlib

import torch

from third_party_gems import (
    binary,
    case,
    cubes_shape,
    each,
    experimental,
    experimental_op,
    gems,
    ids,
    integers,
    points,
    points_shape,
    rows_shape,
    unary,
    uniform,
)

# ---- pointwise ------------------------------------------------------------


@case
def unary_a(maker):
    return unary("abs absolute acos angle arcsinh arcsinh_", uniform(maker, *points_shape(maker)))


@case
def unary_b(maker):
    return unary("arctanh_ asinh_ atan ceil celu cos", uniform(maker, *points_shape(maker)))


@case
def unary_c(maker):
    return unary("cosh digamma_ elu erf exp exp2", points(maker))


@case
def unary_d(maker):
    return unary("expm1 floor_ gelu hardsigmoid hardswish_ i0", points(maker))


@case
def unary_e(maker):
    return unary("i0_ isfinite isinf isnan isneginf log", uniform(maker, *points_shape(maker)))


@case
def unary_f(maker):
    return unary(
        "log10 log1p_ log_sigmoid logit logit_ nan_to_num", uniform(maker, *points_shape(maker))
    )


@case
def unary_g(maker):
    return unary("neg reciprocal relu relu6 round rsqrt", uniform(maker, *points_shape(maker)))


@case
def unary_h(maker):
    return unary("selu selu_ sgn_ sigmoid signbit silu", points(maker))


@case
def unary_i(maker):
    return unary("sin sinh_ softplus softshrink special_i0e special_i1", points(maker))


@case
def unary_j(maker):
    return unary("sqrt square tan tanh", uniform(maker, *points_shape(maker))) + each(
        lambda: gems.threshold(points(maker), 0.1, 2.0),
        lambda: gems.logical_not(points(maker) > 0),
        lambda: gems.bitwise_not(integers(maker, *points_shape(maker))),
    )


@case
def unary_fp32_a(maker):
    return unary(
        "abs cos exp gelu log rsqrt", uniform(maker, *points_shape(maker), dtype=torch.float32)
    )


@case
def unary_fp32_b(maker):
    return unary(
        "sigmoid silu sin tanh erf reciprocal",
        uniform(maker, *points_shape(maker), dtype=torch.float32),
    )


@case
def unary_fp32_strided(maker):
    return unary(
        "cos exp relu sigmoid",
        uniform(maker, points_shape(maker)[1], points_shape(maker)[0], dtype=torch.float32).t(),
    )


@case
def copies(maker):
    a = points(maker)
    return each(
        lambda: gems.lift_fresh_copy(a),
        lambda: gems.alias_copy(a),
        lambda: gems.t_copy(a),
        lambda: gems.contiguous(a.t()),
        lambda: gems.to_copy(a, dtype=torch.float32),
        lambda: gems.copy_(torch.empty_like(a), a.t().contiguous().t()),
    )


@case
def complex(maker):
    a = torch.complex(points(maker, torch.float32), points(maker, torch.float32))
    return each(
        lambda: torch.view_as_real(gems.conj_physical(a)),
        lambda: torch.view_as_real(
            gems.polar(
                uniform(maker, *points_shape(maker), dtype=torch.float32),
                points(maker, torch.float32),
            )
        ),
        lambda: gems.angle(a),
        lambda: torch.view_as_real(gems.resolve_conj(a.conj())),
        lambda: torch.view_as_real(gems.mul(a, a)),
    )


@case
def binary_a(maker):
    return binary("add sub mul true_divide maximum minimum", points(maker), points(maker))


@case
def binary_b(maker):
    return binary("fmin atan2 hypot copysign logaddexp", points(maker), points(maker)) + each(
        lambda: gems.div_mode(
            points(maker), uniform(maker, *points_shape(maker)), rounding_mode="trunc"
        )
    )


@case
def binary_c(maker):
    return binary("eq ne lt le gt ge greater", points(maker), points(maker))


@case
def binary_d(maker):
    a = points(maker)
    return each(
        lambda: gems.eq_scalar(a, 0.0),
        lambda: gems.ne_scalar(a, 0.0),
        lambda: gems.lt_scalar(a, 0.5),
        lambda: gems.le_scalar(a, 0.5),
        lambda: gems.gt_scalar(a, 0.5),
        lambda: gems.ge_scalar(a, 0.5),
        lambda: gems.greater_scalar(a, 0.5),
    )


@case
def binary_e(maker):
    a, b = (uniform(maker, *points_shape(maker)), uniform(maker, *points_shape(maker)))
    return each(
        lambda: gems.pow_tensor_tensor(a, b),
        lambda: gems.pow_tensor_scalar(a, 2.5),
        lambda: gems.pow_scalar(2.0, b),
        lambda: gems.remainder(a, b),
        lambda: gems.floor_divide(a, b),
        lambda: gems.isclose(a, b),
        lambda: gems.allclose(a, b),
    )


@case
def binary_int(maker):
    a, b = (integers(maker, *points_shape(maker)), integers(maker, *points_shape(maker), lo=1))
    return each(
        lambda: gems.floor_divide(a, b),
        lambda: gems.remainder(a, b),
        lambda: gems.bitwise_and_tensor(a, b),
        lambda: gems.bitwise_or_tensor(a, b),
        lambda: importlib.import_module(
            "flag_gems.ops.bitwise_left_shift"
        ).bitwise_left_shift_kernel(a, b % 8),
        lambda: importlib.import_module(
            "flag_gems.ops.bitwise_right_shift"
        ).bitwise_right_shift_kernel(a, b % 8),
    )


@case
def binary_int_trunc(maker):
    a, b = (integers(maker, *points_shape(maker)), integers(maker, *points_shape(maker), lo=1))
    return each(
        lambda: gems.div_mode(a, b, rounding_mode="trunc"),
        lambda: gems.bitwise_and_scalar(a, 5),
        lambda: gems.bitwise_or_scalar(a, 5),
        lambda: gems.add(a, b),
        lambda: gems.mul(a, b),
    )


@case
def logical(maker):
    return binary("logical_and logical_or logical_xor", points(maker) > 0, points(maker) > 0)


@case
def broadcast(maker):
    a, b, c = (
        maker.normal(*cubes_shape(maker)),
        maker.normal(cubes_shape(maker)[1], 1),
        maker.normal(cubes_shape(maker)[2]),
    )
    return each(
        lambda: gems.add(a, b),
        lambda: gems.mul(a, c),
        lambda: gems.sub(b, c),
        lambda: gems.where_self(c > 0, a, b),
    )


@case
def scalars(maker):
    a = points(maker)
    return each(
        lambda: gems.add(a, 2.0),
        lambda: gems.sub(a, 2.0),
        lambda: gems.mul(a, 2.0),
        lambda: gems.true_divide(a, 2.0),
        lambda: gems.add(a, a, alpha=2),
        lambda: gems.true_divide(2.0, a),
    )


@case
def ternary(maker):
    a, b, c = (points(maker), points(maker), uniform(maker, *points_shape(maker)))
    return each(
        lambda: gems.addcmul(a, b, c, value=0.5),
        lambda: gems.addcdiv(a, b, c, value=0.5),
        lambda: gems.lerp_tensor(a, b, c),
        lambda: gems.lerp_scalar(a, b, 0.3),
        lambda: gems.where_self(a > 0, b, c),
        lambda: gems.masked_fill(a, b > 0, 1.0),
    )


@case
def clamp(maker):
    a, b = (points(maker), uniform(maker, *points_shape(maker)))
    return each(
        lambda: gems.clamp(a, -0.5, 0.5),
        lambda: gems.clamp_tensor(a, -b, b),
        lambda: gems.clamp_min(a, 0.0),
        lambda: gems.clip(a, -0.5, 0.5),
        lambda: gems.where_scalar_other(a > 0, a, 1.0),
        lambda: gems.where_scalar_self(a > 0, 1.0, a),
    )


@case
def backward_a(maker):
    a, b = (points(maker), uniform(maker, *points_shape(maker)))
    return each(
        lambda: gems.elu_backward(a, 1.0, 1.0, 1.0, False, b),
        lambda: gems.gelu_backward(a, b),
        lambda: gems.sigmoid_backward(a, b),
        lambda: gems.silu_backward(a, b),
        lambda: gems.tanh_backward(a, b),
        lambda: gems.threshold_backward(a, b, 0.5),
    )


@case
def backward_b(maker):
    a, b = (points(maker), points(maker))
    return each(
        lambda: gems.dropout_backward(a, b > 0, 2.0),
        lambda: gems.rrelu_with_noise_backward(
            a, b, uniform(maker, *points_shape(maker)), 0.1, 0.3, True
        ),
        lambda: gems.prelu(a, maker.normal(points_shape(maker)[1])),
        lambda: gems.glu(a[:, : points_shape(maker)[1] // 2 * 2]),
        lambda: gems.glu_backward(
            a[:, : points_shape(maker)[1] // 2].contiguous(),
            b[:, : points_shape(maker)[1] // 2 * 2],
        ),
        lambda: gems.gelu_backward(a, b, approximate="tanh"),
    )


@case
def gated(maker):
    a, b = (points(maker), points(maker))
    return each(
        lambda: gems.silu_and_mul(a, b),
        lambda: gems.gelu_and_mul(a, b),
        lambda: gems.gelu_and_mul(a, b, "tanh"),
    )


@case
def glu_family(maker):
    h = maker.sized(64, 8192)
    a, d = (
        maker.normal(maker.sized(33, 4096), 2 * h, dtype=torch.float16),
        maker.normal(maker.sized(33, 4096), h, dtype=torch.float16),
    )
    return each(
        lambda: gems.geglu(a),
        lambda: gems.dgeglu(d, a),
        lambda: gems.reglu(a),
        lambda: gems.dreglu(d, a),
        lambda: gems.swiglu(a),
        lambda: gems.dswiglu(d, a),
    )


# ---- experimental operators ------------------------------------------------------------


@case
def exp_a(maker):
    return experimental(
        "abs arccosh celu deg2rad elu erfinv exp2 fix",
        uniform(maker, *points_shape(maker), dtype=torch.float32) * 0.9,
    )


@case
def exp_b(maker):
    return experimental(
        "frac hardshrink hardswish hardtanh leaky_relu lift negative reciprocal",
        uniform(maker, *points_shape(maker)),
    )


@case
def exp_c(maker):
    return experimental(
        "relu sgn sigmoid sign silu sinc softplus trunc", uniform(maker, *points_shape(maker))
    )


@case
def exp_d(maker):
    return experimental(
        "abs_ atanh_ celu_ cos_ cosh_ deg2rad_ erf_ erfinv_ exp2_ exp_",
        uniform(maker, *points_shape(maker), dtype=torch.float32) * 0.9,
    )


@case
def exp_e(maker):
    return experimental(
        "fix_ gelu_ hardsigmoid_ hardtanh_ leaky_relu_ log10_ log2_ log_ neg_ rad2deg_",
        uniform(maker, *points_shape(maker), dtype=torch.float32),
    )


@case
def exp_f(maker):
    return experimental(
        "reciprocal_ relu_ rsqrt_ sgn_ sigmoid_ silu_ sin_ sinc_ arctanh negative_".replace(
            "sgn_ ", ""
        ),
        uniform(maker, *points_shape(maker), dtype=torch.float32) * 0.9,
    )


@case
def exp_g(maker):
    return experimental(
        "heaviside logaddexp2 maximum special_xlog1py hypot_ heaviside_",
        uniform(maker, *points_shape(maker), dtype=torch.float32),
        uniform(maker, *points_shape(maker), dtype=torch.float32),
    ) + each(
        lambda: experimental_op("xlogy").xlogy_Tensor(
            uniform(maker, *points_shape(maker)), uniform(maker, *points_shape(maker))
        ),
        lambda: experimental_op("multiply").multiply_Tensor(
            uniform(maker, *points_shape(maker)), uniform(maker, *points_shape(maker))
        ),
    )


@case
def exp_h(maker):
    a = maker.normal(*rows_shape(maker))
    return each(
        lambda: experimental_op("amin").amin(a, 1),
        lambda: experimental_op("permute_copy").permute_copy(a, [1, 0]),
        lambda: experimental_op("triu").triu(a),
        lambda: experimental_op("trace").trace(a),
        lambda: experimental_op("take").take(
            a, ids(maker, rows_shape(maker)[0] * rows_shape(maker)[1], maker.sized(99, 1 << 22))
        ),
        lambda: experimental_op("glu").glu(
            maker.normal(points_shape(maker)[0], points_shape(maker)[1] // 2 * 2)
        ),
        lambda: experimental_op("fft_ifftshift").fft_ifftshift(a),
        lambda: experimental_op("slice_scatter").slice_scatter(
            a,
            maker.normal(rows_shape(maker)[0], rows_shape(maker)[1] // 2),
            1,
            0,
            rows_shape(maker)[1] // 2,
            1,
        ),
    )


@case
def exp_i(maker):
    return each(
        lambda: experimental_op("diag").diag(maker.normal(*rows_shape(maker))),
        lambda: experimental_op("eye").eye(rows_shape(maker)[0], device=maker.device),
        lambda: experimental_op("zeros_like").zeros_like(maker.normal(*rows_shape(maker))),
        lambda: experimental_op("mse_loss").mse_loss(
            maker.normal(*points_shape(maker)), maker.normal(*points_shape(maker)), 1
        ),
        lambda: experimental_op("native_dropout_backward").native_dropout_backward(
            maker.normal(*points_shape(maker)), maker.normal(*points_shape(maker)) > 0, 2.0
        ),
        lambda: experimental_op("masked_scatter").masked_scatter(
            maker.normal(*rows_shape(maker)),
            maker.normal(*rows_shape(maker)) > 0,
            maker.normal(*rows_shape(maker)),
        ),
    )
