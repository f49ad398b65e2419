"""Kernels whose tiles have many elements for each thread, as libraries for training write them.

`CASES` lists them with block sizes and warps: what a GPU's code for them costs is held by
`tests/backends/nvidia/test_code_size.py` and measured by `benchmarks/gpu_compile.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilewright as tw
import tilewright.language as tl

# ---- rows in blocks ---------------------------------------------------------------------------------------


@tw.jit
def cross_entropy(x, labels, loss, n, scale, BLOCK: tl.constexpr):
    """Softmax statistics online over blocks, then the gradient in place of the scores."""
    x += tl.program_id(0).to(tl.int64) * n
    label = tl.load(labels + tl.program_id(0))
    if label == -100:
        for i in range(0, n, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(x + at, 0.0, mask=at < n)
        return
    most, total = float("-inf"), 0.0
    wanted = tl.load(x + label).cast(tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        block = tl.load(x + at, mask=at < n, other=float("-inf")).cast(tl.float32)
        highest = tl.max(block)
        now = tl.maximum(most, highest)
        total = total * tl.exp(most - now) + tl.sum(tl.exp(block - now))
        most = now
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        block = tl.load(x + at, mask=at < n, other=float("-inf")).cast(tl.float32)
        slope = tl.exp(block - most) / total
        slope = tl.where(at == label, slope - 1.0, slope) * scale
        tl.store(x + at, slope, mask=at < n)
    tl.store(loss + tl.program_id(0), most + tl.log(total) - wanted)


@tw.jit
def divergence(p, t, loss, n, BLOCK: tl.constexpr):
    """KL divergence, a block at a time: stored and summed up."""
    p += tl.program_id(0).to(tl.int64) * n
    t += tl.program_id(0).to(tl.int64) * n
    total = 0.0
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        y = tl.load(p + at, mask=at < n, other=float("-inf"))
        z = tl.load(t + at, mask=at < n, other=0.0)
        part = z * (tl.log(tl.maximum(z, 1e-10)) - y)
        total += tl.sum(tl.where(at < n, part, 0.0))
    tl.store(loss + tl.program_id(0), total)


@tw.jit
def jensen_shannon(x, y, loss, slope, n, beta, BLOCK: tl.constexpr):
    """Two distributions in, loss and gradient out, a block at a time."""
    start = tl.program_id(0).to(tl.int64) * n
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        a = tl.load(x + start + at, mask=at < n, other=float("-inf")).to(tl.float32)
        b = tl.load(y + start + at, mask=at < n, other=float("-inf")).to(tl.float32)
        p, q = tl.exp(a), tl.exp(b)
        m = beta * p + (1 - beta) * q
        log_m = tl.log(m)
        tl.store(loss + start + at, beta * p * b + (1 - beta) * q * a - m * log_m, mask=at < n)
        tl.store(slope + start + at, (1 - beta) * q * (a - log_m), mask=at < n)


@tw.jit
def group_norm(x, out, mean, rstd, weight, bias, size, per_channel, BLOCK: tl.constexpr):
    """Sums over blocks, then blocks of every channel normalised: loops in loops."""
    x += tl.program_id(0).to(tl.int64) * size
    out += tl.program_id(0).to(tl.int64) * size
    total, squares = 0.0, 0.0
    for i in range(0, size, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < size, other=0.0).to(tl.float32)
        total += tl.sum(v)
        squares += tl.sum(v * v)
    m = total / size
    r = tl.rsqrt(squares / size - m * m + 1e-5)
    for channel in range(0, size // per_channel):
        w, b = tl.load(weight + channel), tl.load(bias + channel)
        for i in range(0, per_channel, BLOCK):
            at = i + tl.arange(0, BLOCK)
            inside = at < per_channel
            v = tl.load(x + channel * per_channel + at, mask=inside, other=m).to(tl.float32)
            tl.store(out + channel * per_channel + at, (v - m) * r * w + b, mask=inside)
    tl.store(mean + tl.program_id(0), m)
    tl.store(rstd + tl.program_id(0), r)


@tw.jit
def layer_norm_blocks(x, weight, bias, out, mean, rstd, n, BLOCK: tl.constexpr):
    """The tutorial's forward pass: tiles of sums carried by the loops."""
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    m = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        v = tl.where(at < n, v - m, 0.0)
        squares += v * v
    r = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + 1e-5)
    tl.store(mean + tl.program_id(0), m)
    tl.store(rstd + tl.program_id(0), r)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        inside = at < n
        w, b = tl.load(weight + at, mask=inside), tl.load(bias + at, mask=inside)
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + at, (v - m) * r * w + b, mask=inside)


