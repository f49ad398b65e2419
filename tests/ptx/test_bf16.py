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
