"""Operators and modules of flash-linear-attention; references are the package's own in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional

from third_party_cases import registrar

case = registrar("fla")


def first(function, **options):
    """The first result of an operator that gives its final state, too."""

    def call(*args):
        found = function(*args, **options)
        return found[0] if isinstance(found, tuple) else found

    return call


def heads_first(naive):
    """A reference over [batch, heads, length, …] of arguments with heads behind the length."""

    def call(*args):
        found = naive(*(t.transpose(1, 2) for t in args))
        return (found[0] if isinstance(found, tuple) else found).transpose(1, 2)

    return call


@case
def chunk_gla(m):
    from fla.ops.gla import chunk_gla as run
    from fla.ops.gla.naive import naive_recurrent_gla as naive

    return m.problem(*m.qkv(), m.gate(*m.sequence()), run=first(run), like=first(naive))


@case
def fused_recurrent_gla(m):
    from fla.ops.gla import fused_recurrent_gla as run
    from fla.ops.gla.naive import naive_recurrent_gla as naive

    return m.problem(*m.qkv(), m.gate(*m.sequence()), run=first(run), like=first(naive))


@case
def chunk_retention(m):
    from fla.ops.retention import chunk_retention as run
    from fla.ops.retention.naive import naive_retention as naive

    return m.problem(*m.qkv(), run=first(run), like=heads_first(naive))


@case
def parallel_retention(m):
    from fla.ops.retention import parallel_retention as run
    from fla.ops.retention.naive import naive_retention as naive

    return m.problem(*m.qkv(), run=first(run), like=heads_first(naive))


@case
def fused_recurrent_retention(m):
    from fla.ops.retention import fused_recurrent_retention as run
    from fla.ops.retention.naive import naive_retention as naive

    return m.problem(*m.qkv(), run=first(run), like=heads_first(naive))


@case
def chunk_simple_gla(m):
    from fla.ops.simple_gla import chunk_simple_gla as run
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla as naive

    return m.problem(*m.qkv(), m.gate(*m.sequence()[:3]), run=first(run), like=first(naive))


@case
def parallel_simple_gla(m):
    from fla.ops.simple_gla import parallel_simple_gla as run
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla as naive

    return m.problem(*m.qkv(), m.gate(*m.sequence()[:3]), run=first(run), like=first(naive))


@case
def fused_chunk_simple_gla(m):
    from fla.ops.simple_gla import fused_chunk_simple_gla as run
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla as naive

    return m.problem(*m.qkv(), m.gate(*m.sequence()[:3]), run=first(run), like=first(naive))


def _delta(m, gate=None):
    q, k, v = m.normal(*m.sequence()), m.unit(*m.sequence()), m.normal(*m.sequence())
    beta = m.uniform(*m.sequence()[:3])
    if gate is None:
        return q, k, v, beta
    return q, k, v, m.gate(*(m.sequence()[:3] if gate == "head" else m.sequence())), beta


@case
def chunk_delta_rule(m):
    from fla.ops.delta_rule import chunk_delta_rule as run
    from fla.ops.delta_rule.naive import delta_rule_recurrence as naive

    return m.problem(*_delta(m), run=first(run), like=heads_first(naive))


@case
def fused_recurrent_delta_rule(m):
    from fla.ops.delta_rule import fused_recurrent_delta_rule as run
    from fla.ops.delta_rule.naive import delta_rule_recurrence as naive

    return m.problem(*_delta(m), run=first(run), like=heads_first(naive))


def _gated(q, k, v, g, beta):
    from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule as naive

    return naive(q, k, v, beta, g)[0]


@case
def chunk_gated_delta_rule(m):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as run

    return m.problem(*_delta(m, "head"), run=first(run), like=_gated)


@case
def fused_recurrent_gated_delta_rule(m):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as run

    problem = m.problem(
        *_delta(m, "head"), run=lambda q, k, v, g, b: run(q, k, v, g, beta=b)[0], like=_gated
    )
    problem.differentiable = set()  # it has no backward
    return problem


@case
def chunk_kda(m):
    from fla.ops.kda import chunk_kda as run
    from fla.ops.kda.naive import naive_recurrent_kda as naive

    return m.problem(*_delta(m, "all"), run=first(run), like=first(naive))


@case
def fused_recurrent_kda(m):
    from fla.ops.kda import fused_recurrent_kda as run
    from fla.ops.kda.naive import naive_recurrent_kda as naive

    problem = m.problem(*_delta(m, "all"), run=first(run), like=first(naive))
    problem.differentiable = set()  # it has no backward
    return problem


@case
def chunk_linear_attn(m):
    from fla.ops.linear_attn import chunk_linear_attn as run
    from fla.ops.linear_attn.naive import naive_recurrent_linear_attn as naive

    return m.problem(*m.qkv(), run=first(run, normalize=False), like=first(naive, normalize=False))


@case
def parallel_attn(m):
    from fla.ops.attn import parallel_attn as run
    from fla.ops.attn.naive import naive_parallel_attn as naive

    return m.problem(*m.qkv(), run=first(run), like=first(naive))


@case
def parallel_attn_d128(m):
    from fla.ops.attn import parallel_attn as run
    from fla.ops.attn.naive import naive_parallel_attn as naive

    return m.problem(*m.qkv(128), run=first(run), like=first(naive))


@case
def parallel_forgetting_attn(m):
    from fla.ops.forgetting_attn import parallel_forgetting_attn as run
    from fla.ops.forgetting_attn.naive import naive_forgetting_attn as naive

    return m.problem(*m.qkv(), m.gate(*m.sequence()[:3]), run=first(run), like=first(naive))


@case
def chunk_hgrn(m):
    from fla.ops.hgrn import chunk_hgrn as run
    from fla.ops.hgrn.naive import naive_recurrent_hgrn as naive

    shape = m.batch, m.length, m.hidden
    return m.problem(m.normal(*shape), m.gate(*shape), run=first(run), like=first(naive))


@case
def fused_recurrent_hgrn(m):
    from fla.ops.hgrn import fused_recurrent_hgrn as run
    from fla.ops.hgrn.naive import naive_recurrent_hgrn as naive

    shape = m.batch, m.length, m.hidden
    return m.problem(m.normal(*shape), m.gate(*shape), run=first(run), like=first(naive))


def _rwkv6(r, k, v, w, u):
    from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6 as naive

    turned = (t.transpose(1, 2) for t in (r, k, v, w))
    return naive(*turned, u)[0].transpose(1, 2)


@case
def chunk_rwkv6(m):
    from fla.ops.rwkv6 import chunk_rwkv6 as run

    given = (*m.qkv(), m.gate(*m.sequence()), m.normal(m.heads, m.depth))
    return m.problem(*given, run=first(run), like=_rwkv6)


@case
def fused_recurrent_rwkv6(m):
    from fla.ops.rwkv6 import fused_recurrent_rwkv6 as run

    given = (*m.qkv(), m.gate(*m.sequence()), m.normal(m.heads, m.depth))
    return m.problem(*given, run=first(run), like=_rwkv6)


@case
def chunk_rwkv7(m):
    from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence as naive
    from fla.ops.rwkv7 import chunk_rwkv7 as run

    def like(r, w, k, v, a, b):
        turned = (t.transpose(1, 2) for t in (r * r.shape[-1] ** 0.5, k, v, a, b, w))
        return naive(*turned)[0].transpose(1, 2)

    r, k, v = m.qkv()
    w, a = m.uniform(*m.sequence(), low=-0.6), m.unit(*m.sequence())
    given = r, w - 0.6, k, v, a, -a * 0.5
    return m.problem(*given, run=first(run), like=like)


@case
def chunk_dplr_delta_rule(m):
    from fla.ops.generalized_delta_rule.dplr import chunk_dplr_delta_rule as run
    from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence as naive

    a = m.unit(*m.sequence())
    given = (*m.qkv(), a, -a * 0.5, m.gate(*m.sequence()))
    return m.problem(*given, run=first(run), like=heads_first(naive))


@case
def chunk_iplr_delta_rule(m):
    from fla.ops.generalized_delta_rule.iplr import chunk_iplr_delta_rule as run
    from fla.ops.generalized_delta_rule.iplr.naive import iplr_recurrence as naive

    a = m.unit(*m.sequence())
    problem = m.problem(*m.qkv(), a, -a * 0.5, run=first(run), like=heads_first(naive))
    problem.differentiable = set()  # it has no backward
    return problem


@case
def chunk_gsa(m):
    from fla.ops.gsa import chunk_gsa as run
    from fla.ops.gsa.naive import naive_recurrent_gsa as naive

    given = (*m.qkv(), m.normal(*m.sequence()), m.gate(*m.sequence()))
    return m.problem(*given, run=first(run), like=first(naive))


@case
def parallel_based(m):
    from fla.ops.based import parallel_based as run
    from fla.ops.based.naive import naive_parallel_based as naive

    given = m.normal(*m.sequence(16)), m.normal(*m.sequence(16)), m.normal(*m.sequence())
    return m.problem(*given, run=first(run), like=heads_first(naive))


@case
def parallel_rebased(m):
    from fla.ops.rebased import parallel_rebased as run
    from fla.ops.rebased.naive import naive_parallel_rebased as naive

    given = m.normal(*m.sequence(16)), m.normal(*m.sequence(16)), m.normal(*m.sequence())
    return m.problem(*given, run=first(run), like=heads_first(naive))


@case
def parallel_nsa(m):
    from fla.ops.nsa import parallel_nsa as run

    heads, groups = 16 * max(1, m.heads // 4), max(1, m.heads // 4)
    shape = m.batch, m.length
    given = m.normal(*shape, heads, 64), m.normal(*shape, groups, 64), m.normal(*shape, groups, 64)
    gates = [m.uniform(*shape, heads) for _ in range(3)]
    return m.problem(*given, *gates, run=first(run, block_size=32, block_counts=4))


@case
def parallel_path_attn(m):
    from fla.ops.path_attn import parallel_path_attn as run
    from fla.ops.path_attn.naive import naive_path_attn as naive

    w = m.unit(*m.sequence(), dtype=torch.float32)
    beta = m.uniform(*m.sequence()[:3], dtype=torch.float32)

    def like(q, k, v, w, beta):
        g = torch.zeros_like(beta)
        return naive(q, k, v, w, beta, g, scale=q.shape[-1] ** -0.5)

    return m.problem(*m.qkv(), w, beta, run=first(run), like=like if m.length % 64 == 0 else None)


@case
def chunk_lightning_attn(m):
    from fla.ops.lightning_attn import chunk_lightning_attn as run

    return m.problem(*m.qkv(), run=lambda q, k, v: run(q, k, v, 3, 24)[0])


@case
def chunk_abc(m):
    from fla.ops.abc import chunk_abc as run
    from fla.ops.abc.naive import naive_cumsum_abc as naive

    return m.problem(*m.qkv(), m.normal(*m.sequence()), run=first(run), like=heads_first(naive))


@case
def chunk_comba(m):
    from fla.ops.comba import chunk_comba as run
    from fla.ops.comba.naive import naive_chunk_comba as naive  # the recurrent one decays p, too

    q, k, v, g, beta = _delta(m, "head")
    return m.problem(q, k, v, k * 0.5, g, beta, run=first(run), like=first(naive))


@case
def chunk_gated_delta_product(m):
    from fla.ops.gated_delta_product import chunk_gated_delta_product as run
    from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product as naive

    batch, length, heads, depth = m.sequence()
    twice = batch, 2 * length, heads, depth
    given = (
        m.normal(*m.sequence()),
        m.unit(*twice),
        m.normal(*twice),
        m.gate(*m.sequence()[:3]),
        m.uniform(*twice[:3]),
    )

    def like(q, k, v, g, beta):
        return naive(q, k, v, g, beta, q.shape[-1] ** -0.5, num_householder=2)[0]

    return m.problem(*given, run=lambda *a: run(*a, num_householder=2)[0], like=like)


@case
def chunk_mesa_net(m):
    from fla.ops.mesa_net import chunk_mesa_net as run

    def like(q, k, v, g, beta, lamb):
        """Solves the systems that the operator's conjugate gradients approximate."""
        keys = values = 0
        outputs = []
        for i in range(q.shape[1]):
            decay, weighted = (
                g[:, i, :, None, None].exp(),
                (k[:, i] * beta[:, i, :, None])[..., None],
            )
            keys = keys * decay + weighted * k[:, i, :, None, :]
            values = values * decay + weighted * v[:, i, :, None, :]
            solved = torch.linalg.solve(keys + torch.diag_embed(lamb), q[:, i, ..., None])
            outputs.append((solved * values).sum(-2))
        return torch.stack(outputs, 1)

    shape = m.sequence()
    lamb = m.uniform(m.heads, m.depth, low=0.25, dtype=torch.float32)
    given = m.unit(*shape), m.unit(*shape), m.normal(*shape), m.gate(*shape[:3])
    return m.problem(*given, m.uniform(*shape[:3]), lamb, run=first(run), like=like)