@tw.jit
def dropout_add(x, y, out, n, seed, BLOCK: tl.constexpr):
    """Random numbers in a loop over blocks."""
    for i in range(tl.program_id(0) * BLOCK, n, BLOCK * tl.num_programs(0)):
        at = i + tl.arange(0, BLOCK)
        keep = tl.rand(seed, at) > 0.1
        v = tl.load(x + at, mask=at < n)
        tl.store(out + at, tl.where(keep, v / 0.9, 0.0) + tl.load(y + at, mask=at < n), mask=at < n)


@tw.jit
def largest_of_blocks(x, values, places, n, BLOCK: tl.constexpr):
    """Maximum and where it is, carried by the loop as scalars."""
    x += tl.program_id(0) * n
    best, where = float("-inf"), 0
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=float("-inf"))
        most, place = tl.max(v, 0, return_indices=True)
        where = tl.where(most > best, i + place, where)
        best = tl.maximum(best, most)
    tl.store(values + tl.program_id(0), best)
    tl.store(places + tl.program_id(0), where)


@tw.jit
def until_small(x, n, limit, BLOCK: tl.constexpr):
    """A `while` that halves a block until its sum is small."""
    x += tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    size = limit + 1.0
    while size > limit:
        v = tl.load(x + at, mask=at < n, other=0.0) * 0.5
        size = tl.sum(tl.abs(v))
        tl.store(x + at, v, mask=at < n)


# ---- whole rows ------------------------------------------------------------------------------------------


@tw.jit
def rms_norm_rows(x, weight, out, rstd, rows, n, CAST: tl.constexpr, BLOCK: tl.constexpr):
    """One program, many rows: what is loaded is needed twice in each iteration."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    w = tl.load(weight + at, mask=inside, other=0.0)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(v * v) / n + 1e-6)
        tl.store(rstd + row, r)
        v = v * r
        if CAST:
            v = v.to(w.dtype)
        tl.store(out + row * n + at, v * w, mask=inside)


@tw.jit
def layer_norm_backward(x, w, mean, rstd, dy, dx, dw, db, rows, n, BLOCK: tl.constexpr):
    """Rows of a program: gradients of the weights carried by the loop as tiles."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    weight = tl.load(w + at, mask=inside, other=0.0)
    slopes, shifts = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * rows
    for row in range(first, first + rows):
        v = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
        d = tl.load(dy + row * n + at, mask=inside, other=0.0).to(tl.float32)
        m, r = tl.load(mean + row), tl.load(rstd + row)
        hat = (v - m) * r
        wd = weight * d
        c1, c2 = tl.sum(hat * wd) / n, tl.sum(wd) / n
        tl.store(dx + row * n + at, (wd - (hat * c1 + c2)) * r, mask=inside)
        slopes += d * hat
        shifts += d
    tl.store(dw + tl.program_id(0) * n + at, slopes, mask=inside)
    tl.store(db + tl.program_id(0) * n + at, shifts, mask=inside)


@tw.jit
def layer_norm(x, weight, bias, out, mean, rstd, n, BLOCK: tl.constexpr):
    """A row a program."""
    start = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    w, b = tl.load(weight + at, mask=inside, other=0.0), tl.load(bias + at, mask=inside, other=0.0)
    m = tl.sum(v) / n
    away = tl.where(inside, v - m, 0.0)
    r = tl.rsqrt(tl.sum(away * away) / n + 1e-5)
    tl.store(mean + tl.program_id(0), m)
    tl.store(rstd + tl.program_id(0), r)
    tl.store(out + start + at, away * r * w + b, mask=inside)


@tw.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    """A row a program."""
    start = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    v = tl.load(x + start + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + start + at, e / tl.sum(e, axis=0), mask=at < n)


