"""Linear attention and recurrences of flash-linear-attention, each with a step-by-step reference."""

from __future__ import annotations

import torch
from torch.nn import functional

from third_party_cases import Recurrence, recurrent, registrar
from third_party_references import delta, recurrence, unit

case = registrar("fla")
family = recurrent("fla")
ALL = "plain states packed"


def keyed(names, function, **options):
    """`function` with its positional arguments given by name."""
    split = names.split()

    def call(*args, **more):
        return function(**dict(zip(split, args, strict=True)), **options, **more)

    return call


def gla(q, k, v, gk, state):
    return recurrence(q, k, v, state, gk=gk)


@family()
def chunk_gla(m):
    from fla.ops.gla import chunk_gla as run

    return Recurrence((*m.qkv(), m.gate(*m.sequence())), run, gla)


@family()
def fused_recurrent_gla(m):
    from fla.ops.gla import fused_recurrent_gla as run

    return Recurrence((*m.qkv(), m.gate(*m.sequence())), run, gla)


def simple(q, k, v, g, state):
    return recurrence(q, k, v, state, g=g)


@family()
def chunk_simple_gla(m):
    from fla.ops.simple_gla import chunk_simple_gla as run

    return Recurrence((*m.qkv(), m.gate(*m.head())), run, simple)


@family()
def fused_chunk_simple_gla(m):
    from fla.ops.simple_gla import fused_chunk_simple_gla as run

    return Recurrence((*m.qkv(), m.gate(*m.head())), run, simple)


@family()
def fused_recurrent_simple_gla(m):
    from fla.ops.simple_gla import fused_recurrent_simple_gla as run

    return Recurrence((*m.qkv(), m.gate(*m.head())), run, simple)


@case
def parallel_simple_gla(m):
    from fla.ops.simple_gla import parallel_simple_gla as run

    given = (*m.qkv(), m.gate(*m.head()))
    return m.problem(
        *given, run=lambda *a: run(*a)[0], like=lambda *a: recurrence(*a[:3], g=a[3])[0]
    )


def decayed(rates):
    """Linear attention with a constant decay of each head."""

    def call(q, k, v, state):
        g = rates(q.shape[2]).to(q).expand(*q.shape[:3])
        return recurrence(q, k, v, state, g=g)

    return call


retention = decayed(lambda heads: torch.log1p(-torch.exp2(-5.0 - torch.arange(heads).double())))


@family()
def chunk_retention(m):
    from fla.ops.retention import chunk_retention as run

    return Recurrence(m.qkv(), run, retention)


@family()
def fused_chunk_retention(m):
    from fla.ops.retention import fused_chunk_retention as run

    return Recurrence(m.qkv(), run, retention)


@family()
def fused_recurrent_retention(m):
    from fla.ops.retention import fused_recurrent_retention as run

    return Recurrence(m.qkv(), run, retention)


@case
def parallel_retention(m):
    from fla.ops.retention import parallel_retention as run

    return m.problem(*m.qkv(), run=lambda *a: run(*a)[0], like=lambda *a: retention(*a, None)[0])


lightning = decayed(lambda heads: -(8 / heads * (1 - 3 / 24)) * torch.arange(heads).double())


def layered(run):
    return lambda q, k, v, **more: run(q, k, v, 3, 24, **more)


@family()
def chunk_lightning_attn(m):
    from fla.ops.lightning_attn import chunk_lightning_attn as run

    return Recurrence(m.qkv(), layered(run), lightning)


@family()
def fused_recurrent_lightning_attn(m):
    from fla.ops.lightning_attn import fused_recurrent_lightning_attn as run

    return Recurrence(m.qkv(), layered(run), lightning)


@family()
def chunk_linear_attn(m):
    from fla.ops.linear_attn import chunk_linear_attn as run

    return Recurrence(m.qkv(), lambda *a, **more: run(*a, normalize=False, **more), recurrence)


@family()
def fused_chunk_linear_attn(m):
    from fla.ops.linear_attn import fused_chunk_linear_attn as run

    return Recurrence(m.qkv(), lambda *a, **more: run(*a, normalize=False, **more), recurrence)


@family()
def fused_recurrent_linear_attn(m):
    from fla.ops.linear_attn import fused_recurrent_linear_attn as run

    return Recurrence(m.qkv(), run, recurrence)


