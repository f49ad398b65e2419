"""Operators of flash-linear-attention with steps inside of a step, polynomials and rotating slots."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from torch.nn import functional

from third_party_cases import Recurrence, recurrent, registrar
from third_party_references import attention, delta, visible

case = registrar("fla")
family = recurrent("fla")


@family()
def chunk_gated_delta_product(m):
    from fla.ops.gated_delta_product import chunk_gated_delta_product as run

    def like(q, k, v, g, beta, state):
        """Two delta steps for each query: the first one decays, the second is read."""
        q = torch.stack([torch.zeros_like(q), q], 2).flatten(1, 2)
        g = torch.stack([g, torch.zeros_like(g)], 2).flatten(1, 2)
        o, state = delta(q, k, v, beta, state, g=g)
        return o[:, 1::2], state

    batch, length, heads, depth = m.sequence()
    twice = batch, 2 * length, heads, depth
    given = (
        m.normal(*m.sequence()), m.unit(*twice), m.normal(*twice), m.gate(*m.head()), m.uniform(*twice[:3]),
    )  # fmt: skip
    run_ = lambda *a, **more: run(*a, num_householder=2, **more)  # noqa: E731
    return Recurrence(given, run_, like)


def norm_step(x, w, b, eps=1e-6):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) * (var + eps).rsqrt(), (var + eps).rsqrt()


def ttt(q, k, v, eta, w, b, states, size=16):
    """Test-time training: a linear layer takes a gradient step for each `size` tokens.

    Tokens that fill up the last step are zeros with the last rate, as in the package's reference: the bias learns them.
    """
    length, more = q.shape[1], -q.shape[1] % size
    q, k, v = (functional.pad(x, (0, 0, 0, 0, 0, more)) for x in (q, k, v))
    eta = torch.cat([eta, *[eta[:, -1:]] * more], 1)
    q, k, v, eta = (x.transpose(1, 2) for x in (q, k, v, eta))
    w, b, depth = w[:, None], b[:, None], q.shape[-1]
    h, hb = states or (
        q.new_zeros(*q.shape[:2], depth, depth),
        q.new_zeros(*q.shape[:2], 1, depth),
    )
    outputs = []
    for start in range(0, q.shape[2], size):
        part = slice(start, start + size)
        q_i, k_i, v_i, eta_i = (
            q[:, :, part] * depth**-0.5,
            k[:, :, part],
            v[:, :, part],
            eta[:, :, part],
        )
        hat, rstd = norm_step(k_i @ h + hb, w, b)
        g = (w * hat + b - (v_i - k_i)) * w
        new = (g - g.mean(-1, keepdim=True) - hat * (g * hat).mean(-1, keepdim=True)) * rstd
        scores = (q_i @ k_i.transpose(-1, -2)).tril()
        o = q_i @ h - (eta_i * scores) @ new + hb - eta_i.expand_as(scores).tril() @ new
        h = h - (eta_i[:, :, -1:] * k_i).transpose(-1, -2) @ new
        hb = hb - (eta_i[:, :, -1:] * new).sum(-2, keepdim=True)
        outputs.append(o + norm_step(o, w, b)[0] * w + b)
    return torch.cat(outputs, 2).transpose(1, 2)[:, :length], (h, hb)


def _ttt(m, run):
    def run_(q, k, v, eta, w, b, initial_state=None, **more):
        if initial_state:
            more |= {"initial_state": initial_state[0], "initial_state_bias": initial_state[1]}
        o, *states = run(q, k, v, w, b, eta, **more)
        return o, tuple(states)

    shape = m.sequence()
    given = m.normal(*shape), m.unit(*shape), m.normal(*shape), m.uniform(*shape[:3], 1, high=0.1)
    weights = m.normal(m.heads, m.depth), m.normal(m.heads, m.depth)
    states = (m.heads, m.depth, m.depth), (m.heads, 1, m.depth)
    return Recurrence((*given, *weights), run_, ttt, states, whole=2, forward_only="packed")


@family()
def chunk_ttt_linear(m):
    from fla.ops.ttt import chunk_ttt_linear as run

    return _ttt(m, run)


@family()
def fused_chunk_ttt_linear(m):
    from fla.ops.ttt import fused_chunk_ttt_linear as run

    return _ttt(m, run)


def _cyclic(m, run, module, forward_only):
    from fla.ops.cyfa import naive_recurrent_cyfa as naive

    check = getattr(module.validate_cyfa_inputs, "unasked", module.validate_cyfa_inputs)

    def anywhere(*args, require_cuda=False):
        return check(*args)

    anywhere.unasked = check
    module.validate_cyfa_inputs = anywhere
    count = 16

    def run_(*args, **more):
        return run(*args, 1e-6, 1e-6, **more)

    def like(*args):
        basis = sys.modules["fla.ops.cyfa.utils"]._readout_basis  # kept in one type
        basis.cache_clear()
        found = naive(*args[:-1], 1e-6, 1e-6, initial_state=args[-1], output_final_state=True)
        basis.cache_clear()
        return found

    given = (*m.qkv(), m.gate(*m.head()), m.uniform(*m.head()), m.uniform(*m.head()))
    weights = (
        m.wide(m.heads, count - 1, count - 1),
        m.uniform(m.depth, low=0.5),
        m.uniform(m.depth, low=0.5),
    )
    states = (m.heads, m.depth, count), (m.heads, count, m.depth), (m.heads,)
    return Recurrence((*given, *weights), run_, like, states, whole=3, forward_only=forward_only)


@family()
def chunk_cyfa(m):
    from fla.ops.cyfa import chunk_cyfa as run

    return _cyclic(m, run, sys.modules["fla.ops.cyfa.chunk"], False)


@family()
def fused_recurrent_cyfa(m):
    from fla.ops.cyfa import fused_recurrent_cyfa as run

    return _cyclic(m, run, sys.modules["fla.ops.cyfa.fused_recurrent"], True)


def polynomial(q, k, v, terms, eps=1e-6):
    """Causal attention with weights that are a polynomial of the scores."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    weights = terms(scores) * visible(q.shape[1], None, q.device)
    o = torch.einsum("bhqk,bkhd->bqhd", weights, v)
    return o / (weights.sum(-1).transpose(1, 2)[..., None] + eps)


