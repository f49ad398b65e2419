"""Modules and utilities of flash-linear-attention."""

from __future__ import annotations

import torch
from torch.nn import functional

from third_party_cases import Recurrence, recurrent, registrar
from third_party_references import packed, rms, softmax_entropy, unit

case = registrar("fla")
family = recurrent("fla")


def _rows(m, *widths):
    return tuple(m.normal(m.rows, width or m.hidden) for width in widths)


def _normed(x, w, b=None, eps=1e-5):
    return functional.layer_norm(x, x.shape[-1:], w, b, eps)


@case
def l2norm(m):
    from fla.modules.l2norm import l2norm as run

    return m.problem(m.normal(*m.sequence()), run=run, like=unit)


@case
def layer_norm(m):
    from fla.modules.layernorm import layer_norm as run

    given = m.normal(m.rows, m.hidden), m.normal(m.hidden), m.normal(m.hidden)
    return m.problem(*given, run=run, like=_normed)


@case
def layer_norm_residual(m):
    from fla.modules.layernorm import layer_norm as run

    width = m.sized(250, 4096)
    given = *_rows(m, width, width), m.normal(width), m.normal(width)
    return m.problem(
        *given,
        run=lambda x, r, w, b: run(x, w, b, residual=r, prenorm=True),
        like=lambda x, r, w, b: (_normed(x + r, w, b), x + r),
    )


@case
def rms_norm_residual(m):
    from fla.modules.layernorm import rms_norm as run

    return m.problem(
        *_rows(m, 0, 0), m.normal(m.hidden),
        run=lambda x, r, w: run(x, w, None, residual=r, prenorm=True),
        like=lambda x, r, w: (rms(x + r, w, 1e-5), x + r),
    )  # fmt: skip


@case
def group_norm(m):
    from fla.modules.layernorm import group_norm as run

    return m.problem(
        *_rows(m, 0), m.normal(m.hidden), m.normal(m.hidden),
        run=lambda x, w, b: run(x, w, b, num_groups=4),
        like=lambda x, w, b: functional.group_norm(x, 4, w, b, 1e-5),
    )  # fmt: skip


@case
def layer_norm_linear(m):
    from fla.modules.layernorm import layer_norm_linear as run

    width, out = m.sized(256, 2048), m.sized(96, 2048)
    given = (
        m.normal(m.rows, width),
        m.normal(width),
        m.normal(width),
        m.normal(out, width),
        m.normal(out),
    )
    return m.problem(
        *given, run=run, like=lambda x, w, b, u, c: functional.linear(_normed(x, w, b), u, c)
    )


@case
def rms_norm_linear(m):
    from fla.modules.layernorm import rms_norm_linear as run

    width = m.sized(256, 2048)
    return m.problem(
        m.normal(m.rows, width), m.normal(width), m.normal(m.sized(96, 2048), width),
        run=lambda x, w, u: run(x, w, None, u, None),
        like=lambda x, w, u: functional.linear(rms(x, w, 1e-5), u),
    )  # fmt: skip


@case
def layer_norm_gated(m):
    from fla.modules.fused_norm_gate import layer_norm_gated as run

    return m.problem(
        *_rows(m, 128, 128), m.normal(128), m.normal(128),
        run=run,
        like=lambda x, g, w, b: _normed(x, w, b, 1e-6) * functional.silu(g),
    )  # fmt: skip


@case
def rms_norm_gated(m):
    from fla.modules.fused_norm_gate import rms_norm_gated as run

    return m.problem(
        *_rows(m, 128, 128, 128), m.normal(128),
        run=lambda x, g, r, w: run(x, g, w, None, "sigmoid", residual=r, prenorm=True),
        like=lambda x, g, r, w: (rms(x + r, w) * g.sigmoid(), x + r),
    )  # fmt: skip


@case
def layer_norm_swish_gate_linear(m):
    from fla.modules.fused_norm_gate import layer_norm_swish_gate_linear as run

    def like(x, g, w, b, matrix, bias):
        return functional.linear(_normed(x, w, b, 1e-6) * functional.silu(g), matrix, bias)

    weights = m.normal(128), m.normal(128), m.normal(96, 128), m.normal(96)
    return m.problem(*_rows(m, 128, 128), *weights, run=run, like=like)


@case
def rms_norm_swish_gate_linear(m):
    from fla.modules.fused_norm_gate import rms_norm_swish_gate_linear as run

    return m.problem(
        *_rows(m, 128, 128), m.normal(128), m.normal(m.sized(96, 2048), 128),
        run=lambda x, g, w, u: run(x, g, w, None, u, None),
        like=lambda x, g, w, u: functional.linear(rms(x, w) * functional.silu(g), u),
    )  # fmt: skip


