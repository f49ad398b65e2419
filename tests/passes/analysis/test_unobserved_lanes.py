"""Which masked loads need no value where they are inactive."""

import pytest
from xdsl.dialects.func import FuncOp

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import tile
from tilewright.frontend import build
from tilewright.passes.analysis.unobserved_lanes import (
    first_operations,
    inactive_lanes_unobserved,
)
from tilewright.passes.manager import run_pipeline


@tw.jit
def same_mask(x, y, out, n, m):
    at = tl.arange(0, 64)
    a = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, tl.where(a > 1, tl.exp(a), a * 2), mask=at < n)


@tw.jit
def narrower_store(x, y, out, n, m):
    at = tl.arange(0, 64)
    a = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, a * 2, mask=(at < n) & (a > 0))


@tw.jit
def through_pointers(x, y, out, n, m):
    at = tl.arange(0, 64)
    to = tl.load(y + at)
    live = to < n
    a = tl.load(x + to, mask=live, other=0)
    tl.store(out + to, a + 1, mask=live & (to > 3))


@tw.jit
def every_lane_stored(x, y, out, n, m):
    at = tl.arange(0, 64)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=7.0))


@tw.jit
def other_limit(x, y, out, n, m):
    at = tl.arange(0, 64)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=7.0), mask=at < m)


@tw.jit
def other_pointers(x, y, out, n, m):
    at = tl.arange(0, 64)
    to = tl.load(y + at)
    a = tl.load(x + to, mask=to < n, other=5)
    tl.store(out + to, a + 1, mask=to < m)


@tw.jit
def reduced(x, y, out, n, m):
    at = tl.arange(0, 64)
    a = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, a * tl.sum(a, 0), mask=at < n)


@tw.jit
def stored_twice(x, y, out, n, m):
    at = tl.arange(0, 64)
    a = tl.load(x + at, mask=at < n, other=0.0) + 1
    tl.store(out + at, a, mask=at < n)
    tl.store(out + 64 + at, a, mask=at < m)


@tw.jit
def chooses_addresses(x, y, out, n, m):
    at = tl.arange(0, 64)
    to = tl.load(y + at, mask=at < n, other=0)
    tl.store(out + to, to.to(tl.float32), mask=at < 64)


@tw.jit
def carried(x, y, out, n, m):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float32)
    for i in range(m):
        total += tl.load(x + i * 64 + at, mask=at < n, other=0.0)
    tl.store(out + at, total, mask=at < n)


@tw.jit
def after_a_reduction(x, y, out, n, m):
    at = tl.arange(0, 64)
    total = tl.sum(tl.load(y + at), 0)
    a = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, a * total, mask=at < n)


@tw.jit
def after_a_store(x, y, out, n, m):
    at = tl.arange(0, 64)
    tl.store(y + at, at)
    a = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, a, mask=at < n)


@tw.jit
def in_a_first_loop(x, y, out, n, m):
    at = tl.arange(0, 64)
    for i in range(m):
        a = tl.load(x + i * 64 + at, mask=at < n, other=0.0)
        tl.store(out + i * 64 + at, a, mask=at < n)


@tw.jit
def in_a_second_loop(x, y, out, n, m):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.int32)
    for i in range(m):
        total += tl.load(y + i * 64 + at)
    for i in range(m):
        a = tl.load(x + i * 64 + at, mask=at < n, other=0.0)
        tl.store(out + i * 64 + at, a + total, mask=at < n)


UNOBSERVED = (same_mask, narrower_store, through_pointers)
OBSERVED = (
    every_lane_stored, other_limit, other_pointers, reduced, stored_twice, chooses_addresses, carried
)  # fmt: skip
FLOATS, INTEGERS = dtypes.pointer_type(dtypes.float32), dtypes.pointer_type(dtypes.int32)
TYPES = {"x": FLOATS, "y": INTEGERS, "out": FLOATS, "n": dtypes.int32, "m": dtypes.int32}


def masked_loads(kernel):
    module = build(kernel, TYPES).module
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"))
    masked = [
        op
        for op in module.walk()
        if isinstance(op, tile.LoadOp | tile.LoadViewOp)
        and (op.mask is not None or (isinstance(op, tile.LoadViewOp) and op.limits))
    ]
    assert masked
    return masked


@pytest.mark.parametrize("kernel", [*UNOBSERVED, *OBSERVED], ids=lambda k: k.__name__)
def test_masked_loads(kernel):
    found = {inactive_lanes_unobserved(op) for op in masked_loads(kernel)}
    assert found == {kernel in UNOBSERVED}


FIRST = (same_mask, through_pointers, in_a_first_loop)
LATER = (after_a_reduction, after_a_store, in_a_second_loop)


@pytest.mark.parametrize("kernel", [*FIRST, *LATER], ids=lambda k: k.__name__)
def test_registers_are_left_undefined_only_where_nothing_was_computed_before(kernel):
    loads = masked_loads(kernel)
    function = loads[0]
    while not isinstance(function, FuncOp):
        function = function.parent_op()
    first = first_operations(function)
    found = [op in first for op in loads]
    assert (
        found[0] if kernel in FIRST else not any(found)
    )  # batches of a loop have more loops behind them
