"""Sums that become the left operand of a dot of 8-bit elements: four lanes exchange them, in registers."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction


def two_dots(a, b, c, out, n):
    m, k, j = tl.arange(0, 128), tl.arange(0, 32), tl.arange(0, 64)
    x = tl.load(a + m[:, None] * 32 + k[None, :])
    total = tl.zeros((128, 64), tl.float32)
    for i in range(n):
        s = tl.dot(x, tl.load(b + (i * 64 + j)[None, :] * 32 + k[:, None]))
        y = tl.load(c + j[None, :] * n * 64 + (i * 64 + j)[:, None])
        total = tl.dot(s.to(x.dtype), y, total)
    tl.store(out + m[:, None] * 64 + j[None, :], total)


@pytest.mark.parametrize("name", ["e5m2", "e4m3"])
def test_results(name):
    kind = {"e5m2": dtypes.float8e5, "e4m3": dtypes.float8e4nv}[name]
    element = {"e5m2": ml_dtypes.float8_e5m2, "e4m3": ml_dtypes.float8_e4m3fn}[name]
    types = dict.fromkeys(("a", "b", "c"), pointer_type(kind))
    types |= {"out": pointer_type(dtypes.float32), "n": dtypes.int32}
    module = build(
        KernelFunction(two_dots), types, dict.fromkeys(("a", "b", "c", "out"), 16)
    ).module
    artifact = backend.compile(module, Options(num_warps=4, num_stages=2), target_info("sm_90a"))
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.integers(-2, 3, shape).astype(element) for shape in ((128, 32), (128, 32), (64, 128))
    )
    after = run_ptx(artifact, [a, b, c, np.zeros((128, 64), np.float32), 2], (1, 1, 1))
    with np.errstate(over="ignore"):
        s = (a.astype(np.float32) @ b.astype(np.float32).T).astype(element).astype(np.float64)
    np.testing.assert_array_equal(np.asarray(after[3]), s @ c.astype(np.float64).T)
    assert artifact.asm["ptx"].count("prmt.b32") >= 16


def compared_sums(a, b, c, out):
    m, k = tl.arange(0, 64), tl.arange(0, 32)
    s = tl.dot(tl.load(a + m[:, None] * 32 + k[None, :]), tl.load(b + k[:, None] * 32 + k[None, :]))
    y = tl.load(c + k[:, None] * 32 + k[None, :])
    tl.store(out + m[:, None] * 32 + k[None, :], tl.dot((s > 2).to(tl.int8), y))


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_truth_values_become_bytes(warps):
    """The conversion to int8 may follow the exchange: then the exchange is one of i1."""
    types = dict.fromkeys(("a", "b", "c"), pointer_type(dtypes.int8))
    types |= {"out": pointer_type(dtypes.int32)}
    module = build(KernelFunction(compared_sums), types, dict.fromkeys(types, 16)).module
    artifact = backend.compile(module, Options(num_warps=warps), target_info("sm_80"))
    rng = np.random.default_rng(1)
    a, b, c = (
        rng.integers(-2, 3, shape).astype(np.int8) for shape in ((64, 32), (32, 32), (32, 32))
    )
    after = run_ptx(artifact, [a, b, c, np.zeros((64, 32), np.int32)], (1, 1, 1))
    s = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(np.asarray(after[3]), (s > 2).astype(np.int32) @ c)
