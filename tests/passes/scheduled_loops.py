"""Loops of several dots whose operands have several readers, for the scheduler's tests."""

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build


@tw.jit
def shared_keys(Q, K, Out, n, M: tl.constexpr, D: tl.constexpr, SQUARES: tl.constexpr):
    """Square tiles that both dots read; with SQUARES, element-wise work reads them as well."""
    m, d = tl.arange(0, M), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((M, D), tl.float32)
    for i in range(0, n):
        x = tl.load(K + (i * D + d)[:, None] * D + d[None, :])
        p = tl.exp(tl.dot(q, x))
        if SQUARES:
            p = p * tl.sum(x.to(tl.float32) * x, 0)[None, :]
        total = tl.dot(p.to(x.dtype), x, total)
    tl.store(Out + m[:, None] * D + d[None, :], total)


def shared_keys_ir(m, depth, squares):
    """Tile IR of `shared_keys`. Arguments: q, keys, out, number of tiles of keys."""
    signature = dict.fromkeys(("Q", "K"), dtypes.pointer_type(dtypes.float16))
    signature |= {"Out": dtypes.pointer_type(dtypes.float32), "n": dtypes.int32}
    fixed = {"M": m, "D": depth, "SQUARES": squares}
    signature |= {name: constexpr(value) for name, value in fixed.items()}
    return build(shared_keys, signature, dict.fromkeys(("Q", "K", "Out"), 16)).module


def shared_keys_case(m, depth, tiles, squares):
    """Arguments, and the result in double precision."""
    rng = np.random.default_rng(tiles)
    q = (rng.standard_normal((m, depth)) / 8).astype(np.float16)
    keys = (rng.standard_normal((tiles * depth, depth)) / 8).astype(np.float16)
    total = np.zeros((m, depth))
    for x in keys.astype(np.float64).reshape(tiles, depth, depth):
        p = np.exp(q.astype(np.float64) @ x) * ((x**2).sum(0)[None, :] if squares else 1)
        total += p @ x
    return [q, keys, np.zeros((m, depth), np.float32), tiles], total