@case
def chunk_log_linear_attn(m):
    from fla.ops.log_linear_attn import chunk_log_linear_attn as run

    batch, length, heads, _ = m.sequence()
    levels = max(1, (length - 1).bit_length()) + 1
    q, k = m.normal(batch, length, 1, 64), m.normal(batch, length, 1, 64)
    given = (
        q,
        k,
        m.normal(*m.sequence()),
        m.gate(batch, length, heads, dtype=torch.float32),
        m.uniform(batch, length, heads, levels),
    )
    return m.problem(*given, run=first(run))


@case
def chunk_ttt_linear(m):
    from fla.ops.ttt import chunk_ttt_linear as run
    from fla.ops.ttt.naive import chunk_ttt_linear_ref as naive

    shape = m.sequence()
    given = (
        m.normal(*shape),
        m.unit(*shape),
        m.normal(*shape),
        m.normal(m.heads, m.depth),
        m.normal(m.heads, m.depth),
        m.uniform(*shape[:3], 1, high=0.1),
    )

    def like(q, k, v, w, b, eta):
        return naive(q * 1, k * 1, v * 1, w * 1, b * 1, eta * 1, mini_batch_size=16)[0]  # in place

    return m.problem(*given, run=first(run), like=like if m.length % 16 == 0 else None)


