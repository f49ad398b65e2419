"""Left operands of MMAs that a loop carries stay in their registers until the MMA is complete."""

import random
import re

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr, pointer_type
from tilewright.frontend import build

ROWS, KEYS, DEEP = 128, 64, 128


@tw.jit
def attention(Q, K, V, Out, L, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, NARROW: tl.constexpr):  # fmt: skip
    """Probabilities in bf16, whose conversion is inline assembly; NARROW: their sums are those of what is multiplied."""
    rows, columns, deep = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + deep[None, :])
    m = tl.full([M], -1.0e6, tl.float32)
    l = tl.zeros([M], tl.float32)  # noqa: E741
    acc = tl.zeros([M, D], tl.float32)
    for start in range(0, n, N):
        keys = start + columns
        k = tl.load(K + keys[None, :] * D + deep[:, None])
        v = tl.load(V + keys[:, None] * D + deep[None, :])
        scores = tl.dot(q, k)
        highest = tl.maximum(m, tl.max(scores, 1))
        p = tl.math.exp2(scores - highest[:, None])
        alpha = tl.math.exp2(m - highest)
        narrow = p.to(tl.bfloat16)
        l = l * alpha + tl.sum(narrow.to(tl.float32) if NARROW else p, 1)  # noqa: E741
        acc = tl.dot(narrow, v, acc * alpha[:, None])
        m = highest
    tl.store(Out + rows[:, None] * D + deep[None, :], acc / l[:, None])
    tl.store(L + rows, m + tl.math.log2(l))


def compiled(narrow):
    half, single = pointer_type(dtypes.bfloat16), pointer_type(dtypes.float32)
    types = dict.fromkeys("QKV", half) | {"Out": single, "L": single, "n": dtypes.int32}
    sizes = {"M": ROWS, "N": KEYS, "D": DEEP, "NARROW": narrow}
    signature = types | {name: constexpr(value) for name, value in sizes.items()}
    module = build(attention, signature, dict.fromkeys(types, 16)).module
    return backend.compile(module, Options(num_warps=8, num_stages=3), target_info("sm_90a"))


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("n", [64, 192])
def test_operands_are_not_written_before_the_wait(narrow, n):
    rng = np.random.default_rng(n)
    q, k, v = (rng.normal(size=(s, DEEP)).astype(ml_dtypes.bfloat16) for s in (ROWS, n, n))
    q = (q.astype(np.float32) / 16).astype(ml_dtypes.bfloat16)
    arguments = [q, k, v, np.zeros((ROWS, DEEP), np.float32), np.zeros(ROWS, np.float32), n]
    found = run_ptx(compiled(narrow), arguments, (1, 1, 1), random.Random(n))
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(scores - scores.max(1, keepdims=True))
    total = p.sum(1, keepdims=True)
    np.testing.assert_allclose(found[3], p / total @ v.astype(np.float64), atol=2e-2)
    lengths = scores.max(1) + np.log2(total[:, 0])
    np.testing.assert_allclose(found[4], lengths, atol=2e-2)


def test_conversions_follow_the_wait():
    """ptxas would serialize MMAs between whose begin and wait their operands' registers are written, by moves too."""
    ptx = compiled(False).asm["ptx"]
    converted = [m.start() for m in re.finditer(r"cvt\.rn\.bf16x2", ptx)]
    loop = ptx[ptx.index("wgmma.wait_group.sync.aligned 1") :]
    start = len(ptx) - len(loop)
    wait = start + loop.index("wgmma.wait_group.sync.aligned 0")
    assert not [at for at in converted if start < at < wait]
