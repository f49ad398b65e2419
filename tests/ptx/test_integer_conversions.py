"""Integers become fp16 and bf16 with one rounding."""

import math

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.test_ptx import TARGETS

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

INTEGERS = {"int32": dtypes.int32, "uint32": dtypes.uint32, "int64": dtypes.int64, "uint64": dtypes.uint64}  # fmt: skip
FLOATS = {"float16": (dtypes.float16, np.float16, 11), "bfloat16": (dtypes.bfloat16, ml_dtypes.bfloat16, 8)}  # fmt: skip


def converted(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


def rounded(value, bits):
    """`value` rounded to `bits` binary digits, ties to even."""
    shift = max(0, abs(value).bit_length() - bits)
    kept, rest = divmod(abs(value), 1 << shift)
    half = (1 << shift) >> 1
    up = shift and (rest > half or (rest == half and kept & 1))
    return math.copysign(float((kept + bool(up)) << shift), value) if value else 0.0


def values(kind):
    """Integers around those halfway between two floats, of every size."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    rng = np.random.default_rng(0)
    found = [0, 1, low, high, high - 1]
    for bits in (8, 11):
        for size in range(bits, 64):
            kept = int(rng.integers(1 << bits - 1, 1 << bits)) << (size - bits)
            half = (1 << (size - bits)) >> 1
            found += [s * (kept + half + d) for s in (1, -1) for d in (-1, 0, 1)]
    return np.array([v for v in found if low <= v <= high], kind)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("floating", FLOATS)
@pytest.mark.parametrize("integer", INTEGERS)
def test_one_rounding(integer, floating, target):
    x = values(np.dtype(integer))
    n = 1 << (len(x) - 1).bit_length()
    x = np.resize(x, n)
    kind, held, bits = FLOATS[floating]
    signature = {"x": dtypes.pointer_type(INTEGERS[integer]), "out": dtypes.pointer_type(kind)}
    signature["N"] = constexpr(n)
    module = build(KernelFunction(converted), signature, {"x": 16, "out": 16}).module
    artifact = backend.compile(module, Options(num_warps=2), target_info(target))
    after = run_ptx(artifact, [x, np.zeros(n, held)], (1,))
    with np.errstate(over="ignore"):
        wanted = np.array([rounded(int(v), bits) for v in x]).astype(held)
    np.testing.assert_array_equal(np.asarray(after[1]), wanted)
