"""The product that all variants are made of, as listing 1 of arXiv 2108.13191 has it."""

from __future__ import annotations

from typing import Any

import tilewright.language as tl
from tilewright.runtime.jit import jit


@jit
def product(
    a_ptr: Any, b_ptr: Any, c_ptr: Any, M: Any, N: Any, K: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """C[M, N] += A[M, K] · B[K, N], all row-major; C is loaded and stored at every step of k."""
    program = tl.program_id(0)
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    if GROUP == 1:
        row = program // columns
        column = program % columns
    else:
        first = program // (GROUP * columns) * GROUP
        height = min(rows - first, GROUP)
        row = first + program % (GROUP * columns) % height
        column = program % (GROUP * columns) // height
    i = (row * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    j = (column * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + i * K + k[None, :], mask=(i < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + j, mask=(k[:, None] < K) & (j < N), other=0.0)
        c = tl.load(c_ptr + i * N + j, mask=(i < M) & (j < N), other=0.0)
        tl.store(c_ptr + i * N + j, tl.dot(a, b, c), mask=(i < M) & (j < N))
