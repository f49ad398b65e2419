"""Single-precision products in every order of their operands, by tiles of warpgroups."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir


@tw.jit
def product(
    A, B, C, M, N, K, sa, sb, sc,
    A_BY_M: tl.constexpr, B_BY_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """C = A @ B. A lies along k unless A_BY_M; B along n unless B_BY_K."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        if A_BY_M:
            a_at = A + k[None, :] * sa + m[:, None]
        else:
            a_at = A + m[:, None] * sa + k[None, :]
        if B_BY_K:
            b_at = B + n[None, :] * sb + k[:, None]
        else:
            b_at = B + k[:, None] * sb + n[None, :]
        a = tl.load(a_at, (m[:, None] < M) & (k[None, :] < K), other=0)
        b = tl.load(b_at, (k[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="tf32")
    tl.store(C + m[:, None] * sc + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


def zeros(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Single precision at a multiple of 16 bytes."""
    count = 4 * int(np.prod(shape))
    raw = np.zeros(count + 16, np.uint8)
    start = -raw.ctypes.data % 16
    return raw[start : start + count].view(np.float32).reshape(shape)


def as_tf32(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `wgmma` sees of single precision: the upper 19 bits, in double precision."""
    upper = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)
    return upper.view(np.float32).astype(np.float64)


def case(
    orders: str, extents: tuple[int, int, int], tf32: bool = False
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Arguments, and the result, of tf32 or single precision. `orders`: "row row", "column row" …"""
    rng, (m, n, k) = np.random.default_rng(3), extents
    by_m, by_k = (order == "column" for order in orders.split())
    a, b = zeros((k, m) if by_m else (m, k)), zeros((n, k) if by_k else (k, n))
    for x in (a, b):
        x[:] = rng.standard_normal(x.shape)
    c = zeros((m, n))
    c[:] = np.nan
    x, y = (as_tf32(v) if tf32 else v.astype(np.float64) for v in (a, b))
    wanted = (x.T if by_m else x) @ (y.T if by_k else y)
    return [a, b, c, m, n, k, a.shape[1], b.shape[1], n], wanted


@functools.cache
def _text(orders: str, extents: tuple[int, int, int], blocks: tuple[int, int, int]) -> str:
    arguments, _ = case(orders, extents)
    signature: dict[str, Any] = {}
    divisible: dict[str, int] = {}
    for parameter, value in zip(product.params, arguments, strict=False):
        array = isinstance(value, np.ndarray)
        signature[parameter.name] = dtypes.pointer_type(dtypes.float32) if array else dtypes.int32
        if array or value % 16 == 0:
            divisible[parameter.name] = 16
    by_m, by_k = (order == "column" for order in orders.split())
    constants = {"A_BY_M": by_m, "B_BY_K": by_k, "BM": blocks[0], "BN": blocks[1], "BK": blocks[2]}
    signature |= {name: constexpr(value) for name, value in constants.items()}
    return str(build(product, signature, divisible).module)


def module(
    orders: str,
    extents: tuple[int, int, int],
    blocks: tuple[int, int, int],
    warps: int = 4,
    stages: int = 3,
) -> ModuleOp:
    """Tile IR of a product; `extents` and `blocks`: m, n, k."""
    found = parse_ir(_text(orders, extents, blocks))
    function: Any = found.body.block.first_op
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    return found


def grid(extents: tuple[int, int, int], blocks: tuple[int, int, int]) -> tuple[int, int, int]:
    """Programs of a product."""
    return -(-extents[0] // blocks[0]), -(-extents[1] // blocks[1]), 1


def check(found: Any, wanted: np.ndarray[Any, Any], what: str = "", rounded: bool = False) -> None:
    """Only the order of sums differs, or operands are `rounded` to tf32 besides."""
    error = np.abs(np.asarray(found).reshape(wanted.shape) - wanted).max()
    assert error <= (2e-3 if rounded else 1e-5) * np.abs(wanted).max(), what


@tw.jit
def normalised(
    A, B, X, Y, R, C, S, K, N,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Softmax along n of A @ B + X (a column) + Y (a row) + R, as fp16 in C; sums over m in S."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(A + m[:, None] * K + (start + k)[None, :])
        b = tl.load(B + (start + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc, input_precision="tf32")
    acc += tl.load(X + m)[:, None] + tl.load(Y + n)[None, :]
    acc += tl.load(R + m[:, None] * N + n[None, :])
    acc = tl.exp(acc - tl.max(acc, 1)[:, None])
    acc /= tl.sum(acc, 1)[:, None]
    tl.store(C + m[:, None] * N + n[None, :], acc.to(tl.float16))
    tl.store(S + n, tl.sum(acc, 0))
