"""A small kernel that `tilewright doctor` compiles and runs."""

from typing import Any

import tilewright as tw
import tilewright.language as tl


@tw.jit
def softmax(x_ptr: Any, out_ptr: Any, n: Any, stride: Any, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    total = tl.sum(tl.exp(x), axis=0)
    tl.store(out_ptr + row * stride + columns, tl.exp(x) / total, mask=columns < n)


def worst_error() -> float:
    """Run the kernel; the largest difference from NumPy in float64, relative to the largest value."""
    import numpy as np

    x = np.random.default_rng(0).standard_normal((37, 100), dtype=np.float32)
    out = np.zeros_like(x)
    softmax[(37,)](x, out, 100, 100, BLOCK=128)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    return float(np.abs(out - exact).max() / exact.max())
