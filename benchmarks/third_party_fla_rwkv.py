"""RWKV and HGRN of flash-linear-attention."""

from __future__ import annotations

import torch

from third_party_cases import Recurrence, recurrent, registrar
from third_party_references import recurrence

case = registrar("fla")
family = recurrent("fla")


def _rwkv7(m):
    r, k, v = m.qkv()
    a = m.unit(*m.sequence())
    return r, m.uniform(*m.sequence(), low=-1.2, high=0.0), k, v, a, a * -0.5


def rwkv7(r, w, k, v, a, b, state):
    return recurrence(r, k, v, state, scale=1.0, gk=w, a=a, b=b)


@family()
def chunk_rwkv7(m):
    from fla.ops.rwkv7 import chunk_rwkv7 as run

    return Recurrence(_rwkv7(m), run, rwkv7)


@family()
def fused_recurrent_rwkv7(m):
    from fla.ops.rwkv7 import fused_recurrent_rwkv7 as run

    options = {"like": rwkv7, "forward_only": True}
    return Recurrence(_rwkv7(m), lambda *a, **more: run(*a, scale=1.0, **more), **options)


@family()
def fused_mul_recurrent_rwkv7(m):
    from fla.ops.rwkv7 import fused_mul_recurrent_rwkv7 as run

    def like(r, w, k, v, kk, a, state):
        return rwkv7(r, w, k, v, -kk, kk * a, state)

    r, w, k, v, kk, _ = _rwkv7(m)
    return Recurrence((r, w, k, v, kk, m.uniform(*m.sequence())), run, like, forward_only=True)


def rwkv6(r, k, v, w, u, state):
    return recurrence(r, k, v, state, gk=w, bonus=u)


@family()
def chunk_rwkv6(m):
    from fla.ops.rwkv6 import chunk_rwkv6 as run

    given = (*m.qkv(), m.gate(*m.sequence()), m.normal(m.heads, m.depth))
    return Recurrence(given, run, rwkv6, whole=1)


@family()
def fused_recurrent_rwkv6(m):
    from fla.ops.rwkv6 import fused_recurrent_rwkv6 as run

    given = (*m.qkv(), m.gate(*m.sequence()), m.normal(m.heads, m.depth))
    return Recurrence(given, run, rwkv6, whole=1, final_gradient=False)


@case
def fused_recurrent_rwkv4(m):
    from fla.ops.rwkv4 import fused_recurrent_rwkv4 as run

    def like(w, u, k, v, state):
        up, down, high = state[:, 0, 0], state[:, 1, 0], state[:, 2, 0]
        w, outputs = -w.exp(), []
        for i in range(k.shape[1]):
            now = torch.maximum(high, u + k[:, i])
            a, b = (high - now).exp(), (u + k[:, i] - now).exp()
            outputs.append((a * up + b * v[:, i]) / (a * down + b))
            later = torch.maximum(high + w, k[:, i])
            a, b = (high + w - later).exp(), (k[:, i] - later).exp()
            up, down, high = a * up + b * v[:, i], a * down + b, later
        return torch.stack(outputs, 1)

    shape = m.batch, m.length, m.hidden
    state = torch.zeros(m.batch, 3, 1, m.hidden, device=m.device)
    state[:, 2] = -1e38
    given = m.wide(m.hidden, scale=0.1), m.wide(m.hidden), m.wide(*shape), m.wide(*shape), state
    return m.problem(*given, run=lambda *a: run(*a)[0], like=like, fixed=(4,))


def hgrn(x, g, state):
    h = torch.zeros_like(x[:, 0]) if state is None else state
    outputs = []
    for i in range(x.shape[1]):
        h = g[:, i].exp() * h + x[:, i]
        outputs.append(h)
    return torch.stack(outputs, 1), h


@family("plain states")
def chunk_hgrn(m):
    from fla.ops.hgrn import chunk_hgrn as run

    shape = m.batch, m.length, m.hidden
    return Recurrence(
        (m.normal(*shape), m.gate(*shape)),
        run,
        hgrn,
        ((m.hidden,),),
        state_gradient=False,
        final_gradient=False,
    )


@family()
def fused_recurrent_hgrn(m):
    from fla.ops.hgrn import fused_recurrent_hgrn as run

    shape = m.batch, m.length, m.hidden
    return Recurrence((m.normal(*shape), m.gate(*shape)), run, hgrn, ((m.hidden,),))
