"""# 2. Softmax

A reduction over a row that fits into one tile: the row is read once and written once.
"""

# %% One program per row. Lanes beyond the row read `-inf`, which neither the maximum nor the sum notices.
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def softmax(x_ptr, out_ptr, pitch, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * pitch + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * pitch + at, e / tl.sum(e, 0), mask=at < columns)


x = np.random.randn(64, 781).astype(np.float32)
out = np.empty_like(x)
softmax[(x.shape[0],)](x, out, x.shape[1], x.shape[1], BLOCK=tw.next_power_of_2(x.shape[1]))
wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
expected = wide / wide.sum(1, keepdims=True)
assert np.abs(out - expected).max() < 1e-6


# %% Rows longer than a tile take an *online* softmax: one pass keeps the maximum and the rescaled sum, a second writes.
@tw.jit
def online_softmax(x_ptr, out_ptr, pitch, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * pitch
    highest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + at, mask=at < columns, other=-float("inf"))
        new = tl.maximum(highest, tl.max(x, 0))
        total = total * tl.exp(highest - new) + tl.sum(tl.exp(x - new), 0)
        highest = new
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + at, mask=at < columns)
        tl.store(out_ptr + row + at, tl.exp(x - highest) / total, mask=at < columns)


out[:] = 0
online_softmax[(x.shape[0],)](x, out, x.shape[1], x.shape[1], BLOCK=256)
assert np.abs(out - expected).max() < 1e-6

# %% On a GPU a row that exceeds the registers of one CTA is distributed over a cluster by `distribute-rows-over-cluster`; the kernel
# stays as it is. `gpu.num_ctas` in the IR says so.
types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "pitch": "i32:16", "columns": "i32:16"}
long_rows = softmax.compile(types, {"BLOCK": 65536}, target="sm_90a", options={"num_warps": 16})
assert "gpu.num_ctas" in long_rows.asm["gpu"]
print("CTAs per row of 65536:", long_rows.plan.cluster_size)
