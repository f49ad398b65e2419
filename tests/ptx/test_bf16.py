"""Arithmetic on bf16 numbers, two to a word in memory, executed as PTX."""

import ml_dtypes
import numpy as np
import pytest
from tests.engines import run
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def rounded_twice(x_ptr, y_ptr, out_ptr, wide_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    larger = tl.maximum(x * y, y)  # rounded, and compared
    tl.store(out_ptr + offs, larger)
    tl.store(wide_ptr + offs, larger.to(tl.float32) * 3)


def test_numbers_are_rounded_and_widened_in_their_words():
    kernel = rounded_twice.compile(
        {"x_ptr": "*bf16:16", "y_ptr": "*bf16:16", "out_ptr": "*bf16:16", "wide_ptr": "*fp32:16"},
        {"BLOCK": 64}, target="sm_90a", num_warps=1,
    )  # fmt: skip
    ptx = kernel.asm["ptx"]
    assert "cvt.rn.bf16.f32" not in ptx  # of an eighth of the rate of the conversion of two
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(64).astype(ml_dtypes.bfloat16) for _ in range(2))
    x[:4], y[:4] = [np.inf, -np.inf, -0.0, 1e-20], [1, 1, -1, -1e-20]
    arrays = [x, y, np.zeros(64, ml_dtypes.bfloat16), np.zeros(64, np.float32)]
    _, _, out, wide = run_ptx(kernel, arrays, (1,))
    product = (x.astype(np.float32) * y.astype(np.float32)).astype(ml_dtypes.bfloat16)
    larger = np.maximum(product, y)
    np.testing.assert_array_equal(out.astype(np.float32), larger.astype(np.float32))
    np.testing.assert_array_equal(wide, out.astype(np.float32) * 3)


@tw.jit
def sums_of_narrow(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    total = tl.load(out_ptr + offs) + x
    tl.store(out_ptr + offs, tl.fma(x.to(tl.float32), y.to(tl.float32), total))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_sums_of_two_types(dtype):
    """Instructions of sm_100 and later whose operands are narrower than their results."""
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-8, 9, 128).astype(dtype) for _ in range(2))
    out = rng.standard_normal(128).astype(np.float32)
    found = run("sm_120a", sums_of_narrow, (1,), x, y, out, BLOCK=128)[2]
    product = x.astype(np.float32) * y.astype(np.float32)
    np.testing.assert_array_equal(found, out + x.astype(np.float32) + product)


@tw.jit
def many_operations(x_ptr, y_ptr, out_ptr, bits_ptr, scale, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    half = tl.abs(x - y) + y * scale.to(y.dtype)
    tl.store(out_ptr + offs, tl.minimum(half, x) * y)
    tl.store(bits_ptr + offs, ((x < y) | (half != 0)).to(tl.int8))


@pytest.mark.parametrize(("kind", "name"), [("bf16", ml_dtypes.bfloat16), ("fp16", np.float16)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_two_numbers_per_instruction(kind, name, target):
    types = {"x_ptr": f"*{kind}:16", "y_ptr": f"*{kind}:16", "out_ptr": f"*{kind}:16"}
    types |= {"bits_ptr": "*i8:16", "scale": "fp32"}
    kernel = many_operations.compile(
        types, {"BLOCK": 256}, target=target, num_warps=1, enable_fp_fusion=False
    )
    text = kernel.asm["ptx"]
    suffix = "bf16x2" if kind == "bf16" else "f16x2"
    assert f"abs.{suffix}" in text and (kind == "bf16" or f"min.{suffix}" in text)
    assert f"mul.rn.{suffix}" in text or f"fma.rn.{suffix}" in text
    assert "sub.f32" not in text and "sub.rn.f32" not in text
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(256).astype(name) for _ in range(2))
    x[:6] = [np.inf, -np.inf, 0.0, -0.0, np.nan, 1e-6]
    y[:6] = [1, np.inf, -0.0, 0.0, 2, 1e-6]
    x[6:16] = y[6:16]
    arrays = [x, y, np.zeros(256, name), np.zeros(256, np.int8), np.float32(1.7)]
    _, _, out, bits = run_ptx(kernel, arrays, (1,))

    def rounded(value):
        return value.astype(name).astype(np.float32)

    with np.errstate(invalid="ignore"):
        wide, other = x.astype(np.float32), y.astype(np.float32)
        product = rounded(other * rounded(np.float32(1.7).reshape(1)))
        half = rounded(np.abs(rounded(wide - other)) + product)
        expected = rounded(np.fmin(half, wide) * other)
    np.testing.assert_array_equal(out.astype(np.float32), expected)
    np.testing.assert_array_equal(bits, ((wide < other) | (half != 0)).astype(np.int8))


@tw.jit
def fused_products(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x, y, z = tl.load(x_ptr + offs), tl.load(y_ptr + offs), tl.load(z_ptr + offs)
    tl.store(out_ptr + offs, tl.fma(x, y, z))


@pytest.mark.parametrize(("kind", "name"), [("bf16", ml_dtypes.bfloat16), ("fp16", np.float16)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_fma_in_the_type_of_its_arguments(kind, name, target):
    """`tl.fma` of 16-bit floats takes one instruction for two elements, and rounds once."""
    types = {f"{argument}_ptr": f"*{kind}:16" for argument in ("x", "y", "z", "out")}
    kernel = fused_products.compile(types, {"BLOCK": 256}, target=target, num_warps=1)
    text = kernel.asm["ptx"]
    assert text.count(f"fma.rn.{'bf16x2' if kind == 'bf16' else 'f16x2'}") == 4
    assert ".f32" not in text
    rng = np.random.default_rng(4)
    x, y, z = (rng.standard_normal(256).astype(name) for _ in range(3))
    x[:3], y[:3], z[:3] = [np.inf, 0.0, 2.0], [1, -0.0, np.inf], [-1, -0.0, 3.0]
    wide = (value.astype(np.float64) for value in (x, y, z))
    expected = np.add(np.multiply(next(wide), next(wide)), next(wide)).astype(name)
    out = run_ptx(kernel, [x, y, z, np.zeros(256, name)], (1,))[3]
    np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))
    for engine in ("ir", "eager", "cpu"):
        found = run(engine, fused_products, (1,), x, y, z, np.zeros(256, name), BLOCK=256)[3]
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
