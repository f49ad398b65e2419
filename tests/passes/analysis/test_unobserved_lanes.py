"""Which masked loads need no value where they are inactive."""

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import tile
from tilewright.frontend import build
from tilewright.passes.gpu.analysis.unobserved_lanes import inactive_lanes_unobserved
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


UNOBSERVED = (same_mask, narrower_store, through_pointers)
OBSERVED = (
    every_lane_stored, other_limit, other_pointers, reduced, stored_twice, chooses_addresses, carried
)  # fmt: skip
FLOATS, INTEGERS = dtypes.pointer_type(dtypes.float32), dtypes.pointer_type(dtypes.int32)
TYPES = {"x": FLOATS, "y": INTEGERS, "out": FLOATS, "n": dtypes.int32, "m": dtypes.int32}


@pytest.mark.parametrize("kernel", [*UNOBSERVED, *OBSERVED], ids=lambda k: k.__name__)
def test_masked_loads(kernel):
    module = build(kernel, TYPES).module
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"))
    masked = [
        op
        for op in module.walk()
        if isinstance(op, tile.LoadOp | tile.LoadViewOp)
        and (op.mask is not None or (isinstance(op, tile.LoadViewOp) and op.limits))
    ]
    assert masked
    assert all(inactive_lanes_unobserved(op) == (kernel in UNOBSERVED) for op in masked)
