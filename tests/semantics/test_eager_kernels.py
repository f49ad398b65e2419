"""Whole kernels run as plain Python on `TensorValue`s, and through the front end."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as tl
from tilewright import dtypes as t
from tilewright.language.kernel_function import KernelFunction


@KernelFunction
def softmax(x_ptr, y_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) - 4
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < columns, other=-float("inf"))
    top = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * stride + offsets, top / tl.sum(top, axis=0), mask=offsets < columns)


@KernelFunction
def _leaky(x, slope: tl.constexpr):
    return tl.where(x >= 0, x, slope * x)


@KernelFunction
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0) - 5
    blocks_m, blocks_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * blocks_n
    first = pid // in_group * GROUP
    rows = min(blocks_m - first, GROUP)
    pid_m = first + (pid % in_group) % rows
    pid_n = (pid % in_group) // rows
    offs_m = (pid_m * BM + tl.arange(0, BM)) % M
    offs_n = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_m[:, None] * K + offs_k[None, :])
    b_ptrs = b_ptr + (offs_k[:, None] * N + offs_n[None, :])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    acc = _leaky(acc, 0.5)
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(
        c_ptr + N * offs_m[:, None] + offs_n[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside
    )


@KernelFunction
def row_sums(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    window = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0))
    total = tl.zeros((BM,), tl.float32)
    for _ in tl.range(0, N, BN):
        total += tl.sum(tl.load(window, boundary_check=(0, 1), padding_option="zero"), 1)
        window = tl.advance(window, (0, BN))
    tl.store(y_ptr + tl.arange(0, BM), total, mask=tl.arange(0, BM) < M)


@pytest.fixture
def scalar(make):
    return lambda value: make(value, t.int32)


def read(sem, address, shape, kind):
    count = int(np.prod(shape))
    raw = sem.builder.memory[address : address + count * np.dtype(kind).itemsize]
    return raw.view(kind).reshape(shape)


def test_softmax(sem, place, scalar):
    data = np.random.default_rng(0).standard_normal((3, 10)).astype(np.float32)
    x, y = place(data, t.float32), place(np.zeros_like(data), t.float32, 4096)
    softmax(x, y, scalar(10), scalar(10), 16)
    expected = np.exp(data[1]) / np.exp(data[1]).sum()
    np.testing.assert_allclose(read(sem, 4096, (3, 10), np.float32)[1], expected, rtol=1e-6)


@pytest.mark.parametrize("constants", [lambda v: v, tl.constexpr])
def test_matmul(sem, place, scalar, constants):
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal((7, 9)).astype(np.float16),
        rng.standard_normal((9, 6)).astype(np.float16),
    )
    pointers = [
        place(a, t.float16),
        place(b, t.float16, 2048),
        place(np.zeros(42), t.float16, 4096),
    ]
    sizes = [scalar(v) for v in (7, 6, 9)]
    matmul(*pointers, *sizes, *[constants(v) for v in (8, 8, 4, 2)])
    product = a.astype(np.float64) @ b.astype(np.float64)
    expected = np.where(product >= 0, product, product / 2)
    np.testing.assert_allclose(read(sem, 4096, (7, 6), np.float16), expected, rtol=1e-3, atol=1e-3)


def test_block_pointers_in_a_loop(sem, place, scalar):
    data = np.random.default_rng(0).standard_normal((5, 13)).astype(np.float32)
    x, y = place(data, t.float32), place(np.zeros(5, np.float32), t.float32, 4096)
    row_sums(x, y, scalar(5), scalar(13), 8, 4)
    np.testing.assert_allclose(read(sem, 4096, (5,), np.float32), data.sum(1), rtol=1e-5)
