"""Attention of flash-linear-attention: whole score matrices are the references."""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

from third_party_cases import registrar
from third_party_references import attention, grouped, packed, visible

case = registrar("fla")


def grouped_qkv(m, depth=None):
    """Twice as many queries' heads as keys'."""
    q = m.normal(*m.sequence(depth))
    return q, *(m.normal(*m.sequence(depth, m.heads // 2)) for _ in range(2))


def first(function, **options):
    def call(*args):
        found = function(*args, **options)
        return found[0] if isinstance(found, tuple) else found

    return call


@case
def parallel_attn(m):
    from fla.ops.attn import parallel_attn as run

    return m.problem(*m.qkv(), run=first(run), like=attention)


@case
def parallel_attn_d128(m):
    from fla.ops.attn import parallel_attn as run

    return m.problem(*m.qkv(128), run=first(run), like=attention)


@case
def parallel_attn_window_sink(m):
    from fla.ops.attn import parallel_attn as run

    def run_(q, k, v, g, sink):
        return first(run, g=g, sink_bias=sink, window_size=37)(q, k, v)

    def like(q, k, v, g, sink):
        return attention(q, k, v, g=g, sink=sink, window=37)

    given = (*grouped_qkv(m), m.gate(*m.head(), dtype=torch.float32), m.wide(m.heads))
    return m.problem(*given, run=run_, like=like)


@case
def parallel_attn_packed(m):
    from fla.ops.attn import parallel_attn as run

    m.batch = 1
    run_ = lambda *a: first(run, cu_seqlens=m.starts)(*a)  # noqa: E731
    return m.problem(*grouped_qkv(m), run=run_, like=packed(attention, 3, m.length))


@case
def parallel_forgetting_attn(m):
    from fla.ops.forgetting_attn import parallel_forgetting_attn as run

    like = lambda q, k, v, g: attention(q, k, v, g=g)  # noqa: E731
    return m.problem(*m.qkv(), m.gate(*m.head()), run=first(run), like=like)


@case
def parallel_forgetting_attn_packed(m):
    from fla.ops.forgetting_attn import parallel_forgetting_attn as run

    m.batch = 1
    like = packed(lambda q, k, v, g: attention(q, k, v, g=g, window=40), 4, m.length)
    run_ = first(run, cu_seqlens=m.starts, window_size=40)
    return m.problem(*m.qkv(), m.gate(*m.head()), run=run_, like=like)


@case
def attn_decoding_one_step(m):
    from fla.ops.attn.decoding import attn_decoding_one_step as run

    m.batch = 1

    def run_(q, k, v, g, sink):
        return run(q, k, v, g, cu_seqlens=m.starts, sink_bias=sink)

    def like(q, k, v, g, sink):
        def last(k, v, g, one):
            padded = functional.pad(one, (0, 0, 0, 0, k.shape[1] - 1, 0))
            return attention(padded, k, v, g=g, sink=sink)[:, -1:]

        ends = m.starts.tolist()
        parts = itertools.pairwise(ends)
        return torch.cat(
            [last(k[:, a:b], v[:, a:b], g[:, a:b], q[:, i : i + 1]) for i, (a, b) in enumerate(parts)], 1
        )  # fmt: skip

    _, k, v = grouped_qkv(m)
    q = m.normal(1, m.sequences, m.heads, m.depth)
    given = q, k, v, m.gate(*m.head(), dtype=torch.float32), m.wide(m.heads)
    return m.problem(*given, run=run_, like=like, forward_only=True)


def stickbreaking(q, k, v, current=False):
    k, v = grouped(k, q.shape[2]), grouped(v, q.shape[2])
    z = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    seen = visible(q.shape[1], None, q.device)
    seen = seen if current else seen.tril(-1)
    left = functional.logsigmoid(-z).masked_fill(~seen, 0.0)
    later = left.flip(-1).cumsum(-1).flip(-1) - left
    weights = (functional.logsigmoid(z) + later).masked_fill(~seen, float("-inf")).exp()
    return torch.einsum("bhqk,bkhd->bqhd", weights, v), left.sum(-1).exp().transpose(1, 2)


@case
def parallel_stickbreaking_attn(m):
    from fla.ops.stickbreaking_attn import parallel_stickbreaking_attn as run

    return m.problem(*grouped_qkv(m), run=run, like=stickbreaking)


@case
def parallel_stickbreaking_attn_packed(m):
    from fla.ops.stickbreaking_attn import parallel_stickbreaking_attn as run

    m.batch = 1

    def whole(function):
        def call(*args):
            o, rest = function(*args)
            return torch.cat([o, rest[..., None]], -1)

        return call

    run_ = whole(lambda *a: run(*a, attend_current=True, cu_seqlens=m.starts))
    like = whole(lambda *a: stickbreaking(*a, current=True))
    return m.problem(*m.qkv(), run=run_, like=packed(like, 3, m.length))


def path(q, k, v, w, beta, g=None):
    """Attention whose score of (i, j) is q_i H_i … H_{j+1} k_j, H = I − beta w wᵀ; the scale is the gate's, too."""
    heads = q.shape[2]
    k, w, v = (grouped(x, heads) for x in (k, w, v))
    beta = grouped(beta[..., None], heads)[..., 0]
    rows = []
    keys = q.new_zeros(q.shape[0], 0, heads, q.shape[-1])
    for i in range(q.shape[1]):
        turn = w[:, i : i + 1]
        along = (keys * turn).sum(-1, keepdim=True)
        keys = keys - beta[:, i : i + 1, :, None] * along * turn
        keys = torch.cat([keys, k[:, i : i + 1]], 1)
        row = torch.einsum("bhd,bkhd->bhk", q[:, i], keys)
        rows.append(functional.pad(row, (0, q.shape[1] - i - 1)))
    gate = None if g is None else g * q.shape[-1] ** -0.5
    return attention(q, k, v, g=gate, score=torch.stack(rows, 2))


def _path(m, gate=False):
    q, k, v = grouped_qkv(m)
    shape = m.sequence(heads=m.heads // 2)
    given = q, k, v, m.unit(*shape, dtype=torch.float32), m.uniform(*shape[:3], dtype=torch.float32)
    return (*given, m.gate(*m.head(), dtype=torch.float32)) if gate else given


@case
def parallel_path_attn(m):
    from fla.ops.path_attn import parallel_path_attn as run

    return m.problem(*_path(m), run=first(run), like=path)


@case
def parallel_path_attn_gate(m):
    from fla.ops.path_attn import parallel_path_attn as run

    return m.problem(*_path(m, True), run=first(run), like=path)


@case
def parallel_path_attn_packed(m):
    from fla.ops.path_attn import parallel_path_attn as run

    m.batch = 1
    run_ = first(run, cu_seqlens=m.starts)
    return m.problem(*_path(m, True), run=run_, like=packed(path, 6, m.length))


def parallax(q, r, k, v, window=None):
    heads = q.shape[2]
    k, v = grouped(k, heads), grouped(v, heads)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    factor = torch.einsum("bqhd,bkhd->bhqk", r, k)
    seen = visible(q.shape[1], window, q.device)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    mean = (weights * factor).sum(-1, keepdim=True)
    return torch.einsum("bhqk,bkhd->bqhd", weights * (1 + mean - factor), v)


def _parallax(m):
    q, k, v = grouped_qkv(m)
    return q, m.normal(*m.sequence(), scale=0.3), k, v


@case
def parallel_parallax(m):
    from fla.ops.parallax import parallel_parallax as run

    return m.problem(*_parallax(m), run=run, like=parallax)


@case
def parallel_parallax_packed(m):
    from fla.ops.parallax import parallel_parallax as run

    m.batch = 1
    like = packed(lambda *a: parallax(*a, 40), 4, m.length)
    run_ = lambda *a: run(*a, window_size=40, cu_seqlens=m.starts)  # noqa: E731
    return m.problem(*_parallax(m), run=run_, like=like)


@case
def parallax_decode(m):
    from fla.ops.parallax.decode import parallax_decode as several
    from fla.ops.parallax.decode import parallax_decode_one_step as one

    def run(q, r, k, v):
        return several(q[:, -7:], r[:, -7:], k, v), one(q[:, -1:], r[:, -1:], k, v)

    def like(q, r, k, v):
        o = parallax(q, r, k, v)
        return o[:, -7:], o[:, -1:]

    return m.problem(*_parallax(m), run=run, like=like, forward_only=True)


def wall(q, k, v, g, g_scalar=None, sink=None, window=None):
    """A decay for each channel; rows one after another, as the matrix of decays is large."""
    heads = q.shape[2]
    total, k_all, rows = g.cumsum(1), grouped(k, heads), []
    for i in range(q.shape[1]):
        past = (total[:, i : i + 1] - total[:, : i + 1]).exp() * k_all[:, : i + 1]
        row = torch.einsum("bhd,bkhd->bhk", q[:, i], past)
        rows.append(functional.pad(row, (0, q.shape[1] - i - 1)))
    return attention(q, k, v, g=g_scalar, sink=sink, window=window, score=torch.stack(rows, 2))


@case
def parallel_wall_attn(m):
    from fla.ops.wall_attn import parallel_wall_attn as run

    given = (*m.qkv(), m.gate(*m.sequence(), dtype=torch.float32))
    return m.problem(*given, run=run, like=wall)


@case
def parallel_wall_attn_window_sink(m):
    from fla.ops.wall_attn import parallel_wall_attn as run

    def run_(q, k, v, g, scalar, sink):
        return run(q, k, v, g, g_scalar=scalar, sink_bias=sink, window_size=37)

    gates = m.gate(*m.sequence(), dtype=torch.float32), m.gate(*m.head(), dtype=torch.float32)
    given = (*grouped_qkv(m), *gates, m.wide(m.heads))
    return m.problem(*given, run=run_, like=lambda *a: wall(*a, window=37))


@case
def parallel_wall_attn_packed(m):
    from fla.ops.wall_attn import parallel_wall_attn as run

    m.batch = 1
    given = (*m.qkv(), m.gate(*m.sequence(), dtype=torch.float32))
    run_ = lambda *a: run(*a, cu_seqlens=m.starts)  # noqa: E731
    return m.problem(*given, run=run_, like=packed(wall, 4, m.length))


@case
def parallel_wall_attn_decode(m):
    from fla.ops.wall_attn import build_wall_kv_cache
    from fla.ops.wall_attn import parallel_wall_attn_decode as run

    def run_(q, k, v, g):
        total = g.cumsum(1) / torch.log(torch.tensor(2.0))
        keys, starts = build_wall_kv_cache(k, total, 32, out_dtype=k.dtype)
        last = slice(-5, None)
        given = q[:, last].contiguous(), v, total[:, last].contiguous(), keys, starts
        return run(*given, None, q.shape[-1] ** -0.5, 32)[0]

    given = (*m.qkv(), m.gate(*m.sequence(), dtype=torch.float32))
    return m.problem(*given, run=run_, like=lambda *a: wall(*a)[:, -5:], forward_only=True)


# ---- native sparse attention ---------------------------------------------------------------------------

SPARSE = 32
"""Tokens of a block."""


def _sparse(m):
    groups = max(1, m.heads // 4)
    shape = m.batch, m.length
    q = m.normal(*shape, 16 * groups, m.depth)
    return q, m.normal(*shape, groups, m.depth), m.normal(*shape, groups, m.depth)


def pooled(x, size=SPARSE):
    """Means of blocks, the last one's of what it has."""
    return torch.stack([part.mean(1) for part in x.split(size, 1)], 1)


def block_scores(q, k):
    """Scores of whole blocks in the past; the others are −∞."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q, grouped(k, q.shape[2])) * q.shape[-1] ** -0.5
    token = torch.arange(q.shape[1], device=q.device)[:, None]
    block = torch.arange(k.shape[1], device=q.device)
    return scores.masked_fill((block + 1) * SPARSE - 1 > token, float("-inf"))


def compression(q, k, v):
    k, v = pooled(k), pooled(v)
    weights = block_scores(q, k).softmax(-1)
    weights = torch.where(weights.isnan(), torch.zeros_like(weights), weights)
    return torch.einsum("bhqk,bkhd->bqhd", weights, grouped(v, q.shape[2]))


@case
def parallel_nsa_compression(m):
    from fla.ops.nsa.compression import parallel_nsa_compression as run
    from fla.ops.utils.pooling import mean_pooling

    def run_(q, k, v):
        return run(q, mean_pooling(k, SPARSE), mean_pooling(v, SPARSE), k.shape[1], SPARSE)[0]

    return m.problem(*_sparse(m), run=run_, like=compression)


@case
def parallel_nsa_compression_packed(m):
    from fla.ops.nsa.compression import parallel_nsa_compression as run
    from fla.ops.utils.pooling import mean_pooling

    m.batch = 1

    def run_(q, k, v):
        k, v = (mean_pooling(x, SPARSE, m.starts) for x in (k, v))
        return run(q, k, v, q.shape[1], SPARSE, cu_seqlens=m.starts)[0]

    return m.problem(*_sparse(m), run=run_, like=packed(compression, 3, m.length))


@case
def parallel_nsa_topk(m):
    """What the chosen blocks weigh, so that nearly equal blocks may be chosen either way."""
    from fla.ops.nsa.compression import parallel_nsa_compression
    from fla.ops.nsa.parallel import parallel_nsa_topk as run

    count = 4

    def weights(q, k):
        q, k = q.double(), k.double()
        found = block_scores(q, k).softmax(-1)
        found = torch.where(found.isnan(), torch.zeros_like(found), found)
        found = found.unflatten(1, (k.shape[2], -1)).mean(2).transpose(1, 2)
        token = torch.arange(q.shape[1], device=q.device)[:, None] // SPARSE
        block = torch.arange(k.shape[1], device=q.device)
        forced = (block == token) | (block == 0) | (block == token - 1)
        return torch.where(forced[:, None], torch.ones_like(found), found)

    def run_(q, k):
        keys = pooled(k)
        lse = parallel_nsa_compression(q, keys, keys, k.shape[1], SPARSE)[1]
        chosen = run(q, keys, k.shape[1], lse, count, SPARSE, q.shape[-1] ** -0.5).long()
        held = torch.zeros(*chosen.shape[:3], keys.shape[1] + 1, device=q.device, dtype=torch.bool)
        held.scatter_(3, torch.where(chosen < 0, keys.shape[1], chosen), True)
        return (weights(q, keys) * held[..., :-1]).sum(-1)

    def like(q, k):
        scores = weights(q, pooled(k))
        return scores.topk(min(count, scores.shape[-1]))[0].sum(-1)

    q, k, _ = _sparse(m)
    return m.problem(q, k, run=run_, like=like, forward_only=True)


@case
def parallel_nsa(m):
    """Selected blocks are given, as are gates."""
    from fla.ops.nsa import parallel_nsa as run

    q, k, v = _sparse(m)
    blocks = (m.length + SPARSE - 1) // SPARSE
    chosen = torch.full((m.batch, m.length, k.shape[2], 4), -1)
    for i in range(m.length):
        own = i // SPARSE
        others = torch.randperm(own + 1, generator=m.chance)[:4]
        others = torch.cat([others[others != own][:3], torch.tensor([own])])
        chosen[:, i, :, : len(others)] = others
    chosen = chosen.to(m.device)

    def run_(q, k, v, slc, cmp):
        return run(
            q, k, v, g_slc=slc, g_cmp=cmp, block_indices=chosen.to(torch.int32), block_counts=4, block_size=SPARSE,
        )  # fmt: skip

    def like(q, k, v, slc, cmp):
        held = torch.zeros(*chosen.shape[:3], blocks + 1, device=q.device, dtype=torch.bool)
        held.scatter_(3, torch.where(chosen < 0, blocks, chosen), True)
        held = held[..., :-1].repeat_interleave(SPARSE, 3)[..., : q.shape[1]]
        bias = torch.zeros(held.shape, device=q.device).to(q).masked_fill(~held, float("-inf"))
        bias = grouped(bias, q.shape[2]).transpose(1, 2)
        return (
            attention(q, k, v, bias=bias) * slc[..., None] + compression(q, k, v) * cmp[..., None]
        )

    gates = [m.uniform(m.batch, m.length, q.shape[2]) for _ in range(2)]
    return m.problem(q, k, v, *gates, run=run_, like=like)
