"""Gates, sums and small operators that flash-linear-attention's operators are made of."""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

from third_party_cases import Recurrence, recurrent, registrar
from third_party_references import packed, recurrence

case = registrar("fla")
family = recurrent("fla")
CHUNK = 64


def chunked(function):
    """Apply a function along the time axis of each chunk."""
    return lambda x: torch.cat([function(part) for part in x.split(CHUNK, 1)], 1)


def total(x):
    return x.cumsum(1)


def reverse(x):
    return x.flip(1).cumsum(1).flip(1)


@case
def cumsum(m):
    from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum

    def run(g):
        one = g[..., 0].contiguous()
        return [
            chunk_local_cumsum(g, CHUNK), chunk_local_cumsum(one, CHUNK, reverse=True),
            chunk_local_cumsum(g, CHUNK, reverse=True, scale=0.5), chunk_global_cumsum(g),
            chunk_global_cumsum(one), chunk_global_cumsum(g, reverse=True), chunk_global_cumsum(one, reverse=True),
        ]  # fmt: skip

    def like(g):
        one = g[..., 0]
        return [
            chunked(total)(g), chunked(reverse)(one), chunked(reverse)(g) * 0.5, total(g), total(one),
            reverse(g), reverse(one),
        ]  # fmt: skip

    return m.problem(m.gate(*m.sequence()), run=run, like=like, forward_only=True)


@case
def cumsum_packed(m):
    from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum

    m.batch = 1

    def run(g):
        one, more = g[..., 0].contiguous(), {"cu_seqlens": m.starts}
        parts = (
            chunk_local_cumsum(g, CHUNK, **more), chunk_global_cumsum(g, **more),
            chunk_global_cumsum(g, reverse=True, **more), chunk_local_cumsum(one, CHUNK, **more)[..., None],
            chunk_global_cumsum(one, **more)[..., None],
        )  # fmt: skip
        return torch.cat(parts, -1)

    def like(g):
        one = g[..., :1]
        parts = chunked(total)(g), total(g), reverse(g), chunked(total)(one), total(one)
        return torch.cat(parts, -1)

    like = packed(like, 1, m.length)
    return m.problem(m.gate(*m.sequence()), run=run, like=like, forward_only=True)


@case
def softmax_logsumexp(m):
    from fla.ops.utils import logsumexp_fwd, softmax_bwd, softmax_fwd

    def run(x, d):
        p = x.float().softmax(-1)
        return logsumexp_fwd(x, scale=0.5), softmax_fwd(x), softmax_bwd(p, d)

    def like(x, d):
        p = x.softmax(-1)
        return (x * 0.5).logsumexp(-1), p, p * (d - (p * d).sum(-1, keepdim=True))

    width = m.sized(250, 4096)
    given = m.normal(m.rows, width), m.normal(m.rows, width)
    return m.problem(*given, run=run, like=like, forward_only=True)


@case
def matmul(m):
    from fla.ops.utils import addmm
    from fla.ops.utils import matmul as run

    def run_(a, b, c):
        one, two = torch.tensor([0.5, 2.0], device=a.device)  # addresses: the kernel loads them
        return run(a, b), run(a, b, "leaky_relu"), addmm(c, a, b, one, two)

    def like(a, b, c):
        return a @ b, functional.leaky_relu(a @ b, 0.01), 0.5 * (a @ b) + 2.0 * c

    rows, depth, columns = m.sized(50, 4096), m.sized(70, 2048), m.sized(90, 4096)
    given = m.normal(2, rows, depth), m.normal(depth, columns), m.normal(columns)
    return m.problem(*given, run=run_, like=like, forward_only=True)


@case
def mean_pooling(m):
    from fla.ops.utils import mean_pooling as run

    like = lambda x: torch.stack([part.mean(1) for part in x.split(32, 1)], 1)  # noqa: E731
    return m.problem(m.normal(*m.sequence()), run=lambda x: run(x, 32), like=like)


@case
def mean_pooling_packed(m):
    from fla.ops.utils import mean_pooling as run

    m.batch = 1
    like = lambda x: torch.stack([part.mean(1) for part in x.split(32, 1)], 1)  # noqa: E731
    run_ = lambda x: run(x, 32, m.starts)  # noqa: E731
    return m.problem(m.normal(*m.sequence()), run=run_, like=packed(like, 1, m.length))