@family()
def chunk_linear_attn_normalized(m):
    from fla.ops.linear_attn import chunk_linear_attn as run

    def like(q, k, v, states):
        state, sums = states or (None, 0)
        o, final = recurrence(q, k, v, state)
        total = k.cumsum(1) + sums
        divisor = (q * q.shape[-1] ** -0.5 * total).sum(-1, keepdim=True)
        return o / (divisor + 1e-10), (final, total[:, -1:])

    q, k, v = m.qkv()
    shapes = (m.heads, m.depth, m.depth), (1, m.heads, m.depth)
    given = q.abs(), k.abs(), v  # so that no divisor is nearly zero

    def positive(*args, initial_state=None, **more):
        state = initial_state and (initial_state[0], initial_state[1].abs())
        return run(*args, normalize=True, initial_state=state, **more)

    def same(*args):
        return like(*args[:-1], args[-1] and (args[-1][0], args[-1][1].abs()))

    return Recurrence(given, positive, same, shapes)


def _delta(m, gate=""):
    q, k, v = m.normal(*m.sequence()), m.unit(*m.sequence()), m.normal(*m.sequence())
    beta = m.uniform(*m.head())
    if not gate:
        return q, k, v, beta
    return q, k, v, m.gate(*(m.head() if gate == "head" else m.sequence())), beta


@family()
def chunk_delta_rule(m):
    from fla.ops.delta_rule import chunk_delta_rule as run

    return Recurrence(_delta(m), run, delta)


@family()
def fused_recurrent_delta_rule(m):
    from fla.ops.delta_rule import fused_recurrent_delta_rule as run

    return Recurrence(_delta(m), run, delta)


@case
def parallel_delta_rule(m):
    from fla.ops.delta_rule.parallel import parallel_delta_rule as run

    turned = [x.transpose(1, 2).contiguous() for x in _delta(m)]

    def like(*args):
        return delta(*(x.transpose(1, 2) for x in args))[0].transpose(1, 2)

    return m.problem(*turned, run=lambda *a: run(*a)[0], like=like, forward_only=True)


def gated(q, k, v, g, beta, state):
    return delta(q, k, v, beta, state, g=g)


@family()
def chunk_gated_delta_rule(m):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as run

    return Recurrence(_delta(m, "head"), run, gated)