@case
def parallel_stickbreaking_attn(m):
    from fla.ops.stickbreaking_attn import parallel_stickbreaking_attn as run
    from fla.ops.stickbreaking_attn.naive import naive_stickbreaking_attn as naive

    return m.problem(*m.qkv(), run=run, like=naive)


@case
def fused_recurrent_rwkv4(m):
    from fla.ops.rwkv4 import fused_recurrent_rwkv4 as run

    shape, wide = (m.batch, m.length, m.hidden), torch.float32
    state = torch.zeros(m.batch, 3, 1, m.hidden, device=m.device)
    state[:, 2] = -1e38
    given = (
        m.normal(m.hidden, scale=0.1, dtype=wide),
        m.normal(m.hidden, dtype=wide),
        m.normal(*shape, dtype=wide),
        m.normal(*shape, dtype=wide),
        state,
    )
    return m.problem(*given, run=first(run), fixed=(4,))


@case
def chunk_gdn2(m):
    from fla.ops.gdn2 import chunk_gdn2 as run
    from fla.ops.gdn2.naive import naive_recurrent_gdn2 as naive

    shape = m.sequence()
    given = (
        m.unit(*shape),
        m.unit(*shape),
        m.normal(*shape),
        m.gate(*shape),
        m.uniform(*shape),
        m.uniform(*shape),
    )
    return m.problem(*given, run=first(run), like=first(naive))


