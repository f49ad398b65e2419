"""Operands of dots that are loaded element by element and stored to shared memory in the order of the lanes."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def strided_product(
    x, y, out, depth, x_row, x_column, y_row, y_column,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, depth, K):
        along = start + k
        a = tl.load(x + i[:, None] * x_row + along[None, :] * x_column, mask=along[None, :] < depth)
        b = tl.load(y + along[:, None] * y_row + j[None, :] * y_column, mask=along[:, None] < depth)
        total = tl.dot(a, b, total)
    tl.store(out + i[:, None] * N + j[None, :], total)


@pytest.mark.parametrize("y_row", [1, 3])
@pytest.mark.parametrize(("m", "n", "k", "warps"), [(64, 32, 32, 4), (128, 64, 16, 8)])
def test_lanes_along_either_dimension(m, n, k, warps, y_row):
    """Rows of the left operand are contiguous along m, those of the right one along k if `y_row` is 1."""
    types = {"x": "*fp16", "y": "*fp16", "out": "*fp32:16", "depth": "i32"}
    types |= dict.fromkeys(("x_column", "y_row", "y_column")[:: 2 if y_row == 1 else 1], "i32")
    constants = {"x_row": 1, "M": m, "N": n, "K": k} | ({"y_row": 1} if y_row == 1 else {})
    made = strided_product.compile(types, constants, target="sm_90a", num_warps=warps)
    stored = dict(re.findall(r'local_store %([ab])\b.*"\d+x\d+x2 (dim\d) swizzle', made.asm["gpu"]))
    assert stored == {"a": "dim0", "b": "dim0" if y_row == 1 else "dim1"}
    assert "wgmma.mma_async" in made.asm["ptx"]
    chance, depth = np.random.default_rng(0), 70
    x_storage = chance.standard_normal(depth * (m + 1)).astype(np.float16)
    y_storage = chance.standard_normal(y_row * depth * n).astype(np.float16)
    x = np.lib.stride_tricks.as_strided(x_storage, (m, depth), (2, 2 * (m + 1)))
    y = np.lib.stride_tricks.as_strided(y_storage, (depth, n), (2 * y_row, 2 * y_row * depth))
    strides = (m + 1, y_row, y_row * depth)[:: 2 if y_row == 1 else 1]
    arguments = [x_storage, y_storage, np.zeros((m, n), np.float32), depth, *strides]
    found = run_ptx(made.artifact, arguments, (1, 1, 1))[2]
    expected = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