@case
def layer_norm_grouped_gate(m):
    from fla.modules.layernorm_gated import layernorm_fn, rmsnorm_fn

    def run(x, z, w, b):
        return layernorm_fn(x, w, b, z), rmsnorm_fn(x, w, b, z, 1e-6, 64, False)

    def like(x, z, w, b):
        gated = (x * functional.silu(z)).unflatten(-1, (-1, 64))
        return _normed(x, w, b, 1e-6) * functional.silu(z), rms(gated, None).flatten(-2) * w + b

    weights = m.normal(m.hidden), m.normal(m.hidden)
    return m.problem(*_rows(m, 0, 0), *weights, run=run, like=like)


def _rounded(x, scale, low, high):
    """Quantized, with the gradient of what was not."""
    return x + ((x * scale).round().clamp(low, high) / scale - x).detach()


@case
def bitlinear(m):
    from fla.modules.fused_bitlinear import layer_norm_linear_quant, rms_norm_linear_quant

    def like(x, n, b, w):
        matrix = _rounded(w, 1 / w.abs().mean(), -1, 1)
        return [
            _rounded(y, 127 / y.abs().amax(-1, keepdim=True), -128, 127) @ matrix.T
            for y in (rms(x, n, 1e-5), _normed(x, n, b, 1e-6))
        ]

    def run(x, n, b, w):
        return rms_norm_linear_quant(x, n, None, w, None), layer_norm_linear_quant(x, n, b, w, None)

    weights = m.normal(m.hidden), m.normal(m.hidden), m.normal(m.hidden, m.hidden, scale=0.02)
    return m.problem(*_rows(m, 0), *weights, run=run, like=like)


@case
def cross_entropy(m):
    from fla.modules.fused_cross_entropy import cross_entropy_loss as run

    target = m.integers(m.vocabulary, m.rows)
    like = lambda x, t: functional.cross_entropy(x, t, reduction="none")  # noqa: E731
    return m.problem(*_rows(m, m.vocabulary), target, run=lambda *a: run(*a)[0], like=like)


@case
def cross_entropy_smooth_softcap(m):
    from fla.modules.fused_cross_entropy import cross_entropy_loss as run

    def run_(x, t):
        return run(
            x, t, label_smoothing=0.1, logit_scale=0.7, lse_square_scale=1e-3, logit_softcapping=20.0
        )[0]  # fmt: skip

    def like(x, t):
        return softmax_entropy(20 * torch.tanh(0.7 * x / 20), t, smoothing=0.1, z=1e-3)

    target = m.integers(m.vocabulary - 7, m.rows)
    target[::5] = -100
    return m.problem(m.normal(m.rows, m.vocabulary - 7, scale=9.0), target, run=run_, like=like)