@case
def pack_sequence(m):
    from fla.ops.utils import pack_sequence as pack
    from fla.ops.utils import unpack_sequence as unpack

    lengths = (m.starts[1:] - m.starts[:-1]).tolist()

    def run(x, y):
        return [
            f(v, m.starts, side) for f, v in ((pack, x), (unpack, y)) for side in ("left", "right")
        ]

    def like(x, y):
        longest, ends = max(lengths), m.starts.tolist()
        spans = list(itertools.pairwise(ends))
        left = torch.cat([x[i, longest - n :] for i, n in enumerate(lengths)])
        right = torch.cat([x[i, :n] for i, n in enumerate(lengths)])
        pads = [(longest - (b - a)) for a, b in spans]
        parts = [y[a:b] for a, b in spans]
        before = torch.stack(
            [functional.pad(p, (0, 0, n, 0)) for p, n in zip(parts, pads, strict=True)]
        )
        after = torch.stack(
            [functional.pad(p, (0, 0, 0, n)) for p, n in zip(parts, pads, strict=True)]
        )
        return [left, right, before, after]

    width = m.sized(50, 4096)
    given = m.normal(len(lengths), max(lengths), width), m.normal(m.length, width)
    return m.problem(*given, run=run, like=like)


@case
def solve_tril(m):
    """Inverses of unit lower triangular matrices, a row of blocks of each size."""
    from fla.ops.utils import solve_tril as run

    def inverse(a):
        size, rows = a.shape[-1], a.shape[1]
        parts = []
        for start in range(0, rows, size):
            part = a[:, start : start + size].transpose(1, 2)
            count = part.shape[2]
            system = part[..., :count].tril(-1) + torch.eye(count, device=a.device).to(part)
            solved = torch.linalg.inv(system)
            parts.append(functional.pad(solved, (0, size - count)).transpose(1, 2))
        return torch.cat(parts, 1)

    def strict(a):
        column = torch.arange(a.shape[-1], device=a.device)
        row = torch.arange(a.shape[1], device=a.device) % a.shape[-1]
        return a * (column < row[:, None])[:, None]

    given = [strict(m.normal(*m.head(), size, scale=0.1)) for size in (16, 32, 64)]
    return m.problem(
        *given,
        run=lambda *all_: [run(a) for a in all_],
        like=lambda *all_: [inverse(a) for a in all_],
        forward_only=True,
    )


@case
def sinkhorn(m):
    from fla.ops.utils import sinkhorn as run

    def like(x):
        for _ in range(20):
            x = x - x.logsumexp(-2, keepdim=True)
            x = x - x.logsumexp(-1, keepdim=True)
        return x.exp()

    return m.problem(m.wide(m.rows, 4, 4), run=run, like=like)


def _gated(g, a, bias):
    return -a.exp() * functional.softplus(g + bias)


@case
def gdn_gate(m):
    from fla.ops.gated_delta_rule.gate import fused_gdn_gate as run

    return m.problem(m.normal(*m.head()), m.wide(m.heads), m.wide(m.heads), run=run, like=_gated)


@case
def gdn_gate_chunk_cumsum(m):
    from fla.ops.gated_delta_rule.gate import gdn_gate_chunk_cumsum as run

    given = m.normal(*m.head()), m.wide(m.heads), m.wide(m.heads)
    run_ = lambda g, a, b: run(g, a, CHUNK, dt_bias=b)  # noqa: E731
    like = lambda *args: chunked(total)(_gated(*args))  # noqa: E731
    return m.problem(*given, run=run_, like=like, forward_only=True)


@case
def kda_gate(m):
    from fla.ops.kda.gate import fused_kda_gate as run

    def run_(g, a, b):
        return run(g, a, b), run(g, a, b, lower_bound=-5.0)

    def like(g, a, b):
        g, a = g + b.view(a.shape[0], -1), a[:, None]
        return -a.exp() * functional.softplus(g), -5.0 * (a.exp() * g).sigmoid()

    given = m.normal(*m.sequence()), m.wide(m.heads, scale=0.5), m.wide(m.heads * m.depth)
    return m.problem(*given, run=run_, like=like)


@case
def kda_gate_chunk_cumsum(m):
    from fla.ops.kda.gate import kda_gate_chunk_cumsum as run

    m.batch = 1

    def run_(g, a, b):
        return run(g, a, CHUNK, dt_bias=b, cu_seqlens=m.starts)

    def like(g, a, b):
        return chunked(total)(_gated(g, a[:, None], b.view(a.shape[0], -1)))

    given = m.normal(*m.sequence()), m.wide(m.heads, scale=0.5), m.wide(m.heads * m.depth)
    return m.problem(*given, run=run_, like=packed(like, 1, m.length), forward_only=True)


