"""Addresses, counts and indices that loops make are in the layout of the accesses that use them: no conversions."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction


def pooled(x, out, n, H: tl.constexpr, W: tl.constexpr):
    """Rows and columns are divided by a power of two; each value by a count that a loop makes."""
    rows, columns = tl.arange(0, H)[:, None], tl.arange(0, W)[None, :]
    total = tl.zeros((H, W), tl.float32)
    for i in range(3):
        row, column = (rows + i) // 2, (columns + i) // 2
        inside = ((rows + i) % 2 == 0) & ((columns + i) % 2 == 0) & (row < n) & (column < n)
        count = tl.zeros((H, W), tl.int32)
        for j in range(n):
            count += ((row + j < n) & (column + j < n)).to(tl.int32)
        count = tl.where(count == 0, 1, count)
        value = tl.load(x + row * n + column, mask=inside, other=0.0)
        total += tl.where(inside, value / count.to(tl.float32), 0.0)
    tl.store(out + rows * W + columns, total)


def permuted(x, out, sizes, strides, n, H: tl.constexpr, W: tl.constexpr):
    """A loop over dimensions makes the indices of a gather and of a scatter."""
    at = tl.arange(0, H * W)
    rest, source, target = at, tl.zeros_like(at), tl.zeros_like(at)
    for d in range(n):
        size = tl.load(sizes + d)
        coordinate = rest % size
        rest = rest // size
        source += coordinate * tl.load(strides + d)
        target += coordinate * tl.load(strides + n + d)
    tl.store(out + target, tl.load(x + source))


def numbered(x, places, out, n, H: tl.constexpr, W: tl.constexpr):
    """Elements are loaded several at once; neighboring lanes scatter neighbors, which may be neighbors in memory."""
    at = tl.arange(0, H * W)
    place, inside = tl.load(places + at), tl.load(x + at) != 0
    rest = at.to(tl.int64)
    for d in range(n):
        tl.store(out + place * n + d, rest % W, mask=inside)
        rest = rest // W


KINDS = {
    np.dtype(np.float32): dtypes.float32, np.dtype(np.int32): dtypes.int32, np.dtype(np.int8): dtypes.int8,
    np.dtype(np.int64): dtypes.int64,
}  # fmt: skip


def compiled(function, arguments, constants, warps):
    signature = {
        name: dtypes.pointer_type(KINDS[v.dtype]) if isinstance(v, np.ndarray) else dtypes.int32
        for name, v in arguments.items()
    }
    signature |= {name: constexpr(value) for name, value in constants.items()}
    divisible = {name: 16 for name, v in arguments.items() if isinstance(v, np.ndarray)}
    text = str(build(KernelFunction(function), signature, divisible).module)
    values = list(arguments.values())
    expected = run_on_copies(parse_ir(text), values, (1, 1, 1))
    options = Options(num_warps=warps, disable=("reduce-num-warps",))
    artifact = backend.compile(parse_ir(text), options, target_info("sm_90a"))
    for found, wanted in zip(run_ptx(artifact, values, (1,)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    return artifact


RNG = np.random.default_rng(0)
X = RNG.standard_normal(1024).astype(np.float32)
CASES = {
    "pooled": (pooled, {"x": X, "out": np.zeros(256, np.float32), "n": 8}, {"H": 16, "W": 16}),
    "permuted": (
        permuted,
        {"x": X, "out": np.zeros(1024, np.float32), "sizes": np.array([8, 4, 32], np.int32),
         "strides": np.array([1, 8, 32, 128, 32, 1], np.int32), "n": 3},
        {"H": 32, "W": 32},
    ),
    "numbered": (
        numbered,
        {"x": RNG.integers(0, 2, 1024, dtype=np.int8), "places": RNG.permutation(1024),
         "out": np.zeros(2048, np.int64), "n": 2},
        {"H": 32, "W": 32},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_change_threads_in_front_of_loops_only(name):
    artifact = compiled(*CASES[name], 4)
    before, _, after = artifact.asm["ptx"].partition("$L__BB0_1:")
    assert "bar.sync" not in after
    assert ("bar.sync" in before) == (name == "numbered")
