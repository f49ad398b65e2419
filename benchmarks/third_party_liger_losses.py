"""Losses of Liger-Kernel."""

from __future__ import annotations

import torch
from torch.nn import functional

from third_party_cases import registrar
from third_party_references import softmax_entropy

case = registrar("liger")


@case
def cross_entropy(m):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as F

    given = m.normal(m.rows, m.vocabulary), m.integers(m.vocabulary, m.rows)
    return m.problem(
        *given, run=lambda x, t: F.apply(x * 1, t, None)[0], like=functional.cross_entropy
    )


@case
def cross_entropy_smooth_softcap(m):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as F

    def like(x, t):
        x = 30 * torch.tanh(x / 30)
        extra = 1e-4 * x.logsumexp(-1).pow(2).mean()
        return functional.cross_entropy(x, t, label_smoothing=0.1) + extra

    def run(x, t):
        return F.apply(x * 1, t, None, -100, 1e-4, 0.1, "mean", 30.0, True)[0]

    given = m.normal(m.rows, m.vocabulary, scale=3.0), m.integers(m.vocabulary, m.rows)
    return m.problem(*given, run=run, like=like)


@case
def fused_linear_cross_entropy(m):
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as F,
    )

    given = (
        m.normal(m.rows, m.hidden, scale=0.1),
        m.normal(m.vocabulary, m.hidden, scale=0.1),
        m.integers(m.vocabulary, m.rows),
    )
    return m.problem(
        *given,
        run=lambda x, w, t: F.apply(x, w, t)[0],
        like=lambda x, w, t: functional.cross_entropy(x @ w.T, t),
    )


@case
def kl_div(m):
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction as F

    wide = torch.float32
    x = m.normal(m.rows, m.vocabulary, dtype=wide).log_softmax(-1)
    t = m.normal(m.rows, m.vocabulary, dtype=wide).softmax(-1)
    return m.problem(
        x, t,
        run=lambda x, t: F.apply(x * 1, t),
        like=lambda x, t: functional.kl_div(x, t, reduction="batchmean"),
        fixed=(1,),
    )  # fmt: skip


@case
def jsd(m):
    from liger_kernel.ops.jsd import LigerJSDFunction as F

    def like(x, t):
        p, q = x.exp(), t.exp()
        middle = (0.5 * (p + q)).log()
        return (0.5 * (p * (x - middle) + q * (t - middle))).sum(-1).mean()

    wide = torch.float32
    x, t = (m.normal(m.rows, m.vocabulary, dtype=wide).log_softmax(-1) for _ in range(2))
    run = lambda x, t: F.apply(x * 1, t)  # noqa: E731
    return m.problem(x, t, run=run, like=like, fixed=(1,))


@case
def tvd(m):
    from liger_kernel.ops.tvd import LigerTVDLossFunction as F

    x, t = (m.normal(m.rows, m.vocabulary, dtype=torch.float32).softmax(-1) for _ in range(2))
    return m.problem(
        x, t,
        run=lambda x, t: F.apply(x * 1, t),
        like=lambda x, t: 0.5 * (x - t).abs().sum(-1).mean(),
        fixed=(1,),
    )  # fmt: skip


@case
def cross_entropy_weight(m):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as F

    target = m.integers(m.vocabulary, m.rows)
    target[::5] = -100
    weight = m.uniform(m.vocabulary, low=0.5, dtype=torch.float32)

    def run(x):
        return F.apply(x * 1, target, weight, -100, 0.0, 0.1, "none")[0]

    def like(x):
        return functional.cross_entropy(
            x, target, weight.double(), reduction="none", label_smoothing=0.1
        )

    return m.problem(m.normal(m.rows, m.vocabulary), run=run, like=like)


@case
def fused_linear_cross_entropy_bias(m):
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as F,
    )

    target = m.integers(m.vocabulary, m.rows)
    target[::5] = -100

    def run(x, w, b):
        return F.apply(x, w, target, b, None, -100, 1e-3, 0.1, "mean", 20.0)[0]

    def like(x, w, b):
        x = 20 * torch.tanh(functional.linear(x, w, b) / 20)
        return softmax_entropy(x, target, smoothing=0.1, z=1e-3).sum() / (target >= 0).sum()

    given = m.normal(m.rows, m.hidden), m.normal(m.vocabulary, m.hidden, scale=0.1)
    return m.problem(*given, m.normal(m.vocabulary), run=run, like=like)


def _divergence(x, t, beta):
    """Jensen–Shannon's, of logarithms."""
    middle = torch.logsumexp(
        torch.stack([t + torch.log(torch.tensor(beta)), x + torch.log(torch.tensor(1 - beta))]), 0
    )
    rows = beta * t.exp() * (t - middle) + (1 - beta) * x.exp() * (x - middle)
    return rows.sum(-1)


@case
def jsd_labels(m):
    from liger_kernel.ops.jsd import LigerJSDFunction as F

    labels = m.integers(m.vocabulary, m.rows)
    labels[::5] = -100
    x, t = (m.wide(m.rows, m.vocabulary).log_softmax(-1) for _ in range(2))

    def like(x, t):
        return (_divergence(x, t, 0.3) * (labels >= 0)).sum() / (labels >= 0).sum()

    return m.problem(
        x, t, run=lambda x, t: F.apply(x * 1, t, labels, 0.3, -100), like=like, fixed=(1,)
    )


