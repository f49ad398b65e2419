"""Layers of Liger-Kernel: norms, activations, embeddings, attention, mixtures of experts."""

from __future__ import annotations

import torch
from torch.nn import functional

from third_party_cases import registrar
from third_party_references import rms, visible
from third_party_references import sparsemax as simplex

case = registrar("liger")


@case
def rms_norm(m):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as F

    given = m.normal(m.rows, m.hidden), m.normal(m.hidden)
    return m.problem(*given, run=lambda x, w: F.apply(x, w, 1e-6, 0.0, "llama", False), like=rms)


@case
def rms_norm_gemma_block(m):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as F

    given = m.normal(8 * m.rows, 256), m.normal(256)
    return m.problem(
        *given,
        run=lambda x, w: F.apply(x, w, 1e-6, 1.0, "gemma", False),
        like=lambda x, w: rms(x, w, offset=1.0),
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
        like=lambda x, r, w: (rms(x + r, w), x + r),
    )


@case
def modulated_rms_norm(m):
    from liger_kernel.ops.modulated_rms_norm import LigerModulatedRMSNormFunction as F

    shape = 4, m.rows // 4, m.hidden
    given = m.normal(*shape), m.normal(m.hidden), m.normal(4, m.hidden), m.normal(4, m.hidden)
    return m.problem(
        *given,
        run=lambda x, w, s, t: F.apply(x, w, s, t, 1e-6, 0.0, "llama", False),
        like=lambda x, w, s, t: rms(x, w) * (1 + s[:, None]) + t[:, None],
    )


@case
def poly_norm(m):
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction as F

    def like(x, w, b):
        parts = (rms(x.pow(3), w[0]), rms(x.pow(2), w[1]), rms(x, w[2]))
        return sum(parts) + b

    given = m.normal(m.rows, m.hidden), m.normal(3), m.normal(1)[0]
    return m.problem(*given, run=lambda x, w, b: F.apply(x * 1, w, b, 1e-6, False), like=like)