@case
def fused_linear_cross_entropy(m):
    from fla.modules.fused_linear_cross_entropy import fused_linear_cross_entropy_loss as run

    target = m.integers(m.vocabulary, m.rows)
    target[::5] = -100

    def run_(x, w, b, t):
        return run(x, t, w, b, label_smoothing=0.1, logit_scale=0.5)

    def like(x, w, b, t):
        return (
            softmax_entropy(0.5 * functional.linear(x, w, b), t, smoothing=0.1).sum()
            / (t >= 0).sum()
        )

    given = m.normal(m.rows, m.hidden), m.normal(m.vocabulary, m.hidden, scale=0.1)
    return m.problem(*given, m.normal(m.vocabulary), target, run=run_, like=like)


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
def grpo(m):
    from fla.modules.grpo import fused_grpo_loss as run

    batch, length = m.sized(3, 4), m.sized(13, 512)
    ids, mask = m.integers(m.vocabulary, batch, length), m.integers(2, batch, length)

    def run_(x, old, gain):
        return run(x, old, ids, gain, 0.1, mask, save_kl=True)

    def like(x, old, gain):
        found = x[:, :-1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        divergence = (old - found).exp() - (old - found) - 1
        loss = 0.1 * divergence - (found - found.detach()).exp() * gain[:, None]
        return loss * mask, divergence * mask

    given = m.normal(batch, length + 1, m.vocabulary), m.wide(batch, length) - 8, m.wide(batch)
    return m.problem(*given, run=run_, like=like, fixed=(1, 2))


def _rotated(x, c, s, interleaved=False):
    one, two = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    turned = one * c - two * s, one * s + two * c
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


@case
def rotary(m):
    from fla.modules.rotary import rotary_embedding as run

    half = m.depth // 2
    given = m.normal(*m.sequence()), m.normal(m.length, half), m.normal(m.length, half)
    like = lambda x, c, s: _rotated(x, c[None, :, None], s[None, :, None])  # noqa: E731
    return m.problem(*given, run=run, like=like, fixed=(1, 2))


@case
def rotary_interleaved_packed(m):
    from fla.modules.rotary import rotary_embedding as run

    m.batch, part = 1, m.depth // 4
    tables = m.normal(m.length + 9, part), m.normal(m.length + 9, part)

    def one(x, c, s):
        c, s = (t[9 : 9 + x.shape[1], None] for t in (c, s))
        return torch.cat([_rotated(x[..., : 2 * part], c, s, True), x[..., 2 * part :]], -1)

    def run_(x, c, s):
        return run(x, c, s, interleaved=True, seqlen_offsets=9, cu_seqlens=m.starts)

    like = packed(one, 1, m.length)
    return m.problem(m.normal(*m.sequence()), *tables, run=run_, like=like, fixed=(1, 2))


@family()
def causal_conv1d(m):
    from fla.modules.causal_conv1d import causal_conv1d as run

    def run_(x, residual, w, b, **more):
        y, state = run(x, w, b, residual, activation="silu", **more)
        return y, state if state is None else state[
            ..., 1:
        ]  # the package takes no gradient of the first

    def like(x, residual, w, b, state):
        width = w.shape[1]
        state = x.new_zeros(len(x), x.shape[2], width) if state is None else state
        whole = torch.cat([state, x.transpose(1, 2)], -1)
        y = functional.conv1d(whole[..., 1:], w[:, None], b, groups=len(w))
        return functional.silu(y).transpose(1, 2) + residual, whole[..., 1 - width :]

    shape = m.batch, m.length, m.hidden
    given = m.normal(*shape), m.normal(*shape), m.normal(m.hidden, 4), m.normal(m.hidden)
    return Recurrence(given, run_, like, ((m.hidden, 4),), whole=2)


@case
def causal_conv1d_update(m):
    from fla.modules.conv.causal_conv1d import causal_conv1d_update as run

    def run_(x, cache, w, b):
        return run(x, cache.clone(), None, w, b, "silu")

    def like(x, cache, w, b):
        whole = torch.cat([cache[..., 1:], x.transpose(1, 2)], -1)
        return functional.silu((whole * w).sum(-1) + b)[:, None], whole

    batch = m.sized(5, 128)
    given = (
        m.normal(batch, 1, m.hidden),
        m.normal(batch, m.hidden, 4),
        m.normal(m.hidden, 4),
        m.normal(m.hidden),
    )
    return m.problem(*given, run=run_, like=like, forward_only=True)


@family()
def token_shift(m):
    from fla.modules.token_shift import token_shift as run

    def run_(x, initial_state=None, output_final_state=False, **more):
        found = run(x, cache=initial_state, output_cache=output_final_state, **more)
        if isinstance(found, tuple):
            return found[0], found[1].reshape(-1, 1, x.shape[-1])
        return (found,)

    def like(x, state):
        state = torch.zeros_like(x[:, 0]) if state is None else state
        return torch.cat([state[:, None], x[:, :-1]], 1) - x, x[:, -1:]

    return Recurrence((m.normal(m.batch, m.length, m.hidden),), run_, like, ((m.hidden,),))


def _powglu(x):
    high = x.clamp(min=1e-30)
    return torch.where(x > 0, high ** (3 / (high.sqrt() + 1)), x) * x.sigmoid()


@case
def activations(m):
    from fla.modules import activations as fla

    def run(x, y, b):
        return (
            fla.sigmoid(x), fla.swish(x), fla.logsigmoid(x, 2.0), fla.elu_p1(x), fla.sqrelu(x),
            fla.swiglu(x, y), fla.sigmoidglu(x, y), fla.powglu(x, y), fla.bias_gelu_impl(x, b),
            fla.fast_gelu_impl(x),
        )  # fmt: skip

    def like(x, y, b):
        gelu = lambda x: functional.gelu(x, approximate="tanh")  # noqa: E731
        return (
            x.sigmoid(), functional.silu(x), functional.logsigmoid(x) / 2, functional.elu(x) + 1,
            functional.relu(x) ** 2, functional.silu(x) * y, x.sigmoid() * y, _powglu(x) * y,
            gelu(x + b), gelu(x),
        )  # fmt: skip

    width = m.sized(250, 4096)
    return m.problem(*_rows(m, width, width), m.normal(width), run=run, like=like)


@case
def glu_linear(m):
    from fla.modules import activations as fla

    def run(x, y, w, b):
        return (
            fla.swiglu_linear(x, y, w, b),
            fla.sigmoidglu_linear(x, y, w, b),
            fla.powglu_linear(x, y, w, b),
        )

    def like(x, y, w, b):
        parts = functional.silu(x), x.sigmoid(), _powglu(x)
        return tuple(functional.linear(part * y, w, b) for part in parts)

    width, out = m.sized(256, 4096), m.sized(96, 4096)
    given = *_rows(m, width, width), m.normal(out, width), m.normal(out)
    return m.problem(*given, run=run, like=like)