@case
def fused_linear_jsd(m):
    from liger_kernel.ops.fused_linear_jsd import LigerFusedLinearJSDFunction as F

    labels = m.integers(m.vocabulary, m.rows)
    labels[::5] = -100

    def like(x, w, t, u):
        x, t = ((a @ b.mT / 1.3).log_softmax(-1) for a, b in ((x, w), (t, u)))
        return (_divergence(x, t, 0.3) * (labels >= 0)).sum() / (labels >= 0).sum()

    shape, weights = (m.rows, m.hidden), (m.vocabulary, m.hidden)
    given = [m.normal(*s, scale=0.1) for s in (shape, weights, shape, weights)]
    run = lambda *a: F.apply(*a, labels, 0.3, -100, 1.3)  # noqa: E731
    return m.problem(*given, run=run, like=like, fixed=(2, 3))


@case
def fused_linear_kl_div(m):
    from liger_kernel.ops.fused_linear_kl_div import LigerFusedLinearKLDivFunction as F

    labels = m.integers(m.vocabulary, m.rows)
    labels[::5] = -100

    def like(x, w, t):
        x = (x @ w.mT / 1.3).log_softmax(-1)
        return ((t * (t.log() - x)).sum(-1) * (labels >= 0)).sum() / (labels >= 0).sum()

    given = m.normal(m.rows, m.hidden), m.normal(m.vocabulary, m.hidden, scale=0.1)
    target = m.wide(m.rows, m.vocabulary).softmax(-1)
    run = lambda *a: F.apply(*a, labels, "batchmean", -100, 1.3)  # noqa: E731
    return m.problem(*given, target, run=run, like=like, fixed=(2,))


@case
def fused_ce_tvd(m):
    from liger_kernel.ops.fused_ce_tvd import LigerFusedCETVDFunction as F

    target = m.integers(m.vocabulary, m.rows)
    target[::5] = -100

    def like(x, t):
        apart = 0.5 * (x.softmax(-1) - t.softmax(-1)).abs().sum(-1) * (target >= 0)
        return functional.cross_entropy(x, target, reduction="none"), apart

    given = m.normal(m.rows, m.vocabulary), m.normal(m.rows, m.vocabulary)
    run = lambda x, t: F.apply(x * 1, t, target)  # noqa: E731
    return m.problem(*given, run=run, like=like, fixed=(1,))


@case
def fused_linear_scaled_cross_entropy(m):
    from liger_kernel.ops.fused_linear_scaled_cross_entropy import (
        LigerFusedLinearScaledCrossEntropyFunction as F,
    )

    target = m.integers(m.vocabulary, m.rows)

    def like(x, w):
        found = (x @ w.mT / 1.3).log_softmax(-1)
        loss = -found.gather(-1, target[:, None])[:, 0]
        return loss, -(found.exp() * found).sum(-1)

    given = m.normal(m.rows, m.hidden), m.normal(m.vocabulary, m.hidden, scale=0.1)
    run = lambda x, w: F.apply(x, w, target, 1.3, -100, 1, True)  # noqa: E731
    return m.problem(*given, run=run, like=like)


@case
def vocab_parallel_cross_entropy(m):
    """Of one process."""
    from liger_kernel.ops.vocab_parallel_cross_entropy import LigerVocabParallelCEFunction as F

    target = m.integers(m.vocabulary, m.rows, 2)
    target[::5] = -100

    def like(x):
        flat = x.flatten(0, 1)
        loss = functional.cross_entropy(flat, target.flatten(), reduction="none")
        return loss.view_as(target)

    run = lambda x: F.apply(x * 1, target, None, -100, 0.0, "megatron", "none")  # noqa: E731
    return m.problem(m.normal(m.rows, 2, m.vocabulary), run=run, like=like)


def _grpo(m, level):
    from liger_kernel.ops.grpo_loss import GrpoLossFunction as F

    batch, length = 4, m.sized(13, 512)
    mask = (torch.rand(batch, length, generator=m.chance) < 0.8).to(torch.int32).to(m.device)
    ids = m.integers(m.vocabulary, batch, length)
    old = m.wide(batch, length, scale=0.3) - torch.log(torch.tensor(float(m.vocabulary)))

    def run(x, old, ref, gain):
        return F.apply(
            x * 1, old, ref, ids, gain, mask, 0.9, 0.04, 0.2, 0.4, False, "grpo", None, True, level
        )[0]  # fmt: skip

    def like(x, old, ref, gain):
        found = (x[:, :-1] / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio = found - old
        if level == "sequence":
            ratio = ((ratio * mask).sum(-1) / mask.sum(-1))[:, None].expand_as(found)
        ratio, gain = ratio.exp(), gain[:, None]
        loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.4) * gain)
        loss = loss + 0.04 * ((ref - found).exp() - (ref - found) - 1)
        return ((loss * mask).sum(-1) / mask.sum(-1)).mean()

    given = m.normal(batch, length + 1, m.vocabulary), old, old + 0.05, m.wide(batch)
    return m.problem(*given, run=run, like=like, fixed=(1, 2, 3))


@case
def grpo_loss(m):
    return _grpo(m, "token")


@case
def grpo_loss_sequence(m):
    return _grpo(m, "sequence")