@case
def parallel_parallax(m):
    from fla.ops.parallax import parallel_parallax as run
    from fla.ops.parallax.naive import naive_parallax as naive

    given = (
        m.normal(*m.sequence()),
        m.normal(*m.sequence()),
        m.normal(*m.sequence()),
        m.normal(*m.sequence()),
    )
    return m.problem(*given, run=first(run), like=first(naive))


@case
def parallel_wall_attn(m):
    from fla.ops.wall_attn import parallel_wall_attn as run
    from fla.ops.wall_attn.naive import naive_wall_attn as naive

    given = (*m.qkv(), m.gate(*m.sequence(), dtype=torch.float32))
    return m.problem(*given, run=first(run), like=first(naive, scale=m.depth**-0.5))


# ---- modules -------------------------------------------------------------------------------------------


@case
def l2norm(m):
    from fla.modules.l2norm import l2norm as run

    return m.problem(
        m.normal(*m.sequence()),
        run=run,
        like=lambda x: x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt(),
    )


@case
def layer_norm(m):
    from fla.modules.layernorm import layer_norm as run

    given = m.normal(m.rows, m.hidden), m.normal(m.hidden), m.normal(m.hidden)
    return m.problem(
        *given, run=run, like=lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b)
    )


def _rms(x, w, eps=1e-5):
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * w


