"""Loops split where a condition on their counter changes run the same iterations, at any bounds."""

import itertools

import numpy as np
import pytest
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline
from tilewright.passes.registry import parse_pipeline

TARGET = target_info("sm_90a")
BEFORE = "normalize-loops,simplify,cse"
LAST = 2**31 - 1


def kernel(p, lo, hi, end, other, STEP: tl.constexpr, SIDE: tl.constexpr):
    """Dots in the first or the last iterations; each iteration leaves its index in the sums."""
    at = p + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(at)
    acc = x
    for i in range(lo, hi, STEP):
        acc += (i - lo + 1).to(tl.float32)
        if SIDE == "before":
            if i < end:
                acc = tl.dot(x, acc)
        elif SIDE == "until":
            if end >= i:
                acc = tl.dot(x, acc)
        elif SIDE == "behind":
            if i > end:
                acc = tl.dot(x, acc)
            else:
                acc = tl.dot(acc, x)
        elif SIDE == "from":
            if i >= end - other:
                acc = tl.dot(x, acc)
        else:
            if i < end:
                acc = tl.dot(x, acc)
            if i >= other:
                acc = tl.dot(acc, x)
        acc *= 0.25
    tl.store(at, acc)


def module_of(side, step, narrow=True):
    integer = dtypes.int32 if narrow else dtypes.int64
    signature = {
        "p": dtypes.pointer_type(dtypes.float32), "lo": dtypes.int32, "hi": dtypes.int32, "end": integer,
        "other": integer, "STEP": constexpr(step), "SIDE": constexpr(side),
    }  # fmt: skip
    return build(KernelFunction(kernel), signature, {}).module


def loops(module):
    return sum(op.name == "scf.for" for op in module.walk())


SIDES = ("before", "until", "behind", "from", "both")


@pytest.mark.sampled(4, full=4)
@pytest.mark.parametrize("narrow", (True, False))
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("step", (1, 3, 64))
def test_the_same_iterations_run(side, step, narrow):
    before, after = module_of(side, step, narrow), module_of(side, step, narrow)
    run_pipeline(before, parse_pipeline(BEFORE), TARGET)
    run_pipeline(after, parse_pipeline(f"{BEFORE},split-loop-bounds"), TARGET, verify="each")
    assert loops(before) == 1
    assert loops(after) == (4 if side == "both" else 2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 16)).astype(np.float32) / 8
    far = 5 * step
    spans = [
        (0, far),
        (0, far + 1),
        (-7, far),
        (3, 3),
        (9, 2),
        (LAST - far, LAST),
        (-LAST - 1, far - LAST),
    ]
    for lo, hi in spans:
        ends = {
            lo - 1,
            lo,
            lo + 1,
            lo + 2 * step,
            lo + 2 * step + 1,
            hi - 1,
            hi,
            0,
            LAST,
            -LAST - 1,
        }
        ends |= set() if narrow else {2**40, -(2**40)}
        fitting = sorted(e for e in ends if not narrow or -LAST - 1 <= e <= LAST)
        for end, other in itertools.product(fitting, (0, 5)):
            arguments = [x, lo, hi, end, other]
            expected, found = (run_on_copies(m, arguments, (1,)) for m in (before, after))
            np.testing.assert_array_equal(found[0], expected[0], err_msg=f"{lo} {hi} {end} {other}")


@pytest.mark.parametrize("side", SIDES)
def test_no_dot_of_a_split_loop_is_in_a_branch(side):
    module = module_of(side, 1)
    run_pipeline(module, nvidia_passes(), TARGET, verify="level")
    dots = [op for op in module.walk() if op.name in ("tile.dot", "gpu.wgmma")]
    assert dots
    assert all(op.parent_op().name != "scf.if" for op in dots)
