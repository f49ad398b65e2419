"""Attention forward in the manner of Triton's tutorial 06, for tests on the CPU and on a GPU: two loops,
over keys that all queries of a block see and over those on the diagonal; two products an iteration."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build


@tw.jit
def step(acc, l_i, m_i, q, K, V, first, last, pitch, qk_scale, rows, columns, deep, N,
         BLOCK_N: tl.constexpr, MASKED: tl.constexpr, RAGGED: tl.constexpr):  # fmt: skip
    """Keys from `first` to `last`; MASKED: queries see no later keys."""
    for n in range(first, last, BLOCK_N):
        keys = n + columns
        at_k = K + keys[None, :] * pitch + deep[:, None]
        at_v = V + keys[:, None] * pitch + deep[None, :]
        if RAGGED:
            k = tl.load(at_k, mask=keys[None, :] < N, other=0.0)
        else:
            k = tl.load(at_k)
        qk = tl.dot(q, k) * qk_scale
        if MASKED:
            qk = tl.where(rows[:, None] >= keys[None, :], qk, -1.0e6)
        if RAGGED:
            qk = tl.where(keys[None, :] < N, qk, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if RAGGED:
            v = tl.load(at_v, mask=keys[:, None] < N, other=0.0)
        else:
            v = tl.load(at_v)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    return acc, l_i, m_i


@tw.jit
def attention(Q, K, V, Out, L, scale, stride_h, pitch, N,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
              CAUSAL: tl.constexpr, RAGGED: tl.constexpr):  # fmt: skip
    """Out = softmax(scale Q K^T) V, and the logarithm (base 2) of the sums, head by head."""
    block, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * stride_h
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    columns, deep = tl.arange(0, BLOCK_N), tl.arange(0, D)
    at = base + rows[:, None] * pitch + deep[None, :]
    q = tl.load(Q + at, mask=rows[:, None] < N, other=0.0) if RAGGED else tl.load(Q + at)
    m_i = tl.full([BLOCK_M], -1.0e6, tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    qk_scale = scale * 1.44269504
    diagonal = block * BLOCK_M if CAUSAL else N
    acc, l_i, m_i = step(acc, l_i, m_i, q, K + base, V + base, 0, diagonal, pitch, qk_scale,
                         rows, columns, deep, N, BLOCK_N, False, RAGGED)  # fmt: skip
    if CAUSAL:
        acc, l_i, m_i = step(acc, l_i, m_i, q, K + base, V + base, diagonal,
                             tl.minimum(diagonal + BLOCK_M, N), pitch, qk_scale,
                             rows, columns, deep, N, BLOCK_N, True, RAGGED)  # fmt: skip
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    if RAGGED:
        tl.store(L + head * N + rows, m_i, mask=rows < N)
        tl.store(Out + at, acc.to(Out.dtype.element_ty), mask=rows[:, None] < N)
    else:
        tl.store(L + head * N + rows, m_i)
        tl.store(Out + at, acc.to(Out.dtype.element_ty))


def attention_ir(
    block_m: int, block_n: int, depth: int, causal: bool, ragged: bool = False,
    dtype: Any = dtypes.float16,
) -> ModuleOp:  # fmt: skip
    """Tile IR of `attention`. Arguments: q, k, v, o, l, scale, stride of a head, of a line, N."""
    signature: dict[str, Any] = dict.fromkeys(("Q", "K", "V", "Out"), dtypes.pointer_type(dtype))
    signature |= {"L": dtypes.pointer_type(dtypes.float32), "scale": dtypes.float32}
    signature |= dict.fromkeys(("stride_h", "pitch", "N"), dtypes.int32)
    divisible = dict.fromkeys(("Q", "K", "V", "Out", "L", "stride_h", "pitch"), 16)
    if not ragged:
        divisible["N"] = 16
    fixed = {"BLOCK_M": block_m, "BLOCK_N": block_n, "D": depth, "CAUSAL": causal, "RAGGED": ragged}
    signature.update({name: constexpr(value) for name, value in fixed.items()})
    return build(attention, signature, divisible).module


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Both results in double precision; operands (heads, N, depth)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * q @ k.transpose(0, 2, 1)
    if causal:
        n = scores.shape[-1]
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    p = np.exp(scores - top)
    total = p.sum(-1, keepdims=True)
    return p / total @ v, ((top + np.log(total)) / np.log(2))[..., 0]
