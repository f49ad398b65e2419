"""Conjunctions and disjunctions of comparisons of 16-bit floats, two at a time."""

import re

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

TYPES = {
    "bf16": (dtypes.bfloat16, ml_dtypes.bfloat16),
    "f16": (dtypes.float16, np.float16),
}
HOLDS = {"ne": lambda v: v != 0, "gt": lambda v: v > 0}


@tw.jit
def both(a, b):
    return a & b


@tw.jit
def either(a, b):
    return a | b


def conditions(x, out, n, last, M: tl.constexpr, N: tl.constexpr, ALL: tl.constexpr, HOW: tl.constexpr):  # fmt: skip
    """For each row whether a comparison with 0 holds for all or any of its elements, as a loop finds it."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    found = tl.full([M, N], ALL, tl.int1)
    for start in range(0, n, N):
        columns = start + tl.arange(0, N)
        inside = (rows < last)[:, None] & (columns < n)[None, :]
        neutral = 1.0 if ALL else 0.0
        value = tl.load(x + rows[:, None] * n + columns[None, :], mask=inside, other=neutral)
        holds = value != 0 if HOW == "ne" else value > 0
        found = found & holds if ALL else found | holds
    tl.store(out + rows, tl.reduce(found, 1, both if ALL else either), mask=rows < last)


def whole(x, out, n, last, M: tl.constexpr, N: tl.constexpr, ALL: tl.constexpr, HOW: tl.constexpr):
    """The same of a tile."""
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    value = tl.load(x + rows[:, None] * N + columns[None, :])
    holds = value != 0 if HOW == "ne" else value > 0
    tl.store(out + rows, tl.reduce(holds, 1, both if ALL else either))


@pytest.mark.sampled(4, full=3)
@pytest.mark.parametrize("how", list(HOLDS))
@pytest.mark.parametrize(("target", "kind"), [("sm_90a", "bf16"), ("sm_90a", "f16"), ("sm_80", "bf16")])  # fmt: skip
@pytest.mark.parametrize("all_of", [True, False])
@pytest.mark.parametrize("function", [conditions, whole])
def test_conditions(function, all_of, target, kind, how):
    type_, numpy_type = TYPES[kind]
    types = {"x": dtypes.pointer_type(type_), "out": dtypes.pointer_type(dtypes.int1)}
    types |= dict.fromkeys(("n", "last"), dtypes.int32)
    types |= {
        "M": constexpr(4),
        "N": constexpr(128),
        "HOW": constexpr(how),
        "ALL": constexpr(all_of),
    }
    module = build(KernelFunction(function), types, {"x": 16, "out": 16, "n": 16}).module
    artifact = backend.compile(module, Options(num_warps=1), target_info(target))
    words = re.findall(rf"set\.\w+\.{kind}x2\.{kind}x2", artifact.asm["ptx"])
    assert bool(words) == (target == "sm_90a"), artifact.asm["ptx"]

    rng, (rows, n) = np.random.default_rng(5), (4, 128 if function is whole else 272)
    x = (rng.random((rows, n)) + 0.5).astype(numpy_type)
    x[1, 77], x[2] = -0.0, -x[2]
    x[3, :], x[3, 100], x[0, 3] = 0, np.nan, np.inf
    found = run_ptx(artifact, [x, np.zeros(rows, bool), n, rows], (1,))[1]
    holds = HOLDS[how](x.astype(np.float32))
    np.testing.assert_array_equal(found, holds.all(1) if all_of else holds.any(1))