@case
def beta_sigmoid(m):
    from fla.ops.common.gate import fused_beta_sigmoid as run

    return m.problem(m.normal(*m.head()), run=lambda x: run(x, 2.0), like=lambda x: 2 * x.sigmoid())


@family("plain states packed")
def fused_chunk(m):
    """One kernel for all chunks."""
    from fla.ops.common.fused_chunk import fused_chunk as run

    like = lambda q, k, v, g, state: recurrence(q, k, v, state, g=g)  # noqa: E731
    return Recurrence((*m.qkv(), m.gate(*m.head())), run, like)


@family("plain states packed")
def fused_recurrent(m):
    """All decays at once."""
    from fla.ops.common.fused_recurrent import fused_recurrent as run

    def run_(q, k, v, g, gk, gv, **more):
        return run(q, k, v, g=g, gk=gk, gv=gv, **more)

    def like(q, k, v, g, gk, gv, state):
        return recurrence(q, k, v, state, g=g, gk=gk, gv=gv)

    gates = m.gate(*m.head()), m.gate(*m.sequence()), m.gate(*m.sequence())
    return Recurrence((*m.qkv(), *gates), run_, like)


@case
def attnres(m):
    from fla.ops.attnres import fused_attnres as run

    def run_(q, w, out, *parts):
        return run(q, parts, w, out, scale=0.5, return_weights=True)

    def like(q, w, out, *parts):
        v = torch.stack(parts)
        norm = lambda x, w: functional.rms_norm(x, x.shape[-1:], w, 1e-6)  # noqa: E731
        p = (norm(v, w) @ q * 0.5).softmax(0)
        return norm((p[..., None] * v).sum(0), out), p

    weights = m.normal(m.hidden), m.normal(m.hidden), m.normal(m.hidden)
    parts = [m.normal(2, m.rows, m.hidden) for _ in range(5)]
    return m.problem(*weights, *parts, run=run_, like=like)


# ---- rwkv7 ---------------------------------------------------------------------------------------------


@case
def rwkv7_channel_mixing(m):
    from fla.ops.rwkv7.channel_mixing import channel_mixing_rwkv7 as run

    def run_(x, before, share, k, v):
        return run(x, before, share, k, v, inplace=False)[0]

    def like(x, before, share, k, v):
        past = torch.cat([before[:, None], x[:, :-1]], 1)
        return functional.relu((x + (past - x) * share) @ k) ** 2 @ v

    given = (
        m.normal(m.batch, m.length, m.hidden),
        m.normal(m.batch, m.hidden),
        m.normal(1, 1, m.hidden),
    )
    inner = m.sized(96, 8192)
    weights = m.normal(m.hidden, inner, scale=0.1), m.normal(inner, m.hidden, scale=0.1)
    return m.problem(*given, *weights, run=run_, like=like)


@case
def rwkv7_addcmul(m):
    from fla.ops.rwkv7.fused_addcmul import fused_addcmul_rwkv7 as run

    given = m.normal(m.batch, m.length, m.hidden), m.normal(m.batch, m.length, m.hidden)
    weights = [m.normal(1, 1, m.hidden) for _ in range(6)]
    like = lambda x, d, *shares: [x + d * share for share in shares]  # noqa: E731
    return m.problem(*given, *weights, run=run, like=like)


@case
def rwkv7_k_update(m):
    from fla.ops.rwkv7.fused_k_update import fused_k_rwkv7 as run

    given = m.normal(m.batch, m.length, m.hidden), m.uniform(m.batch, m.length, m.hidden)
    like = lambda k, a, ka: k + k * (a - 1) * ka  # noqa: E731
    return m.problem(*given, m.normal(1, 1, m.hidden), run=run, like=like)


@case
def rwkv7_gate_output_correction(m):
    from fla.ops.rwkv7.gate_output_correction import gate_output_correction as run

    def like(o, r, k, share, v, g):
        return (o + ((r * k * share).sum(-1, keepdim=True) * v).flatten(-2)) * g

    wide = m.batch, m.length, m.heads * m.depth
    r, k, v = m.qkv()
    given = m.normal(*wide), r, k, m.normal(m.heads, m.depth), v, m.normal(*wide)
    return m.problem(*given, run=run, like=like)