@family()
def chunk_gated_delta_rule_grouped(m):
    """Fewer keys than values; norms and the sigmoid of beta are the kernel's."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as run

    def like(q, k, v, g, beta, state):
        return delta(unit(q), unit(k), v, beta.sigmoid(), state, g=g)

    q, k = (m.normal(*m.sequence(heads=m.heads // 2)) for _ in range(2))
    given = q, k, m.normal(*m.sequence()), m.gate(*m.head()), m.normal(*m.head())
    options = {"use_qk_l2norm_in_kernel": True, "use_beta_sigmoid_in_kernel": True}
    return Recurrence(given, keyed("q k v g beta", run, **options), like)


@family()
def fused_recurrent_gated_delta_rule(m):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as run

    options = {"run": keyed("q k v g beta", run), "like": gated, "forward_only": True}
    return Recurrence(_delta(m, "head"), **options)


def keyed_delta(q, k, v, g, beta, state):
    return delta(q, k, v, beta, state, gk=g)


@family()
def chunk_kda(m):
    from fla.ops.kda import chunk_kda as run

    return Recurrence(_delta(m, "all"), run, keyed_delta)


@family()
def fused_recurrent_kda(m):
    from fla.ops.kda import fused_recurrent_kda as run

    return Recurrence(_delta(m, "all"), run, keyed_delta, forward_only=True)


@case
def chunk_kda_gate(m):
    """The gate's softplus, the norms and the sigmoid of beta are the kernel's."""
    from fla.ops.kda import chunk_kda as run

    def like(q, k, v, g, beta, a, bias):
        heads = a.shape[0]
        g = g + bias.view(heads, -1)
        g = -a.exp()[:, None] * functional.softplus(g)
        return delta(unit(q), unit(k), v, beta.sigmoid(), gk=g)

    def run_(q, k, v, g, beta, a, bias):
        return run(
            q, k, v, g, beta, A_log=a, dt_bias=bias, output_final_state=True, use_gate_in_kernel=True,
            use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True,
        )  # fmt: skip

    given = (*(m.normal(*m.sequence()) for _ in range(4)), m.normal(*m.head()))
    weights = m.wide(m.heads, scale=0.5) - 2, m.wide(m.heads * m.depth)
    return m.problem(*given, *weights, run=run_, like=like)


def _comba(m):
    q, k, v, g, beta = _delta(m, "head")
    return q, k, v, k * 0.5, g, beta


def comba(q, k, v, p, g, beta, state):
    return recurrence(q, k * beta[..., None], v, state, g=g, read=p, read_before=True)


@family()
def chunk_comba(m):
    from fla.ops.comba import chunk_comba as run

    return Recurrence(_comba(m), run, comba)


@family()
def fused_recurrent_comba(m):
    from fla.ops.comba import fused_recurrent_comba as run

    return Recurrence(_comba(m), keyed("q k v p g beta", run), comba, forward_only=True)


def _gdn2(m):
    shape = m.sequence()
    return (
        m.unit(*shape), m.unit(*shape), m.normal(*shape),
        m.gate(*shape), m.uniform(*shape), m.uniform(*shape),
    )  # fmt: skip


def gdn2(q, k, v, g, b, w, state):
    return recurrence(q, k, w * v, state, gk=g, read=b * k)


@family()
def chunk_gdn2(m):
    from fla.ops.gdn2 import chunk_gdn2 as run

    return Recurrence(_gdn2(m), run, gdn2)


@family()
def fused_recurrent_gdn2(m):
    from fla.ops.gdn2 import fused_recurrent_gdn2 as run

    return Recurrence(_gdn2(m), run, gdn2, forward_only=True)


def oja(q, k, v, gv, beta, state):
    """S = S diag(exp gv) + beta (k − S v) vᵀ."""
    s = k.new_zeros(*k.shape[:1], *k.shape[2:], v.shape[-1]) if state is None else state
    outputs = []
    for i in range(q.shape[1]):
        s = s * gv[:, i, :, None].exp()
        share = beta[:, i, :, None] * (k[:, i] - (s @ v[:, i, :, :, None])[..., 0])
        s = s + share[..., None] * v[:, i, :, None]
        outputs.append((q[:, i, :, None] @ s)[:, :, 0])
    return torch.stack(outputs, 1) * q.shape[-1] ** -0.5, s


def _oja(m):
    q, k, v = m.normal(*m.sequence()), m.normal(*m.sequence()), m.unit(*m.sequence())
    return q, k, v, m.gate(*m.sequence()), m.uniform(*m.head())


@family()
def chunk_gated_oja_rule(m):
    from fla.ops.gated_oja_rule import chunk_gated_oja_rule as run

    return Recurrence(_oja(m), run, oja)


@family()
def fused_recurrent_gated_oja_rule(m):
    from fla.ops.gated_oja_rule import fused_recurrent_gated_oja_rule as run

    return Recurrence(_oja(m), run, oja, forward_only=True)


def _lowrank(m):
    a = m.unit(*m.sequence())
    return (*m.qkv(), a, a * -0.5)


def dplr(q, k, v, a, b, gk, state):
    return recurrence(q, k, v, state, a=a, b=b, gk=gk)


@family()
def chunk_dplr_delta_rule(m):
    from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule as run

    return Recurrence((*_lowrank(m), m.gate(*m.sequence())), run, dplr)


@family()
def fused_recurrent_dplr_delta_rule(m):
    from fla.ops.generalized_delta_rule import fused_recurrent_dplr_delta_rule as run

    return Recurrence((*_lowrank(m), m.gate(*m.sequence())), run, dplr, forward_only=True)


def iplr(q, k, v, a, b, state):
    return recurrence(q, k, v, state, a=a, b=b)


@family()
def chunk_iplr_delta_rule(m):
    from fla.ops.generalized_delta_rule import chunk_iplr_delta_rule as run

    return Recurrence(_lowrank(m), run, iplr, forward_only=True)


@family()
def fused_recurrent_iplr_delta_rule(m):
    from fla.ops.generalized_delta_rule import fused_recurrent_iplr_delta_rule as run

    return Recurrence(_lowrank(m), run, iplr)
