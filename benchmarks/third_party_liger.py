"""Operators of Liger-Kernel; references are their formulas in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional

from third_party_cases import registrar

case = registrar("liger")


def _rms(x, w, eps=1e-6, offset=0.0):
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * (w + offset)


@case
def rms_norm(m):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(m.hidden)
    return m.problem(*given, run=lambda x, w: F.apply(x, w, 1e-6, 0.0, "llama", False), like=_rms)


@case
def rms_norm_gemma_block(m):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as F

    given = m.normal(8 * m.rows, 256), m.normal(256)
    return m.problem(
        *given,
        run=lambda x, w: F.apply(x, w, 1e-6, 1.0, "gemma", False),
        like=lambda x, w: _rms(x, w, offset=1.0),
    )


@case
def layer_norm(m):
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(m.hidden), m.normal(m.hidden)
    return m.problem(
        *given,
        run=lambda x, w, b: F.apply(x, w, b, 1e-6),
        like=lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b, 1e-6),
    )


@case
def fused_add_rms_norm(m):
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(m.rows, m.hidden), m.normal(m.hidden)
    return m.problem(
        *given,
        run=lambda x, r, w: F.apply(x * 1, r * 1, w, 1e-6),
        like=lambda x, r, w: (_rms(x + r, w), x + r),
    )


@case
def modulated_rms_norm(m):
    from liger_kernel.ops.modulated_rms_norm import LigerModulatedRMSNormFunction as F

    shape = 4, m.rows // 4, m.hidden
    given = m.normal(*shape), m.normal(m.hidden), m.normal(4, m.hidden), m.normal(4, m.hidden)
    return m.problem(
        *given,
        run=lambda x, w, s, t: F.apply(x, w, s, t, 1e-6, 0.0, "llama", False),
        like=lambda x, w, s, t: _rms(x, w) * (1 + s[:, None]) + t[:, None],
    )


@case
def poly_norm(m):
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction as F

    def like(x, w, b):
        parts = (_rms(x.pow(3), w[0]), _rms(x.pow(2), w[1]), _rms(x, w[2]))
        return sum(parts) + b

    given = m.normal(m.rows, m.hidden), m.normal(3), m.normal(1)[0]
    return m.problem(*given, run=lambda x, w, b: F.apply(x * 1, w, b, 1e-6, False), like=like)


@case
def group_norm(m):
    from liger_kernel.ops.group_norm import LigerGroupNormFunction as F

    wide = torch.float32
    given = m.normal(4, 64, m.rows, dtype=wide), m.normal(64, dtype=wide), m.normal(64, dtype=wide)
    return m.problem(
        *given,
        run=lambda x, w, b: F.apply(x, w, b, 64, 8, 1e-6),
        like=lambda x, w, b: functional.group_norm(x, 8, w, b, 1e-6),
    )


@case
def dyt(m):
    from liger_kernel.ops.dyt import LigerDyTFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(1), m.normal(m.hidden), m.normal(m.hidden)
    problem = m.problem(
        *given, run=lambda *a: F.apply(*a), like=lambda x, a, g, b: torch.tanh(a * x) * g + b
    )
    if m.device == "cpu":
        problem.differentiable = set()  # its backward asks for a GPU's SMs
    return problem


@case
def swiglu(m):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(m.rows, m.hidden)
    return m.problem(
        *given, run=lambda a, b: F.apply(a, b), like=lambda a, b: functional.silu(a) * b
    )


@case
def geglu(m):
    from liger_kernel.ops.geglu import LigerGELUMulFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(m.rows, m.hidden)
    return m.problem(
        *given,
        run=lambda a, b: F.apply(a * 1, b * 1),
        like=lambda a, b: functional.gelu(a, approximate="tanh") * b,
    )


@case
def relu_squared(m):
    from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction as F

    given = (m.normal(m.rows, m.hidden),)
    return m.problem(*given, run=lambda a: F.apply(a), like=lambda a: functional.relu(a).pow(2))


def _turned(x):
    one, two = x.chunk(2, dim=-1)
    return torch.cat([-two, one], dim=-1)


@case
def rope(m):
    from liger_kernel.ops.rope import LigerRopeFunction as F

    q, k = m.normal(2, 8, m.length, 64), m.normal(2, 2, m.length, 64)
    angle = torch.cat([m.normal(1, m.length, 32)] * 2, dim=-1)
    cos, sin = angle.float().cos().to(m.dtype), angle.float().sin().to(m.dtype)
    return m.problem(
        q, k, cos, sin,
        run=lambda q, k, c, s: F.apply(q * 1, k * 1, c, s),
        like=lambda q, k, c, s: tuple(x * c[:, None] + _turned(x) * s[:, None] for x in (q, k)),
        fixed=(2, 3),
    )  # fmt: skip


@case
def llama4_rope(m):
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction as F

    q, k = m.normal(2, m.length, 8, 64), m.normal(2, m.length, 2, 64)
    angle = m.normal(m.length, 32, dtype=torch.float32)

    def run(q, k, angle):
        return F.apply(q * 1, k * 1, torch.polar(torch.ones_like(angle), angle))

    return m.problem(q, k, angle, run=run, fixed=(2,))


@case
def qwen2vl_mrope(m):
    from liger_kernel.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction as F

    q, k = m.normal(2, 8, m.length, 64), m.normal(2, 2, m.length, 64)
    given = q, k, m.normal(3, 2, m.length, 64), m.normal(3, 2, m.length, 64)
    return m.problem(
        *given, run=lambda q, k, c, s: F.apply(q * 1, k * 1, c, s, [8, 12, 12]), fixed=(2, 3)
    )


@case
def softmax(m):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as F

    given = (m.normal(m.rows, m.hidden),)
    return m.problem(*given, run=lambda x: F.apply(x), like=lambda x: x.softmax(-1))


@case
def softmax_long(m):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as F

    given = (m.normal(m.rows, 9 * m.vocabulary),)
    return m.problem(*given, run=lambda x: F.apply(x), like=lambda x: x.softmax(-1))


def _sparsemax(x):
    ordered, _ = x.sort(-1, descending=True)
    sums = ordered.cumsum(-1) - 1
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    held = (ordered * count > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, held - 1) / held).clamp(min=0)


@case
def sparsemax(m):
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction as F

    given = (m.normal(m.rows, m.hidden, dtype=torch.float32),)
    return m.problem(*given, run=lambda x: F.apply(x, -1), like=_sparsemax)


@case
def cross_entropy(m):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as F

    given = m.normal(m.rows, m.vocabulary), m.integers(m.vocabulary, m.rows)
    return m.problem(
        *given, run=lambda x, t: F.apply(x * 1, t, None)[0], like=functional.cross_entropy
    )


@case
def cross_entropy_smooth_softcap(m):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as F

    def like(x, t):
        x = 30 * torch.tanh(x / 30)
        extra = 1e-4 * x.logsumexp(-1).pow(2).mean()
        return functional.cross_entropy(x, t, label_smoothing=0.1) + extra

    def run(x, t):
        return F.apply(x * 1, t, None, -100, 1e-4, 0.1, "mean", 30.0, True)[0]

    given = m.normal(m.rows, m.vocabulary, scale=3.0), m.integers(m.vocabulary, m.rows)
    return m.problem(*given, run=run, like=like)


@case
def fused_linear_cross_entropy(m):
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as F,
    )

    given = (
        m.normal(m.rows, m.hidden, scale=0.1),
        m.normal(m.vocabulary, m.hidden, scale=0.1),
        m.integers(m.vocabulary, m.rows),
    )
    return m.problem(
        *given,
        run=lambda x, w, t: F.apply(x, w, t)[0],
        like=lambda x, w, t: functional.cross_entropy(x @ w.T, t),
    )


@case
def kl_div(m):
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction as F

    wide = torch.float32
    x = m.normal(m.rows, m.vocabulary, dtype=wide).log_softmax(-1)
    t = m.normal(m.rows, m.vocabulary, dtype=wide).softmax(-1)
    return m.problem(
        x, t,
        run=lambda x, t: F.apply(x * 1, t),
        like=lambda x, t: functional.kl_div(x, t, reduction="batchmean"),
        fixed=(1,),
    )  # fmt: skip


@case
def jsd(m):
    from liger_kernel.ops.jsd import LigerJSDFunction as F

    def like(x, t):
        p, q = x.exp(), t.exp()
        middle = (0.5 * (p + q)).log()
        return (0.5 * (p * (x - middle) + q * (t - middle))).sum(-1).mean()

    wide = torch.float32
    x, t = (m.normal(m.rows, m.vocabulary, dtype=wide).log_softmax(-1) for _ in range(2))
    run = lambda x, t: F.apply(x * 1, t)  # noqa: E731
    return m.problem(x, t, run=run, like=like, fixed=(1,))


@case
def tvd(m):
    from liger_kernel.ops.tvd import LigerTVDLossFunction as F

    x, t = (m.normal(m.rows, m.vocabulary, dtype=torch.float32).softmax(-1) for _ in range(2))
    return m.problem(
        x, t,
        run=lambda x, t: F.apply(x * 1, t),
        like=lambda x, t: 0.5 * (x - t).abs().sum(-1).mean(),
        fixed=(1,),
    )  # fmt: skip


@case
def grpo_loss(m):
    from liger_kernel.ops.grpo_loss import GrpoLossFunction as F

    batch, length = 4, m.rows // 4
    mask = torch.ones(batch, length, device=m.device, dtype=torch.int32)
    old = m.normal(batch, length, scale=0.1, dtype=torch.float32) - 8

    def run(x, old, ids, gain, mask):
        found = F.apply(x * 1, old, old + 0.05, ids, gain, mask, 0.9, 0.04, 0.2, 0.4, False)
        return found[0] if isinstance(found, tuple) else found

    given = (
        m.normal(batch, length + 1, m.vocabulary), old,
        m.integers(m.vocabulary, batch, length), m.normal(batch, dtype=torch.float32), mask,
    )  # fmt: skip
    return m.problem(*given, run=run, fixed=(1, 3))


@case
def embedding(m):
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction as F

    given = (
        m.normal(m.vocabulary, m.hidden, dtype=torch.float32),
        m.integers(m.vocabulary, 4, m.rows),
    )
    return m.problem(
        *given, run=lambda e, i: F.apply(e, i), like=lambda e, i: functional.embedding(i, e)
    )


@case
def attn_res(m):
    from liger_kernel.ops.attn_res import LigerAttnResFunction as F

    given = m.normal(8, 2, m.rows, m.hidden), m.normal(m.hidden), m.normal(m.hidden)
    return m.problem(*given, run=lambda v, q, n: F.apply(v, q, n, 1e-6))


@case
def multi_token_attention(m):
    from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction as F

    wide = torch.float32
    given = m.normal(2, 4, 128, 128, dtype=wide), m.normal(4, 4, 3, 3, dtype=wide)
    return m.problem(*given, run=lambda s, w: F.apply(s, w, None, 1, 1, 1, 1, False))


@case
def neighborhood_attention(m):
    from liger_kernel.ops.fused_neighborhood_attention import (
        LigerFusedNeighborhoodAttentionFunction as F,
    )

    given = [m.normal(1, 4, m.length, 64, dtype=torch.float32) for _ in range(3)]
    return m.problem(*given, run=lambda q, k, v: F.apply(q, k, v, 7, 1, None))


@case
def mhc_pre(m):
    from liger_kernel.ops import mhc

    given = m.normal(2, m.rows, 4, m.hidden), m.normal(2, m.rows, 4, dtype=torch.float32)
    return m.problem(
        *given,
        run=lambda x, h: mhc.LigerMHCPreFunction.apply(x, h),
        like=lambda x, h: (x * h[..., None]).sum(2),
    )


@case
def mhc_post_res(m):
    from liger_kernel.ops import mhc

    wide = torch.float32
    given = (
        m.normal(2, m.rows, 4, m.hidden), m.normal(2, m.rows, m.hidden),
        m.normal(2, m.rows, 4, dtype=wide), m.normal(2, m.rows, 4, 4, dtype=wide),
    )  # fmt: skip
    return m.problem(*given, run=lambda *a: mhc.LigerMHCPostResFunction.apply(*a))
