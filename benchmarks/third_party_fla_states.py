"""Recurrences of flash-linear-attention with several states, slots, inner loops or preconditioners."""

from __future__ import annotations

import math

import torch

from third_party_cases import Recurrence, recurrent, registrar
from third_party_references import packed, recurrence, unit, visible

case = registrar("fla")
family = recurrent("fla")


def slots(q, k, v, s, g, states):
    """Gated slot attention: keys are written to slots, a softmax over them reads the values'."""
    keys, values = states or (None, None)
    read, keys = recurrence(q, k, s, keys, gv=g)
    o, values = recurrence(read.softmax(-1), s, v, values, gk=g, scale=1.0)
    return o, (keys, values)


def _slot_states(m):
    return (m.heads, m.depth, m.depth), (m.heads, m.depth, m.depth)


@family()
def chunk_gsa(m):
    from fla.ops.gsa import chunk_gsa as run

    given = (*m.qkv(), m.normal(*m.sequence()), m.gate(*m.sequence()))
    return Recurrence(given, run, slots, _slot_states(m))


@family()
def fused_recurrent_gsa(m):
    from fla.ops.gsa import fused_recurrent_gsa as run

    given = (*m.qkv(), m.normal(*m.sequence()), m.gate(*m.sequence()))
    return Recurrence(given, run, slots, _slot_states(m))


def additive_gate(x, before):
    """Shares and gates of a running softmax over time, and the logarithm of its denominator."""
    if before is None:
        z = x.logcumsumexp(1)
        last = torch.cat([z[:, :1], z[:, :-1]], 1)
    else:
        z = torch.cat([before, x], 1).logcumsumexp(1)
        last, z = z[:, :-1], z[:, 1:]
    return (x - z).exp(), last - z, z[:, -1:]


@case
def chunk_abc(m):
    from fla.ops.abc import chunk_abc as run

    def like(q, k, v, s):
        s, g, _ = additive_gate(s, None)
        return slots(q, k, v, s, g, None)[0]

    return m.problem(*m.qkv(), m.normal(*m.sequence()), run=lambda *a: run(*a)[0], like=like)


def lightnet(q, k, v, states):
    state, before = states or (None, None)
    k, g, z = additive_gate(k, before)
    o, state = recurrence(q, k, v, state, gk=g)
    return o, (state, z)


@family()
def chunk_lightnet(m):
    from fla.ops.lightnet import chunk_lightnet as run

    return Recurrence(m.qkv(), run, lightnet, ((m.heads, m.depth, m.depth), (1, m.heads, m.depth)))


@family()
def fused_recurrent_lightnet(m):
    from fla.ops.lightnet import fused_recurrent_lightnet as run

    return Recurrence(m.qkv(), run, lightnet, ((m.heads, m.depth, m.depth), (1, m.heads, m.depth)))


@family()
def fused_additive_gate(m):
    from fla.ops.gsa.gate import fused_additive_gate as run

    def run_(x, initial_state=None, output_final_state=False, **more):
        k, g, z = run(x, initial_state, **more)
        return torch.cat([k, g], -1), z

    def like(x, before):
        k, g, z = additive_gate(x, before)
        return torch.cat([k, g], -1), z

    return Recurrence((m.normal(*m.sequence()),), run_, like, ((1, m.heads, m.depth),))


def positive(state):
    """A matrix without negative eigenvalues."""
    return state @ state.transpose(-1, -2) / state.shape[-1]


CONJUGATE = 1e-5**0.5
"""Conjugate gradients add 1e-5 to squares of residuals that they divide by."""


def mesa(q, k, v, g, beta, lamb, states):
    """Solves the systems that the operator's conjugate gradients approximate."""
    keys, values = (positive(states[0]), states[1]) if states else (0, 0)
    outputs = []
    for i in range(q.shape[1]):
        decay = g[:, i, :, None, None].exp()
        weighted = (k[:, i] * beta[:, i, :, None])[..., None]
        keys = keys * decay + weighted * k[:, i, :, None, :]
        values = values * decay + weighted * v[:, i, :, None, :]
        solved = torch.linalg.solve(keys + torch.diag_embed(lamb), q[:, i, ..., None])
        outputs.append((solved * values).sum(-2))
    return torch.stack(outputs, 1), (keys, values)


