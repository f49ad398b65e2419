"""Correct kernels, written the usual way, at odd sizes: no check may reject one.

Each case launches a kernel and gives (result, what it should be).
"""

import numpy as np

import tilewright as tw
import tilewright.language as tl

rng = np.random.default_rng(7)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@tw.jit
def add_kernel(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(o_ptr + offsets, x + y, mask=mask)


def add():
    x, y = floats(1003), floats(1003)
    out = np.empty_like(x)
    add_kernel[(4,)](x, y, out, 1003, BLOCK=256)
    return out, x + y


@tw.jit
def softmax_kernel(o_ptr, x_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(o_ptr + row * stride + i, e / tl.sum(e, axis=0), mask=i < columns)


def softmax():
    x = floats(5, 77)
    out = np.empty_like(x)
    softmax_kernel[(5,)](out, x, 77, 77, BLOCK=128)
    e = np.exp(x - x.max(1, keepdims=True))
    return out, e / e.sum(1, keepdims=True)


@tw.jit
def layernorm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, stride, n, eps, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride
    y_ptr += tl.program_id(0) * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < n, other=0.0)
    mean = tl.sum(total, axis=0) / n
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        x = tl.where(i < n, x - mean, 0.0)
        square += x * x
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / n + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < n
        w = tl.load(w_ptr + i, mask=mask)
        b = tl.load(b_ptr + i, mask=mask)
        x = tl.load(x_ptr + i, mask=mask, other=0.0)
        tl.store(y_ptr + i, (x - mean) * scale * w + b, mask=mask)


def layernorm():
    x, w, b = floats(3, 100), floats(100), floats(100)
    out = np.empty_like(x)
    layernorm_kernel[(3,)](x, out, w, b, 100, 100, 1e-5, BLOCK=32)
    centred = x - x.mean(1, keepdims=True)
    return out, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b


@tw.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * columns)
    height = min(rows - group * GROUP, GROUP)
    m = group * GROUP + (pid % (GROUP * columns)) % height
    n = (pid % (GROUP * columns)) // height
    offs_m = (m * BM + tl.arange(0, BM)) % M
    offs_n = (n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + offs_m[:, None] * sam + offs_k[None, :] * sak
    b_ptrs = b_ptr + offs_k[:, None] * sbk + offs_n[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    offs_cm = m * BM + tl.arange(0, BM)
    offs_cn = n * BN + tl.arange(0, BN)
    inside = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptr + offs_cm[:, None] * scm + offs_cn[None, :] * scn, acc, mask=inside)


def steps(array):
    return [s // array.itemsize for s in array.strides]


def matmul(a=None, b=None):
    a, b = floats(33, 50) if a is None else a, floats(50, 19) if b is None else b
    (M, K), N = a.shape, b.shape[1]
    out = np.zeros((M, N), np.float32)
    matmul_kernel[(tw.cdiv(M, 16) * tw.cdiv(N, 16),)](
        a, b, out, M, N, K, *steps(a), *steps(b), *steps(out), BM=16, BN=16, BK=32, GROUP=2
    )
    return out, a @ b


def matmul_of_views():
    """Transposed, and reversed along both dimensions: negative strides."""
    return matmul(floats(50, 33).T, floats(50, 19)[::-1, ::-1])


@tw.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, T, D, scale,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], (m[:, None] < T) & (d[None, :] < D), 0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        n = start + tl.arange(0, BN)
        inside = (n[:, None] < T) & (d[None, :] < D)
        k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((m[:, None] >= n[None, :]) & (n[None, :] < T), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p, v, acc * alpha[:, None])
        top = new
    acc = acc / total[:, None]
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc, (m[:, None] < T) & (d[None, :] < D))


def attention():
    T, D = 45, 24
    q, k, v = floats(T, D), floats(T, D), floats(T, D)
    out = np.zeros_like(q)
    attention_kernel[(3,)](q, k, v, out, T, D, D**-0.5, BM=16, BN=16, BD=32)
    s = np.where(np.tri(T, dtype=bool), q @ k.T * D**-0.5, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return out, p / p.sum(1, keepdims=True) @ v


@tw.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, stride, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < half
    cos = tl.load(cos_ptr + row * half + i, mask=mask)
    sin = tl.load(sin_ptr + row * half + i, mask=mask)
    a = tl.load(x_ptr + row * stride + i, mask=mask)
    b = tl.load(x_ptr + row * stride + half + i, mask=mask)
    tl.store(x_ptr + row * stride + i, a * cos - b * sin, mask=mask)
    tl.store(x_ptr + row * stride + half + i, b * cos + a * sin, mask=mask)


def rope():
    x, cos, sin = floats(7, 40), floats(7, 20), floats(7, 20)
    a, b = x[:, :20].copy(), x[:, 20:].copy()
    rope_kernel[(7,)](x, cos, sin, 40, 20, BLOCK=32)
    return x, np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)


