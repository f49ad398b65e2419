"""Float64 references of third-party operators: recurrences step by step, attention as whole matrices."""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

SEGMENTS = (0, 15, 16, 81)
"""Starts of packed sequences: a short one, a single token, and one a token longer than a chunk of 64."""


def segments(length: int) -> list[int]:
    """Boundaries of the sequences packed into `length` tokens."""
    return [*(s for s in SEGMENTS if s < length), length]


def packed(function, count, length, states=0):
    """Apply `function` to each packed sequence by itself.

    The first `count` arguments are split along the time axis; the last `states` ones hold a state for each sequence
    and are passed joined. The first output is joined along the time axis, the ones behind it are states.
    """

    def call(*args):
        time, shared = args[:count], args[count : len(args) - states]
        ends = segments(length)
        parts = []
        for i, (a, b) in enumerate(itertools.pairwise(ends)):
            own = [x[:, a * (x.shape[1] // length) : b * (x.shape[1] // length)] for x in time]
            if states:
                shared_state = [x[i : i + 1] for x in args[len(args) - states :]]
                found = function(*own, *shared, joined(shared_state))
            else:
                found = function(*own, *shared)
            parts.append(flat(found))
        return tuple(torch.cat(p, int(j == 0)) for j, p in enumerate(zip(*parts, strict=True)))

    return call


def joined(states):
    """One state, or a tuple of several."""
    return states[0] if len(states) == 1 else tuple(states)


def flat(value):
    """The tensors in nested tuples and lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flat(item)]
    return []


def grouped(x, heads):
    """Repeat heads so that there are `heads`."""
    return x if x.shape[2] == heads else x.repeat_interleave(heads // x.shape[2], 2)


def unit(x, eps=1e-6):
    return x * (x.pow(2).sum(-1, keepdim=True) + eps).rsqrt()


def recurrence(
    q, k, v, state=None, *, scale=None, g=None, gk=None, gv=None,
    read=None, read_before=False, a=None, b=None, bonus=None, reverse=False,
):  # fmt: skip
    """Outputs and final state of S = decay(S) + b (a S)ᵀ + k (v - read S)ᵀ, o = scale q S.

    Decays are logarithms by head, key and value. `read` sees the decayed state, or with `read_before`, like `a`, the
    one before the decay. With `bonus` the output reads the state before the decay plus bonus·k vᵀ.
    """
    heads = v.shape[2]
    q, k = grouped(q, heads), grouped(k, heads)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = v.new_zeros(v.shape[0], heads, k.shape[-1], v.shape[-1]) if state is None else state
    outputs = []
    for i in reversed(range(q.shape[1])) if reverse else range(q.shape[1]):
        before = s
        if g is not None:
            s = s * g[:, i, :, None, None].exp()
        if gk is not None:
            s = s * gk[:, i, :, :, None].exp()
        if gv is not None:
            s = s * gv[:, i, :, None].exp()
        value = v[:, i]
        if read is not None:
            value = value - (read[:, i, :, None] @ (before if read_before else s))[:, :, 0]
        outer = k[:, i, :, :, None] * value[:, :, None]
        if bonus is not None:
            outputs.append((q[:, i, :, None] @ (before + bonus[:, :, None] * outer))[:, :, 0])
        s = s + outer
        if a is not None:
            s = s + b[:, i, :, :, None] * (a[:, i, :, None] @ before)
        if bonus is None:
            outputs.append((q[:, i, :, None] @ s)[:, :, 0])
    if reverse:
        outputs.reverse()
    return torch.stack(outputs, 1) * scale, s


def delta(q, k, v, beta, state=None, **options):
    """The delta rule: the share `beta` of what a key reads is replaced by the value."""
    k = grouped(k, v.shape[2])
    return recurrence(q, k * beta[..., None], v, state, read=k, **options)


def attention(
    q, k, v, *, scale=None, g=None, window=None, sink=None, bias=None, causal=True, score=None
):
    """Causal softmax attention with cumulative decays `g`, a window, and a sink in the denominator."""
    length, heads = q.shape[1], q.shape[2]
    k, v = grouped(k, heads), grouped(v, heads)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) if score is None else score
    scores = scores * scale
    if bias is not None:
        scores = scores + bias
    if g is not None:
        total = g.cumsum(1).transpose(1, 2)
        scores = scores + total[..., :, None] - total[..., None, :]
    if causal:
        scores = scores.masked_fill(~visible(length, window, q.device), float("-inf"))
    if sink is not None:
        extra = sink[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, extra], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


def visible(length, window, device):
    """The causal mask, of the last `window` keys if there is one."""
    row = torch.arange(length, device=device)
    apart = row[:, None] - row
    return (apart >= 0) & (apart < (window or length))


def rms(x, w, eps=1e-6, offset=0.0):
    y = x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return y if w is None else y * (w + offset)


def softmax_entropy(x, target, *, smoothing=0.0, z=0.0, ignore=-100):
    """Cross entropy of each row, with label smoothing and the square of the logarithm of the sum."""
    loss = functional.cross_entropy(
        x, target, reduction="none", label_smoothing=smoothing, ignore_index=ignore
    )
    extra = z * x.logsumexp(-1).pow(2)
    return loss + extra * (target != ignore)


def sparsemax(x):
    """The projection of rows onto the simplex."""
    ordered, _ = x.sort(-1, descending=True)
    sums = ordered.cumsum(-1) - 1
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    held = (ordered * count > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, held - 1) / held).clamp(min=0)
