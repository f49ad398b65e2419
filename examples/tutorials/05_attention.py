"""# 5. Attention

Flash attention, forward: scores never reach memory. Each program handles a block of queries and walks over the keys with an online softmax.
"""

# %% Two dots per iteration, the second with the result of the first.
import math

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
              CAUSAL: tl.constexpr):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * N * D
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], m[:, None] < N, 0.0)
    highest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    accumulator = tl.zeros((BM, D), tl.float32)
    end = min(tl.program_id(0) * BM + BM, N) if CAUSAL else N
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head + n[None, :] * D + d[:, None], n[None, :] < N, 0.0)
        v = tl.load(v_ptr + head + n[:, None] * D + d[None, :], n[:, None] < N, 0.0)
        scores = tl.dot(q, k) * scale
        visible = n[None, :] < N
        if CAUSAL:
            visible = visible & (n[None, :] <= m[:, None])
        scores = tl.where(visible, scores, -float("inf"))
        new = tl.maximum(highest, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        rescale = tl.exp2(highest - new)
        total = total * rescale + tl.sum(p, 1)
        accumulator = tl.dot(p.to(v.dtype), v, accumulator * rescale[:, None])
        highest = new
    out = accumulator / total[:, None]
    tl.store(
        out_ptr + head + m[:, None] * D + d[None, :],
        out.to(out_ptr.dtype.element_ty),
        m[:, None] < N,
    )


# %% The scale includes log2(e), because `exp2` is the instruction that GPUs have.
H, N, D = 2, 100, 32
q, k, v = np.random.randn(3, H, N, D).astype(np.float32)
out = np.empty_like(q)
scale = 1 / math.sqrt(D)
for causal in (False, True):
    attention[(tw.cdiv(N, 32), H)](
        q, k, v, out, scale * math.log2(math.e), N, BM=32, BN=32, D=D, CAUSAL=causal
    )
    scores = scale * np.einsum("hmd,hnd->hmn", q.astype(np.float64), k)
    if causal:
        scores[:, np.triu(np.ones((N, N), bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    assert np.abs(out - np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), v)).max() < 1e-5

# %% On a GPU the loop becomes a software pipeline: TMA loads of later keys and values are in flight while the tensor cores work. What the
# access report says about each load is one command: `tilewright explain FILE.py:attention --access --target sm_90a`.
types = {n: "*fp16:16" for n in ("q_ptr", "k_ptr", "v_ptr", "out_ptr")} | {
    "scale": "fp32",
    "N": "i32:16",
}
compiled = attention.compile(
    types, {"BM": 128, "BN": 64, "D": 64, "CAUSAL": False}, target="sm_90a", options={"num_warps": 8, "num_stages": 3}
)  # fmt: skip
assert "wgmma" in compiled.asm["ptx"] and "cp.async.bulk.tensor" in compiled.asm["ptx"]
print(compiled.plan.shared_bytes >> 10, "KB of shared memory,", compiled.plan.threads, "threads")
