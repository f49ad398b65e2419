"""Kernels for `replay_corpus.py` of forms that no other file of the repository has as a plain kernel."""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl


@tw.jit
def grouped_matmul(
    a, b, c, M, N, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    ACCUMULATOR: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = A @ B in grouped order, wrapped rows and columns, K masked: Triton's tutorial 03."""
    pid = tl.program_id(0)
    per_group = GROUP * tl.cdiv(N, BN)
    first = pid // per_group * GROUP
    rows_of_group = min(tl.cdiv(M, BM) - first, GROUP)
    m = (first + pid % per_group % rows_of_group) * BM
    n = pid % per_group // rows_of_group * BN
    k = tl.arange(0, BK)
    at_a = a + ((m + tl.arange(0, BM)) % M)[:, None] * stride_am + k[None, :]
    at_b = b + k[:, None] * stride_bk + ((n + tl.arange(0, BN)) % N)[None, :]
    total = tl.zeros((BM, BN), ACCUMULATOR)
    for step in range(0, tl.cdiv(K, BK)):
        x = tl.load(at_a, mask=k[None, :] < K - step * BK, other=0)
        y = tl.load(at_b, mask=k[:, None] < K - step * BK, other=0)
        total = tl.dot(x, y, total, out_dtype=ACCUMULATOR, input_precision=PRECISION)
        at_a += BK
        at_b += BK * stride_bk
    rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    at = c + rows[:, None] * stride_cm + columns[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=inside)


@tw.jit
def descriptor_matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    B_ROWS_OF_N: tl.constexpr,
):
    """C = A @ B by tensor descriptors; B is (N, K) with B_ROWS_OF_N, else (K, N)."""
    of_a = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    if B_ROWS_OF_N:
        of_b = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    else:
        of_b = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    of_c = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        if B_ROWS_OF_N:
            total = tl.dot(of_a.load([m, k]), of_b.load([n, k]).T, total)
        else:
            total = tl.dot(of_a.load([m, k]), of_b.load([k, n]), total)
    of_c.store([m, n], total.to(c.dtype.element_ty))


@tw.jit
def persistent_matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BIAS: tl.constexpr, bias
):
    """C = relu(A @ B + bias), tiles of C one after another in each program."""
    columns = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        rm = tile // columns * BM + tl.arange(0, BM)
        rn = tile % columns * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(
                a + rm[:, None] * K + rk[None, :], (rm[:, None] < M) & (rk[None, :] < K), 0.0
            )
            y = tl.load(
                b + rk[:, None] * N + rn[None, :], (rk[:, None] < K) & (rn[None, :] < N), 0.0
            )
            total = tl.dot(x, y, total)
        if BIAS:
            total = tl.maximum(total + tl.load(bias + rn, rn < N, 0.0)[None, :], 0.0)
        at = c + rm[:, None] * N + rn[None, :]
        tl.store(at, total.to(c.dtype.element_ty), (rm[:, None] < M) & (rn[None, :] < N))


@tw.jit
def gathered_matmul(a, rows, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows of A through a table of indices, as in paged attention and mixtures of experts."""
    m = tl.load(rows + tl.program_id(0) * BM + tl.arange(0, BM))
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None].to(tl.int64) * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        total = tl.dot(x, y, total)
    out = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(c + out[:, None] * N + n[None, :], total.to(c.dtype.element_ty))


@tw.jit
def histogram(x, counts, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Bins counted per program and added by atomics."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    found = tl.histogram(tl.load(x + at, at < n, 0), BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


@tw.jit
def atomics(x, index, out, last, n, BLOCK: tl.constexpr):
    """Scattered adds, maxima whose results are used, and an exchange under a condition."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, inside, 0.0)
    where = tl.load(index + at, inside, 0)
    tl.atomic_add(out + where, value, inside)
    before = tl.atomic_max(last + where, where, inside)
    tl.store(last + n + at, before, inside)
    if tl.atomic_cas(last, 0, 1) == 0:
        tl.store(out, 1.0)


@tw.jit
def first_order_scan(gate, x, out, n, BLOCK: tl.constexpr):
    """h[t] = gate[t] h[t-1] + x[t] by an associative scan of pairs."""
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    g = tl.load(gate + at, inside, 1.0)
    v = tl.load(x + at, inside, 0.0)
    _, h = tl.associative_scan((g, v), 0, _compose)
    tl.store(out + at, h, inside)


@tw.jit
def _compose(gate_left, left, gate_right, right):
    return gate_left * gate_right, left * gate_right + right


@tw.jit
def math_of_all_kinds(x, y, out, n, BLOCK: tl.constexpr):
    """Transcendental functions, integer division, selections and conversions, element by element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(x + at, at < n, 1.0).to(tl.float32)
    v = tl.load(y + at, at < n, 1)
    w = tl.exp(u) + tl.log(tl.abs(u) + 1) + tl.sin(u) * tl.cos(u) + tl.sqrt(tl.abs(u)) + tl.erf(u)
    w = tl.where(v % 3 == 0, w / (v + 1).to(tl.float32), tl.sigmoid(w) + tl.math.exp2(u))
    tl.store(out + at, w.to(out.dtype.element_ty), at < n)


@tw.jit
def nested_loops(x, out, lengths, n, BLOCK: tl.constexpr):
    """Loops of different lengths, one of them a `while`, conditions in both."""
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    start = 0
    while start < length:
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, at < length, float("-inf"))
        for shift in range(0, 3):
            if shift % 2 == 0:
                best = tl.maximum(best, v * shift)
            else:
                best = tl.maximum(best, v - shift)
        start += BLOCK
    tl.store(out + row, tl.max(best))