@case
def group_norm(m):
    from liger_kernel.ops.group_norm import LigerGroupNormFunction as F

    wide = torch.float32
    given = m.normal(4, 64, m.sized(m.rows, 16384), dtype=wide), m.wide(64), m.wide(64)
    return m.problem(
        *given,
        run=lambda x, w, b: F.apply(x, w, b, 64, 8, 1e-6),
        like=lambda x, w, b: functional.group_norm(x, 8, w, b, 1e-6),
    )


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

    heads = m.sized(8, 32)
    q, k = m.normal(2, heads, m.length, 64), m.normal(2, heads // 4, m.length, 64)
    angle = torch.cat([m.normal(1, m.length, 32)] * 2, dim=-1)
    cos, sin = angle.float().cos().to(m.dtype), angle.float().sin().to(m.dtype)
    return m.problem(
        q, k, cos, sin,
        run=lambda q, k, c, s: F.apply(q * 1, k * 1, c, s),
        like=lambda q, k, c, s: tuple(x * c[:, None] + _turned(x) * s[:, None] for x in (q, k)),
        fixed=(2, 3),
    )  # fmt: skip


@case
def softmax(m):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as F

    given = (m.normal(m.rows, m.hidden),)
    return m.problem(*given, run=lambda x: F.apply(x), like=lambda x: x.softmax(-1))


@case
def sparsemax(m):
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction as F

    given = (m.normal(m.rows, m.hidden, dtype=torch.float32),)
    return m.problem(*given, run=lambda x: F.apply(x, -1), like=simplex)


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
def llama4_rope(m):
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction as F

    heads = m.sized(8, 32)
    q, k = m.normal(2, m.length, heads, 64), m.normal(2, m.length, heads // 4, 64)
    angle = m.wide(m.length, 32)

    def run(q, k, angle):
        return F.apply(q * 1, k * 1, torch.polar(torch.ones_like(angle), angle))

    def like(q, k, angle):
        c, s = angle.cos()[:, None], angle.sin()[:, None]
        turned = []
        for x in (q, k):
            one, two = x[..., ::2], x[..., 1::2]
            turned.append(torch.stack([one * c - two * s, one * s + two * c], -1).flatten(-2))
        return tuple(turned)

    return m.problem(q, k, angle, run=run, like=like, fixed=(2,))


@case
def qwen2vl_mrope(m):
    from liger_kernel.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction as F

    sections = [8, 12, 12]

    def like(q, k, c, s):
        c, s = (
            torch.cat([part[i] for i, part in enumerate(t[..., :32].split(sections, -1))], -1)
            for t in (c, s)
        )
        c, s = (torch.cat([t, t], -1)[:, None] for t in (c, s))
        return tuple(x * c + _turned(x) * s for x in (q, k))

    heads = m.sized(8, 32)
    q, k = m.normal(2, heads, m.length, 64), m.normal(2, heads // 4, m.length, 64)
    given = q, k, m.normal(3, 2, m.length, 64), m.normal(3, 2, m.length, 64)
    run = lambda q, k, c, s: F.apply(q * 1, k * 1, c, s, sections)  # noqa: E731
    return m.problem(*given, run=run, like=like, fixed=(2, 3))


@case
def dyt(m):
    from liger_kernel.ops import dyt as module

    F = module.LigerDyTFunction
    if m.device == "cpu":  # it knows no number of programs there
        module.infer_device = lambda: "cuda"

    given = m.normal(m.rows, m.hidden), m.normal(1), m.normal(m.hidden), m.normal(m.hidden)
    like = lambda x, a, g, b: torch.tanh(a * x) * g + b  # noqa: E731
    return m.problem(*given, run=lambda *a: F.apply(*a), like=like)


@case
def softmax_long(m):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as F

    given = (m.normal(m.rows, m.sized(9 * m.vocabulary, 65536)),)
    return m.problem(*given, run=lambda x: F.apply(x), like=lambda x: x.softmax(-1))


@case
def swiglu_fused_gate_up(m):
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction as F

    def like(y):
        a, b = y.chunk(2, -1)
        return functional.silu(a) * b

    return m.problem(m.normal(m.rows, m.sized(500, 2 * 14336)), run=lambda y: F.apply(y), like=like)


@case
def swiglu_multipliers(m):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction as F

    width = m.sized(250, 14336)
    given = m.normal(m.rows, width), m.normal(m.rows, width)
    like = lambda a, b: 0.5 * functional.silu(1.5 * a) * b  # noqa: E731
    return m.problem(*given, run=lambda a, b: F.apply(a, b, 1.5, 0.5), like=like)


@case
def swiglu_long(m):
    """Rows that are longer than a tile."""
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction as F

    rows = m.sized(6, 4096)
    given = m.normal(rows, 20011), m.normal(rows, 20011)
    run = lambda a, b: F.apply(a * 1, b * 1)  # noqa: E731
    return m.problem(*given, run=run, like=lambda a, b: functional.silu(a) * b)


@case
def geglu_long(m):
    from liger_kernel.ops.geglu import LigerGELUMulFunction as F

    rows = m.sized(6, 4096)
    given = m.normal(rows, 20011), m.normal(rows, 20011)
    like = lambda a, b: functional.gelu(a, approximate="tanh") * b  # noqa: E731
    return m.problem(*given, run=lambda a, b: F.apply(a * 1, b * 1), like=like)


@case
def attn_res(m):
    from liger_kernel.ops.attn_res import LigerAttnResFunction as F

    def like(v, query, norm):
        weights = (rms(v, norm) @ query).softmax(0)
        return (weights[..., None] * v).sum(0)

    given = m.normal(8, 2, m.rows, m.hidden), m.normal(m.hidden, scale=0.1), m.normal(m.hidden)
    return m.problem(*given, run=lambda v, q, n: F.apply(v, q, n, 1e-6), like=like)


def _several_tokens(act):
    def call(scores, w):
        seen = visible(scores.shape[-1], None, scores.device)
        weights = act(scores.masked_fill(~seen, -1e9))
        return functional.conv2d(weights, w, padding=1).masked_fill(~seen, 0.0)

    return call


@case
def multi_token_attention(m):
    from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction as F

    length = m.sized(100, 1024)
    given = m.normal(2, 4, length, length), m.normal(4, 4, 3, 3)
    like = _several_tokens(lambda x: x.softmax(-1))
    return m.problem(*given, run=lambda s, w: F.apply(s, w, None, 1, 1, 1, 1, False), like=like)


@case
def multi_token_attention_sparse(m):
    from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction as F

    length = m.sized(64, 1024)
    given = m.wide(2, 4, length, length), m.wide(4, 4, 3, 3)
    like = _several_tokens(simplex)
    return m.problem(*given, run=lambda s, w: F.apply(s, w, None, 1, 1, 1, 1, True), like=like)


@case
def neighborhood_attention(m):
    from liger_kernel.ops.fused_neighborhood_attention import (
        LigerFusedNeighborhoodAttentionFunction as F,
    )

    def like(q, k, v):
        place = torch.arange(q.shape[2], device=q.device)
        apart = place - place[:, None]
        near = (apart.abs() <= 6) & (apart % 2 == 0)
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~near, float("-inf"))
        return scores.softmax(-1) @ v

    given = [m.normal(1, 4, m.length, 64) for _ in range(3)]
    return m.problem(*given, run=lambda q, k, v: F.apply(q, k, v, 7, 2, None), like=like)


@case
def mhc_coeffs(m):
    from liger_kernel.ops.mhc import LigerMHCCoeffsFunction as F

    streams, eps = 4, 1e-6

    def run(x, phi, b, *alphas):
        return F.apply(x, phi, b, *alphas, True, 5, eps, 1e-4, eps, 2.0)

    def like(x, phi, b, pre, post, rest):
        x = x.flatten(-2)
        mix = (x @ phi) * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
        one, two = mix[..., :streams] * pre + b[:streams], mix[..., streams : 2 * streams] * post
        two = two + b[streams : 2 * streams]
        last = (mix[..., 2 * streams :] * rest + b[2 * streams :]).unflatten(-1, (streams, streams))
        last = last.softmax(-1) + eps
        last = last / (last.sum(-2, keepdim=True) + eps)
        for _ in range(4):
            last = last / (last.sum(-1, keepdim=True) + eps)
            last = last / (last.sum(-2, keepdim=True) + eps)
        return one.sigmoid() + 1e-4, 2.0 * two.sigmoid(), last

    count, width = streams * streams + 2 * streams, m.sized(128, 4096)
    weights = m.normal(streams * width, count, scale=0.1), m.wide(count)
    alphas = [m.uniform(1, low=0.5, dtype=torch.float32)[0] for _ in range(3)]
    return m.problem(m.normal(2, m.rows, streams, width), *weights, *alphas, run=run, like=like)


@case
def mhc_pre(m):
    from liger_kernel.ops import mhc

    given = m.normal(2, m.rows, 4, m.hidden), m.wide(2, m.rows, 4)
    return m.problem(
        *given,
        run=lambda x, h: mhc.LigerMHCPreFunction.apply(x, h),
        like=lambda x, h: (x * h[..., None]).sum(2),
    )


@case
def mhc_post_res(m):
    from liger_kernel.ops import mhc

    def like(x, f, post, rest):
        return post[..., None] * f[:, :, None] + rest @ x

    given = m.normal(2, m.rows, 4, m.hidden), m.normal(2, m.rows, m.hidden)
    weights = m.wide(2, m.rows, 4), m.wide(2, m.rows, 4, 4)
    run = lambda *a: mhc.LigerMHCPostResFunction.apply(*a)  # noqa: E731
    return m.problem(*given, *weights, run=run, like=like)


def _mlp(x, gate, up, down):
    return (functional.silu(x @ gate.mT) * (x @ up.mT)) @ down.mT


@case
def mlp(m):
    from liger_kernel.ops.mlp import LigerMLPFunction as F

    inner, hidden, length = m.sized(512, 14336), m.sized(256, 4096), m.sized(128, 2048)
    weights = [
        m.normal(inner, hidden, scale=0.1),
        m.normal(inner, hidden, scale=0.1),
        m.normal(hidden, inner, scale=0.1),
    ]
    return m.problem(
        m.normal(2, length, hidden), *weights, run=lambda *a: F.apply(*a, 1.0, 1.0), like=_mlp
    )


@case
def tiled_mlp(m):
    """Torch's products and the package's activation, a part of the rows after another."""
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction
    from liger_kernel.ops.tiled_mlp import apply_tiled_mlp

    inner, hidden, length = m.sized(96, 14336), m.sized(64, 4096), m.sized(50, 2048)
    weights = [
        m.normal(inner, hidden, scale=0.1),
        m.normal(inner, hidden, scale=0.1),
        m.normal(hidden, inner, scale=0.1),
    ]

    def part(module, x):
        gate, up, down = module
        return LigerSiLUMulFunction.apply(x @ gate.mT, x @ up.mT) @ down.mT

    def run(x):
        return apply_tiled_mlp(part, weights, x, 3)

    def like(x):
        return _mlp(x, *(w.double() for w in weights))

    return m.problem(m.normal(2, length, hidden), run=run, like=like)


@case
def fused_moe(m):
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction as F

    experts, chosen, inner, hidden = 6, 2, m.sized(96, 1536), m.sized(128, 2048)
    tokens = m.sized(m.rows * 3 + 1, 4096)
    order = torch.rand(tokens, experts, generator=m.chance).argsort(-1)[:, :chosen]
    index = order.to(torch.int32).to(m.device)

    def run(x, first, second, share):
        return F.apply(x, first, second, index, share)

    def like(x, first, second, share):
        gate, up = first.chunk(2, 1)
        every = torch.stack([_mlp(x, gate[e], up[e], second[e]) for e in range(experts)], 1)
        picked = every.gather(1, index.long()[..., None].expand(-1, -1, x.shape[-1]))
        return (picked * share[..., None]).sum(1)

    weights = (
        m.normal(experts, 2 * inner, hidden, scale=0.1),
        m.normal(experts, hidden, inner, scale=0.1),
    )
    given = m.normal(tokens, hidden), *weights, m.uniform(tokens, chosen, dtype=torch.float32)
    return m.problem(*given, run=run, like=like)


@case
def mm_int8int2(m):
    from liger_kernel.ops.experimental.mm_int8int2 import matmul, pack_weights

    depth = m.sized(1024, 4096)
    a = torch.randint(-128, 128, (m.rows, depth), generator=m.chance)
    b = torch.randint(-1, 2, (depth, m.sized(96, 4096)), generator=m.chance)
    small, packed_b = a.to(torch.int8).to(m.device), pack_weights(b.clone()).to(m.device)
    a, b = a.to(m.device), b.to(m.device)

    def run(one):
        return matmul(small, packed_b).to(one.dtype)

    def like(one):
        return (a.cpu() @ b.cpu()).to(one)

    return m.problem(torch.ones(1, device=m.device), run=run, like=like, forward_only=True)