def _mesa(m):
    shape = m.sequence()
    return (
        m.unit(*shape), m.unit(*shape), m.normal(*shape), m.gate(*m.head()), m.uniform(*m.head()),
        m.uniform(m.heads, m.depth, low=0.25, dtype=torch.float32),
    )  # fmt: skip


@family()
def chunk_mesa_net(m):
    from fla.ops.mesa_net import chunk_mesa_net as run

    def run_(*args, initial_state=None, **more):
        if initial_state:
            more |= {"h_kk_init": positive(initial_state[0]), "h_kv_init": initial_state[1]}
        return run(*args, **more)

    states = (m.heads, m.depth, m.depth), (m.heads, m.depth, m.depth)
    return Recurrence(_mesa(m), run_, mesa, states, whole=1, approximate=CONJUGATE)


@case
def mesa_net_decoding_one_step(m):
    from fla.ops.mesa_net import mesa_net_decoding_one_step as run

    m.length = 1
    q, k, v, g, beta, lamb = _mesa(m)
    states = [m.wide(m.batch, m.heads, m.depth, m.depth) for _ in range(2)]

    def run_(q, k, v, g, beta, lamb, keys, values):
        q, k, v, g, beta = (x[:, 0] for x in (q, k, v, g, beta))
        return run(q, k, v, g, lamb, beta, positive(keys), values)

    def like(q, k, v, g, beta, lamb, keys, values):
        o, states = mesa(q, k, v, g, beta, lamb, (keys, values))
        return o[:, 0], *states

    return m.problem(
        q,
        k,
        v,
        g,
        beta,
        lamb,
        *states,
        run=run_,
        like=like,
        forward_only=True,
        approximate=CONJUGATE,
    )


def loglinear(q, k, v, g, scales):
    """Attention with a weight for each node of the Fenwick tree that holds the key for the query."""
    length = q.shape[1]
    row, column = (torch.arange(length, device=q.device)[s] for s in ((..., None), (None, ...)))
    weights = torch.diag_embed(scales[..., 0].transpose(1, 2))
    for level in range(1, max(1, (length - 1).bit_length()) + 1):
        half = 1 << (level - 1)
        start = row - row % half
        held = (row % (2 * half) >= half) & (column + half >= start) & (column < start)
        weights = weights + held * scales[..., level].transpose(1, 2)[..., None]
    total = g.cumsum(1).transpose(1, 2)
    apart = total[..., :, None] - total[..., None, :]
    decay = apart.masked_fill(~visible(length, None, q.device), float("-inf")).exp()
    heads = v.shape[2] // q.shape[2]
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k).repeat_interleave(heads, 1)
    return torch.einsum("bhqk,bkhd->bqhd", scores * decay * weights, v)


def _loglinear(m):
    batch, length, heads, depth = m.sequence(64)
    levels = max(1, (length - 1).bit_length()) + 1
    q, k = (m.normal(batch, length, 1, depth, scale=0.3) for _ in range(2))
    gate = m.gate(batch, length, heads, dtype=torch.float32)
    return q, k, m.normal(*m.sequence(64)), gate, m.uniform(batch, length, heads, levels)


@case
def chunk_log_linear_attn(m):
    from fla.ops.log_linear_attn import chunk_log_linear_attn as run

    return m.problem(*_loglinear(m), run=lambda *a: run(*a)[0], like=loglinear)


@case
def chunk_log_linear_attn_packed(m):
    from fla.ops.log_linear_attn import chunk_log_linear_attn as run

    m.batch = 1
    run_ = lambda *a: run(*a, cu_seqlens=m.starts)[0]  # noqa: E731
    return m.problem(*_loglinear(m), run=run_, like=packed(loglinear, 5, m.length))