@case
def rms_norm_residual(m):
    from fla.modules.layernorm import rms_norm as run

    given = m.normal(m.rows, m.hidden), m.normal(m.rows, m.hidden), m.normal(m.hidden)
    return m.problem(
        *given,
        run=lambda x, r, w: run(x, w, None, residual=r, prenorm=True),
        like=lambda x, r, w: (_rms(x + r, w), x + r),
    )


@case
def rms_norm_gated(m):
    from fla.modules.fused_norm_gate import rms_norm_gated as run

    given = m.normal(m.rows, 128), m.normal(m.rows, 128), m.normal(128)
    return m.problem(
        *given,
        run=lambda x, g, w: run(x, g, w, None),
        like=lambda x, g, w: _rms(x, w) * functional.silu(g),
    )


@case
def cross_entropy(m):
    from fla.modules.fused_cross_entropy import cross_entropy_loss as run

    given = m.normal(m.rows, m.vocabulary), m.integers(m.vocabulary, m.rows)
    return m.problem(
        *given, run=first(run), like=lambda x, t: functional.cross_entropy(x, t, reduction="none")
    )


@case
def rotary(m):
    from fla.modules.rotary import rotary_embedding as run

    half = m.depth // 2
    given = m.normal(*m.sequence()), m.normal(m.length, half), m.normal(m.length, half)

    def like(x, c, s):
        one, two = x.chunk(2, dim=-1)
        c, s = c[None, :, None], s[None, :, None]
        return torch.cat([one * c - two * s, one * s + two * c], dim=-1)

    return m.problem(*given, run=run, like=like, fixed=(1, 2))


@case
def causal_conv1d(m):
    from fla.modules.conv.causal_conv1d import causal_conv1d as run

    given = m.normal(m.batch, m.length, m.hidden), m.normal(m.hidden, 4)

    def like(x, w):
        y = functional.conv1d(
            functional.pad(x.transpose(1, 2), (3, 0)), w[:, None], groups=w.shape[0]
        )
        return functional.silu(y.transpose(1, 2))

    return m.problem(*given, run=first(run, activation="silu"), like=like)


@case
def token_shift(m):
    from fla.modules.token_shift import token_shift as run

    return m.problem(
        m.normal(m.batch, m.length, m.hidden), run=first(run),
        like=lambda x: functional.pad(x, (0, 0, 1, -1)) - x,
    )  # fmt: skip


@case
def swiglu(m):
    from fla.modules.activations import swiglu as run

    given = m.normal(m.rows, m.hidden), m.normal(m.rows, m.hidden)
    return m.problem(*given, run=run, like=lambda x, y: functional.silu(x) * y)


@case
def fused_kl_div(m):
    from fla.modules.fused_kl_div import fused_kl_div_loss as run

    def like(x, t, w, u):
        x, t = functional.log_softmax(x @ w.T, -1), functional.log_softmax(t @ u.T, -1)
        return functional.kl_div(x, t, log_target=True, reduction="batchmean")

    shape, weights = (m.rows, m.hidden), (m.vocabulary, m.hidden)
    given = [m.normal(*s, scale=0.1) for s in (shape, shape, weights, weights)]
    return m.problem(*given, run=run, like=like, fixed=(1, 3))


@case
def bitlinear(m):
    from fla.modules.fused_bitlinear import rms_norm_linear_quant as run

    given = m.normal(m.rows, m.hidden), m.normal(m.hidden), m.normal(m.hidden, m.hidden, scale=0.02)
    return m.problem(*given, run=lambda x, n, w: run(x, n, None, w, None))


@case
def cumsum(m):
    from fla.ops.utils.cumsum import chunk_global_cumsum, chunk_local_cumsum

    def local(g):
        parts = [part.cumsum(1) for part in g.split(64, dim=1)]
        return torch.cat(parts, 1)

    return m.problem(
        m.gate(*m.sequence(), dtype=torch.float32),
        run=lambda g: [chunk_local_cumsum(g, 64), chunk_global_cumsum(g), chunk_global_cumsum(g[..., 0].contiguous())],
        like=lambda g: [local(g), g.cumsum(1), g[..., 0].cumsum(1)],
        fixed=(0,),
    )  # fmt: skip
