"""Attention forward with tensor descriptors: one program per block of queries, two loops over keys if causal.

`benchmarks/attention.py` compiles the same source with tilewright and with Triton.
"""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl


@tw.jit
def visit(total, norm, top, q, k_desc, v_desc, base, first, last, scale, queries,
          BN: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    """The keys from `first` to `last`; MASKED: of which a query sees none behind it."""
    for start in tl.range(first, last, BN):
        k = k_desc.load([base + start, 0])
        scores = tl.dot(q, k.T)
        if MASKED:
            seen = queries[:, None] >= start + tl.arange(0, BN)[None, :]
            scores = tl.where(seen, scores, -1.0e6)
        new_top = tl.maximum(top, tl.max(scores, 1) * scale)
        p = tl.math.exp2(scores * scale - new_top[:, None])
        faded = tl.math.exp2(top - new_top)
        norm = norm * faded + tl.sum(p, 1)
        v = v_desc.load([base + start, 0])
        total = tl.dot(p.to(v.dtype), v, total * faded[:, None])
        top = new_top
    return total, norm, top


@tw.jit
def attention(q_desc, k_desc, v_desc, o_desc, logs_ptr, scale, n,
              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    """O = softmax(scale · Q Kᵀ) V of one head, and the logarithm (base 2) of the sums of exponentials."""
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * n
    queries = block * BM + tl.arange(0, BM)
    q = q_desc.load([base + block * BM, 0])
    total = tl.zeros((BM, D), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    top = tl.full((BM,), -1.0e6, tl.float32)
    whole = block * BM if CAUSAL else n
    total, norm, top = visit(total, norm, top, q, k_desc, v_desc, base, 0, whole, scale * 1.44269504,
                             queries, BN, False)  # fmt: skip
    if CAUSAL:
        total, norm, top = visit(total, norm, top, q, k_desc, v_desc, base, whole, whole + BM,
                                 scale * 1.44269504, queries, BN, True)  # fmt: skip
    tl.store(logs_ptr + base + queries, top + tl.math.log2(norm))
    o_desc.store([base + block * BM, 0], (total / norm[:, None]).to(o_desc.dtype))