def momentum(q, k, v, alpha, mu, beta, eta, states):
    q, k = unit(q), unit(k)
    s, moment = states or (0, 0)
    outputs = []
    for i in range(q.shape[1]):
        a, b = alpha[:, i, :, None, None].exp(), beta[:, i, :, None, None]
        read = k[:, i, :, None] @ (s * a) if i or states else 0
        off = -(v[:, i, :, None] - read)
        moment = mu[:, i, :, None, None].exp() * moment
        moment = moment + (eta[:, i, :, None] * k[:, i])[..., None] @ off
        s = a * s - b * moment
        outputs.append((q[:, i, :, None] @ s)[:, :, 0])
    return torch.stack(outputs, 1) * q.shape[-1] ** -0.5, torch.stack([s, moment])


def _momentum(m, run):
    def run_(q, k, v, a, mu, beta, eta, initial_state=None, **more):
        state = None if initial_state is None else torch.stack(initial_state)
        return run(q, k, v, a, mu, beta=beta, eta=eta, initial_state=state, **more)

    given = (*m.qkv(), m.gate(*m.head()), m.gate(*m.head()))
    shares = m.uniform(*m.head()), m.uniform(*m.head())
    states = (m.heads, m.depth, m.depth), (m.heads, m.depth, m.depth)
    return Recurrence((*given, *shares), run_, momentum, states)


@family("plain states")
def chunk_momentum_delta_rule(m):
    from fla.ops.momentum_delta_rule import chunk_momentum_delta_rule as run

    return _momentum(m, run)


@family("plain states")
def fused_recurrent_momentum_delta_rule(m):
    from fla.ops.momentum_delta_rule import fused_recurrent_momentum_delta_rule as run

    return _momentum(m, run)


def preconditioned(q, k, v, decay, beta, diagonal_gate, diagonal_beta, states, x=1.5, eps=1e-6):
    """The delta rule with keys scaled by the inverse of a running diagonal of their squares."""
    state, diagonal = (states[0], states[1].abs()) if states else (None, 0)
    q, k, scaled = unit(q), unit(k), []
    for i in range(k.shape[1]):
        fresh = diagonal_beta[:, i, :, None] * k[:, i] ** 2
        diagonal = diagonal_gate[:, i, :, None].exp() * diagonal + fresh
        r = (diagonal + eps).log() + 0.2
        scaled.append(k[:, i] * (-math.log(x) * r / (1 + r.abs())).exp())
    write = torch.stack(scaled, 1) * beta[..., None]
    o, state = recurrence(q, write, v, state, read=k, **decay)
    return o, (state, diagonal)


def _precond(m, gate, run, names, forward_only=False):
    def like(q, k, v, g, beta, g_atk, beta_atk, states):
        decay = {"g" if g.dim() == 3 else "gk": g}
        return preconditioned(q, k, v, decay, beta, g_atk, beta_atk, states)

    def run_(*args, initial_state=None, **more):
        if initial_state:
            more |= {"initial_state": initial_state[0], "initial_A_state": initial_state[1].abs()}
        o, *states = run(**dict(zip(names, args, strict=True)), **more)
        return o, tuple(states)

    given = (*m.qkv(), m.gate(*gate), m.uniform(*m.head()), m.gate(*m.head()), m.uniform(*m.head()))
    states = (m.heads, m.depth, m.depth), (m.heads, m.depth)
    return Recurrence(given, run_, like, states, forward_only=forward_only)


PRECOND = ["q", "k", "v", "g", "beta", "g_atk", "beta_atk"]


@family()
def chunk_precond_gated_delta_rule(m):
    from fla.ops.precond_gated_delta_rule import chunk_precond_gated_delta_rule as run

    return _precond(m, m.head(), run, PRECOND)


@family()
def fused_recurrent_precond_gated_delta_rule(m):
    from fla.ops.precond_gated_delta_rule import fused_recurrent_precond_gated_delta_rule as run

    return _precond(m, m.head(), run, PRECOND, True)


@family()
def chunk_precond_kda(m):
    from fla.ops.precond_kda import chunk_precond_kda as run

    return _precond(m, m.sequence(), run, PRECOND)


@family()
def fused_recurrent_precond_kda(m):
    from fla.ops.precond_kda import fused_recurrent_precond_kda as run

    return _precond(m, m.sequence(), run, PRECOND, True)