def _features(m):
    return m.normal(*m.sequence(16)), m.normal(*m.sequence(16)), m.normal(*m.sequence())


def based(q, k, v):
    return polynomial(q, k, v, lambda s: 1 + s + s * s / 2)


@case
def parallel_based(m):
    from fla.ops.based import parallel_based as run

    return m.problem(*_features(m), run=run, like=based)


@case
def fused_chunk_based(m):
    from fla.ops.based import fused_chunk_based as run

    return m.problem(*_features(m), run=run, like=based)


@case
def parallel_rebased(m):
    from fla.ops.rebased import parallel_rebased as run

    return m.problem(
        *_features(m), run=run, like=lambda q, k, v: polynomial(q, k, v, lambda s: s * s, 1e-5)
    )


@case
def deltaformer_attn(m):
    """The package's attention of the second half is flash-attn's: here torch's."""
    layers = SimpleNamespace(pad_input=None, unpad_input=None)  # of another package
    sys.modules.setdefault("fla.layers.utils", layers)
    sys.modules.setdefault("fla.layers", SimpleNamespace(utils=layers))
    from fla.ops.deltaformer import deltaformer_attn as run
    from fla.ops.deltaformer import parallel as module

    module.flash_attn_func = lambda q, k, v, **_: attention(q, k, v)

    def like(q, k, v, beta):
        length = q.shape[1]
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        past = visible(length, None, q.device).tril(-1)
        weights = scores.masked_fill(~past, float("-inf"))[:, :, 1:].softmax(-1)
        weights = torch.cat([torch.zeros_like(weights[:, :, :1]), weights], 2)
        system = (
            torch.eye(length, device=q.device).to(q) + beta.transpose(1, 2)[..., None] * weights
        )
        u = torch.linalg.solve_triangular(system, v.transpose(1, 2), upper=False)
        return attention(q, k, u.transpose(1, 2))

    return m.problem(*m.qkv(), m.uniform(*m.head()), run=run, like=like)