@tw.jit
def hash_kernel(o_ptr, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = (i + seed) * 1103515245 + 12345
    h = (h ^ (h >> 16)) * 0x45D9F3B
    keep = tl.rand(seed, i) < 0.5
    tl.store(o_ptr + i, tl.where(keep, h & 1023, -1), mask=i < n)


def hashes():
    """Arithmetic that wraps on purpose, in signed integers."""
    out = np.zeros(100, np.int32)
    hash_kernel[(2,)](out, 100, 77, BLOCK=64)
    return (out >= -1) & (out < 1024), np.ones(100, bool)


@tw.jit
def count_kernel(x_ptr, total_ptr, histogram_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(total_ptr, tl.sum(x))
    tl.atomic_add(histogram_ptr + x, 1, mask=i < n)


def counts():
    """Atomics, scalar and scattered."""
    x = rng.integers(0, 8, 300).astype(np.int32)
    total, histogram = np.zeros(1, np.int32), np.zeros(8, np.int32)
    count_kernel[(5,)](x, total, histogram, 300, BLOCK=64)
    return np.append(histogram, total), np.append(np.bincount(x, minlength=8), x.sum())


@tw.jit
def mean_kernel(x_ptr, o_ptr, lengths_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    length = tl.load(lengths_ptr + row)
    x = tl.load(x_ptr + row * width + i, mask=i < length)
    y = tl.where(i < length, 1.0 / x, 0.0)  # lanes beyond give 1/0, and nobody uses them
    tl.store(o_ptr + row, tl.sum(y) / length)


def means():
    """Rows of lengths that are read; a reciprocal of lanes that a mask turned off."""
    x, lengths = floats(4, 30), np.array([30, 1, 17, 8], np.int32)
    out = np.zeros(4, np.float32)
    mean_kernel[(4,)](x, out, lengths, 30, BLOCK=32)
    return out, np.array([(1 / x[r, :n]).mean() for r, n in enumerate(lengths)])


@tw.jit
def reverse_kernel(x_ptr, o_ptr, index_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + i, mask=i < n, other=0)
    x = tl.load(x_ptr + index, mask=i < n)
    tl.store(o_ptr - i, x, mask=i < n)


def gathers():
    """A gather, and a store that runs backwards from the last element."""
    x, index = floats(90), rng.permutation(90).astype(np.int64)
    out = np.zeros(90, np.float32)
    reverse_kernel[(3,)](x, out[::-1], index, 90, BLOCK=32)
    return out, x[index][::-1]


@tw.jit
def window_kernel(x_ptr, o_ptr, rows, columns, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (-1, 0), (B, B), (1, 0))
    o = tl.make_tensor_descriptor(o_ptr, [rows, columns], [columns, 1], [B, B])
    tile = tl.load(x, boundary_check=(0, 1), padding_option="zero")
    below = tl.load(tl.advance(x, (2, 0)), boundary_check=(0, 1), padding_option="zero")
    o.store([0, 0], tile + below)


def windows():
    """Block pointers and descriptors that reach beyond their array."""
    x, out = floats(9, 12), np.zeros((9, 12), np.float32)
    window_kernel[(1,)](x, out, 9, 12, B=16)
    padded = np.pad(x, ((1, 1), (0, 0)))
    return out, padded[:-2] + padded[2:]


@tw.jit
def update_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for step in range(3):
        if step % 2 == 0:
            x = x * 2
        tl.store(x_ptr + i, x, mask=i < n)
        x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + 1, mask=i < n)


def updates():
    """In place, several times."""
    x = floats(70)
    before = x.copy()
    update_kernel[(3,)](x, 70, BLOCK=32)
    return x, before * 4 + 1


CASES = (
    add, softmax, layernorm, matmul, matmul_of_views, attention, rope, hashes, counts, means,
    gathers, windows, updates,
)  # fmt: skip
