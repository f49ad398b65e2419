"""# 4. Layer norm, forward and backward

The backward pass sums the gradients of weights over rows that different programs handle: partial sums per group of rows, then a
second kernel. Atomics would do as well, but then the order of additions, and so the last bits, would vary.
"""

# %% Forward: mean and reciprocal standard deviation are kept for the backward pass.
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def forward(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, at < N, 0.0)
    mean = tl.sum(x, 0) / N
    centered = tl.where(at < N, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, 0) / N + eps)
    w, b = tl.load(w_ptr + at, at < N), tl.load(b_ptr + at, at < N)
    tl.store(out_ptr + row * N + at, centered * rstd * w + b, at < N)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


# %% Backward: each program walks every `PROGRAMS`-th row and carries the sums for the weights in a tile.
@tw.jit
def backward(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, M, N,
             BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):  # fmt: skip
    program, at = tl.program_id(0), tl.arange(0, BLOCK)
    w = tl.load(w_ptr + at, at < N, 0.0)
    dw, db = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for row in range(program, M, PROGRAMS):
        x = tl.load(x_ptr + row * N + at, at < N, 0.0)
        dy = tl.load(dy_ptr + row * N + at, at < N, 0.0)
        rstd = tl.load(rstd_ptr + row)
        normed = tl.where(at < N, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        wdy = w * dy
        c1, c2 = tl.sum(normed * wdy, 0) / N, tl.sum(wdy, 0) / N
        tl.store(dx_ptr + row * N + at, (wdy - normed * c1 - c2) * rstd, at < N)
        dw += dy * normed
        db += dy
    tl.store(dw_ptr + program * N + at, dw, at < N)
    tl.store(db_ptr + program * N + at, db, at < N)


@tw.jit
def sum_rows(part_ptr, out_ptr, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.arange(0, ROWS)
    parts = tl.load(part_ptr + rows[:, None] * N + at[None, :], at[None, :] < N, 0.0)
    tl.store(out_ptr + at, tl.sum(parts, 0), at < N)


# %% Checked against float64.
M, N, PROGRAMS = 33, 200, 4
x, dy = np.random.randn(2, M, N).astype(np.float32)
w, b = np.random.randn(2, N).astype(np.float32)
out, dx = np.empty_like(x), np.empty_like(x)
mean, rstd = np.empty((2, M), np.float32)
forward[(M,)](x, w, b, out, mean, rstd, N, 1e-5, BLOCK=256)
parts = np.empty((2, PROGRAMS, N), np.float32)
backward[(PROGRAMS,)](
    dy, x, w, mean, rstd, dx, parts[0], parts[1], M, N, BLOCK=256, PROGRAMS=PROGRAMS
)
dw, db = np.empty((2, N), np.float32)
for part, total in zip(parts, (dw, db), strict=True):
    sum_rows[(tw.cdiv(N, 64),)](part, total, N, ROWS=PROGRAMS, BLOCK=64)

wide = x.astype(np.float64)
deviation = np.sqrt(wide.var(1, keepdims=True) + 1e-5)
normed = (wide - wide.mean(1, keepdims=True)) / deviation
wdy = dy * w.astype(np.float64)
expected = wdy - normed * (normed * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)
assert np.abs(out - (normed * w + b)).max() < 1e-5
assert np.abs(dx - expected / deviation).max() < 1e-5
assert np.abs(dw - (dy * normed).sum(0)).max() < 1e-4 and np.abs(db - dy.sum(0)).max() < 1e-4
print("dx, dw and db agree with float64")
