"""Kernels of rows as their authors write them: one program a row, which is one tile, or a loop over parts of it.

`benchmarks/row_kernels.py` compiles the same source with tilewright and with Triton.
"""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl

# ---- the row as one tile ---------------------------------------------------------------------------------


@tw.jit
def softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + at + columns, e / tl.sum(e, 0), mask=columns < n)


@tw.jit
def rms_norm(x_ptr, w_ptr, out_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + columns, mask=columns < n, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / n + eps)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + at + columns, x * rstd * w, mask=columns < n)


@tw.jit
def rms_norm_backward(x_ptr, w_ptr, dy_ptr, rstd_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + columns, mask=columns < n, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at + columns, mask=columns < n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    slope = dy * w
    share = tl.sum(slope * x, 0) * rstd * rstd / n
    tl.store(dx_ptr + at + columns, (slope - x * share) * rstd, mask=columns < n)


@tw.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    centred = tl.where(columns < n, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + at + columns, centred * rstd * w + b, mask=columns < n)


@tw.jit
def layer_norm_backward(x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + columns, mask=columns < n, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at + columns, mask=columns < n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    hat = tl.where(columns < n, (x - mean) * rstd, 0.0)
    slope = dy * w
    along, shift = tl.sum(hat * slope, 0) / n, tl.sum(slope, 0) / n
    tl.store(dx_ptr + at + columns, (slope - hat * along - shift) * rstd, mask=columns < n)


@tw.jit
def cross_entropy(x_ptr, label_ptr, loss_ptr, dx_ptr, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    wanted = tl.load(x_ptr + at + label).to(tl.float32)
    x = tl.load(x_ptr + at + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    most = tl.max(x, 0)
    e = tl.exp(x - most)
    total = tl.sum(e, 0)
    tl.store(loss_ptr + row, most + tl.log(total) - wanted)
    slope = tl.where(columns == label, e / total - 1.0, e / total)
    tl.store(dx_ptr + at + columns, slope * scale, mask=columns < n)


# ---- loops over parts of the row -------------------------------------------------------------------------


@tw.jit
def softmax_loops(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at, columns = tl.program_id(0).to(tl.int64) * n, tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=float("-inf"))
        most = tl.maximum(most, x.to(tl.float32))
    highest = tl.max(most, 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=float("-inf"))
        total += tl.exp(x.to(tl.float32) - highest)
    whole = tl.sum(total, 0)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=float("-inf"))
        tl.store(
            out_ptr + at + i + columns,
            tl.exp(x.to(tl.float32) - highest) / whole,
            mask=i + columns < n,
        )


@tw.jit
def rms_norm_loops(x_ptr, w_ptr, out_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=0.0).to(tl.float32)
        total += x * x
    rstd = tl.rsqrt(tl.sum(total, 0) / n + eps)
    tl.store(rstd_ptr + row, rstd)
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + i + columns, mask=i + columns < n, other=0.0).to(tl.float32)
        tl.store(out_ptr + at + i + columns, x * rstd * w, mask=i + columns < n)


@tw.jit
def cross_entropy_loops(x_ptr, label_ptr, loss_ptr, dx_ptr, n, scale, BLOCK: tl.constexpr):
    """The maximum and the sum of a row in one loop, as Liger-Kernel and others do it."""
    row = tl.program_id(0)
    at, columns = row.to(tl.int64) * n, tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    wanted = tl.load(x_ptr + at + label).to(tl.float32)
    most, total = float("-inf"), 0.0
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=float("-inf"))
        x = x.to(tl.float32)
        now = tl.maximum(most, tl.max(x, 0))
        total = total * tl.exp(most - now) + tl.sum(tl.exp(x - now), 0)
        most = now
    for i in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + i + columns, mask=i + columns < n, other=float("-inf"))
        slope = tl.exp(x.to(tl.float32) - most) / total
        slope = tl.where(i + columns == label, slope - 1.0, slope) * scale
        tl.store(dx_ptr + at + i + columns, slope, mask=i + columns < n)
    tl.store(loss_ptr + row, most + tl.log(total) - wanted)