@tw.jit
def softmax_backward(p, dp, dx, n, BLOCK: tl.constexpr):
    """Two tiles that both loops need."""
    start = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    y = tl.load(p + start + at, mask=at < n, other=0.0).to(tl.float32)
    d = tl.load(dp + start + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(dx + start + at, y * (d - tl.sum(y * d)), mask=at < n)


@tw.jit
def softmax_rows(x, out, rows, n, BLOCK: tl.constexpr):
    """Triton's tutorial: programs that take row after row."""
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@tw.jit
def softmax_if(x, out, lengths, n, BLOCK: tl.constexpr):
    """A row's softmax in a branch."""
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    length = tl.load(lengths + tl.program_id(0))
    at = tl.arange(0, BLOCK)
    if length > 0:
        v = tl.load(x + at, mask=at < length, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + at, e / tl.sum(e, axis=0), mask=at < n)
    else:
        tl.store(out + at, 0.0, mask=at < n)


@tw.jit
def mean_of_rows(x, out, rows, n, BLOCK: tl.constexpr):
    """A tile carried over rows."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, rows):
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + at, total / rows, mask=at < n)


@tw.jit
def linear_recurrence(a, x, out, steps, n, BLOCK: tl.constexpr):
    """A state tile that every step of a loop changes and stores."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), tl.float32)
    for t in range(0, steps):
        gate = tl.sigmoid(tl.load(a + t * n + at, mask=at < n, other=0.0))
        state = gate * state + (1 - gate) * tl.load(x + t * n + at, mask=at < n, other=0.0)
        tl.store(out + t * n + at, state, mask=at < n)


@tw.jit
def count_with_atomics(x, counts, n, BLOCK: tl.constexpr):
    """Atomic additions in a loop over blocks."""
    for i in range(tl.program_id(0) * BLOCK, n, BLOCK * tl.num_programs(0)):
        at = i + tl.arange(0, BLOCK)
        where = tl.load(x + at, mask=at < n, other=0)
        tl.atomic_add(counts + where, 1, mask=at < n)


# ---- tiles of two dimensions -------------------------------------------------------------------------------


@tw.jit
def softmax_tiles(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Rows of a tile."""
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    inside = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=inside, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(out + r[:, None] * N + c[None, :], e / tl.sum(e, 1)[:, None], mask=inside)


@tw.jit
def sums_of_columns(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Sums of columns over tiles: a tile carried, reduced at the end."""
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for i in range(0, M, BM):
        r = i + tl.arange(0, BM)
        inside = (r[:, None] < M) & (c[None, :] < N)
        total += tl.load(x + r[:, None] * N + c[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + c, tl.sum(total, 0), mask=c < N)


@tw.jit
def sums_in_the_loop(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Sums of columns, each tile reduced at once: a row carried."""
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for i in range(0, M, BM):
        r = i + tl.arange(0, BM)
        inside = (r[:, None] < M) & (c[None, :] < N)
        v = tl.load(x + r[:, None] * N + c[None, :], mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(v, 0)
    tl.store(out + c, total, mask=c < N)


@tw.jit
def sums_of_rows(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Sums along rows over tiles, and their maxima."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    total, most = tl.zeros((BM,), tl.float32), tl.full((BM,), float("-inf"), tl.float32)
    for i in range(0, N, BN):
        c = i + tl.arange(0, BN)
        inside = (r[:, None] < M) & (c[None, :] < N)
        v = tl.load(x + r[:, None] * N + c[None, :], mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(v, 1)
        most = tl.maximum(most, tl.max(v, 1))
    tl.store(out + r, total / most, mask=r < M)


@tw.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N))
    tl.store(
        out + c[:, None] * M + r[None, :], tl.trans(v), mask=(c[:, None] < N) & (r[None, :] < M)
    )


@tw.jit
def transpose_loop(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Tiles of a strip, turned one after another."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    for i in range(0, N, BN):
        c = i + tl.arange(0, BN)
        v = tl.load(x + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N))
        tl.store(
            out + c[:, None] * M + r[None, :],
            tl.trans(v) * 2,
            mask=(c[:, None] < N) & (r[None, :] < M),
        )


@tw.jit
def copy_tiles(x, y, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Element-wise tiles in a loop over columns."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    for i in range(0, N, BN):
        c = i + tl.arange(0, BN)
        inside = (r[:, None] < M) & (c[None, :] < N)
        at = r[:, None] * N + c[None, :]
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(y + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + at, v * tl.sigmoid(v) * w, mask=inside)


# ---- scans and sorts ---------------------------------------------------------------------------------------


@tw.jit
def cumulative(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out + tl.program_id(0) * n + at, tl.cumsum(v, 0), mask=at < n)


@tw.jit
def cumulative_blocks(x, out, n, BLOCK: tl.constexpr):
    """Scans of blocks, with a sum carried on."""
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    before = 0.0
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=0.0)
        tl.store(out + at, before + tl.cumsum(v, 0), mask=at < n)
        before += tl.sum(v)


@tw.jit
def cumulative_tiles(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Scans along rows of a tile."""
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    inside = (r[:, None] < M) & (c[None, :] < N)
    v = tl.load(x + r[:, None] * N + c[None, :], mask=inside, other=0.0)
    tl.store(out + r[:, None] * N + c[None, :], tl.cumsum(v, 1), mask=inside)


@tw.jit
def sorted_rows(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=float("inf"))
    tl.store(out + tl.program_id(0) * n + at, tl.sort(v), mask=at < n)


# ---- the list ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A kernel with types, constants and warps."""

    kernel: Any
    types: dict[str, str]
    constants: dict[str, Any]
    warps: int = 4

    @property
    def name(self) -> str:
        sizes = "x".join(str(v) for v in self.constants.values() if not isinstance(v, bool))
        return f"{self.kernel.__name__} {sizes} w{self.warps}"


F32, F16, BF16, I32, I64 = "*fp32:16", "*fp16:16", "*bf16:16", "i32", "i64"


def _row(kernel: Any, kinds: str, block: int, warps: int, **constants: Any) -> Case:
    names = {"f": F32, "h": F16, "b": BF16, "i": I32, "I": "*i32:16", "L": "*i64:16", "s": "fp32"}
    names["n"] = "i32:16"
    parameters = [p for p in kernel.arg_names if not p.isupper() or p in ("M", "N")]
    types = dict(zip(parameters, (names[k] for k in kinds), strict=True))
    return Case(kernel, types, {**constants, "BLOCK": block}, warps)


def _tile(kernel: Any, kinds: str, rows: int, columns: int, warps: int) -> Case:
    case = _row(kernel, kinds, 0, warps)
    return Case(kernel, case.types, {"BM": rows, "BN": columns}, warps)


CASES = [
    _row(cross_entropy, "fLfns", 32768, 32), _row(cross_entropy, "bLfns", 65536, 32),
    _row(cross_entropy, "fLfns", 65536, 16), _row(cross_entropy, "fLfns", 65536, 4),
    _row(divergence, "fffn", 65536, 32), _row(divergence, "fffn", 32768, 4),
    _row(jensen_shannon, "ffffns", 65536, 32), _row(jensen_shannon, "bbffns", 32768, 8),
    _row(group_norm, "ffffffnn", 65536, 32), _row(group_norm, "hhffhhnn", 16384, 4),
    _row(layer_norm_blocks, "ffffffn", 16384, 8), _row(layer_norm_blocks, "hhhhffn", 65536, 4),
    _row(dropout_add, "fffni", 16384, 4), _row(largest_of_blocks, "ffIn", 65536, 8),
    _row(until_small, "fns", 32768, 4), _row(rms_norm_rows, "bbbfnn", 32768, 16, CAST=True),
    _row(rms_norm_rows, "ffffnn", 65536, 32, CAST=False),
    _row(rms_norm_rows, "ffffnn", 65536, 4, CAST=False),
    _row(layer_norm_backward, "ffffffffnn", 8192, 16),
    _row(layer_norm_backward, "ffffffffnn", 32768, 8),
    _row(layer_norm_backward, "bbffbbffnn", 65536, 32), _row(layer_norm, "ffffffn", 65536, 32),
    _row(layer_norm, "hhhhffn", 65536, 8), _row(softmax, "ffn", 32768, 8),
    _row(softmax_backward, "fffn", 65536, 32), _row(softmax_backward, "hhhn", 131072, 16),
    _row(softmax_rows, "ffnn", 65536, 16), _row(softmax_rows, "hhnn", 32768, 4),
    _row(softmax_if, "ffIn", 65536, 8), _row(mean_of_rows, "ffnn", 65536, 4),
    _row(mean_of_rows, "ffnn", 16384, 4), _row(linear_recurrence, "fffnn", 16384, 4),
    _row(linear_recurrence, "fffnn", 65536, 4), _row(count_with_atomics, "IIn", 32768, 4),
    _tile(softmax_tiles, "ffnn", 256, 256, 4), _tile(softmax_tiles, "hhnn", 64, 4096, 8),
    _tile(sums_of_columns, "ffnn", 256, 256, 4), _tile(sums_in_the_loop, "ffnn", 256, 256, 4),
    _tile(sums_of_rows, "ffnn", 256, 256, 4), _tile(transpose, "ffnn", 256, 256, 4),
    _tile(transpose_loop, "ffnn", 256, 256, 4), _tile(copy_tiles, "hhhnn", 256, 256, 4),
    _row(cumulative, "ffn", 65536, 4), _row(cumulative_blocks, "ffn", 32768, 4),
    _tile(cumulative_tiles, "ffnn", 256, 256, 4), _row(sorted_rows, "ffn", 4096, 4),
    _row(sorted_rows, "ffn", 16384, 4),
]  # fmt: skip
