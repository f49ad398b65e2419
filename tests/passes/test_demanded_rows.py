"""Clamped loads (`where`, `minimum`, `%`) end where they clamp if no store sees the rows beyond, and only then."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.sampled(4, full=2)


@tw.jit
def product(
    a_ptr, b_ptr, c_ptr, m, n, k, HOW: tl.constexpr, USE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """A persistent matmul that computes the place of its result apart from those of its operands."""
    later = tl.program_id(0) - PROGRAMS
    across = tl.cdiv(n, BN)
    for number in range(tl.program_id(0), tl.cdiv(m, BM) * across, PROGRAMS):
        i = (number // across) * BM + tl.arange(0, BM)
        j = (number % across) * BN + tl.arange(0, BN)
        if HOW == "where":
            i = tl.max_contiguous(tl.multiple_of(tl.where(i < m, i, 0), BM), BM)
            j = tl.where(n > j, j, 0)
        elif HOW == "minimum":
            i, j = tl.minimum(i, m - 1), tl.minimum(j, n - 1)
        else:
            i, j = i % m, j % n
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            inner = start + tl.arange(0, BK)
            a = tl.load(a_ptr + i[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0)
            b = tl.load(b_ptr + inner[:, None] * n + j[None, :], mask=inner[:, None] < k, other=0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        later += PROGRAMS
        i = (later // across) * BM + tl.arange(0, BM)
        j = (later % across) * BN + tl.arange(0, BN)
        mask = (i < m)[:, None] & (j < n)[None, :]
        if USE == "sum":  # every row is seen
            acc += tl.sum(acc, 0)[None, :]
        elif USE == "rows":  # rows beyond m are seen
            mask = (i < m + 1)[:, None] & (j < n)[None, :]
        elif USE == "turned":
            tl.store(c_ptr + j[:, None] + i[None, :] * n, acc.trans(), mask=mask.trans())
        tl.store(c_ptr + i[:, None] * n + j[None, :], acc, mask=mask)


def expected(how, use, a, b, blocks, rows):
    """The result with the clamp done literally, in float64; None in what is never written."""
    m, n = len(a), b.shape[1]
    bm, bn = blocks
    out = np.full((rows, n), np.nan)
    for i0 in range(0, m, bm):
        for j0 in range(0, n, bn):
            i, j = i0 + np.arange(bm), j0 + np.arange(bn)
            x, y = {
                "where": (np.where(i < m, i, 0), np.where(j < n, j, 0)),
                "minimum": (np.minimum(i, m - 1), np.minimum(j, n - 1)),
                "wrap": (i % m, j % n),
            }[how]
            acc = a[x].astype(np.float64) @ b[:, y].astype(np.float64)
            acc += acc.sum(0) if use == "sum" else 0
            end = m + (use == "rows")
            live = np.ix_(i[i < end], j[j < n])
            out[live] = acc[: (i < end).sum(), : (j < n).sum()]
    return out


def types_of(how, use):
    kinds = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32:16") | dict.fromkeys("mnk", "i32")
    constants = {"HOW": how, "USE": use, "BM": 16, "BN": 32, "BK": 16, "PROGRAMS": 2}
    return kinds, constants


def operands(m=27, n=45, k=20):
    chance = np.random.default_rng(3)
    return chance.standard_normal((m, k), np.float32), chance.standard_normal((k, n), np.float32)


HOW, USE = ("where", "minimum", "wrap"), ("plain", "turned", "sum", "rows")


@pytest.mark.parametrize("use", USE)
@pytest.mark.parametrize("how", HOW)
def test_results(how, use):
    a, b = operands()
    out = np.full((28, 45), np.nan, np.float32)
    kinds, constants = types_of(how, use)
    product[(2,)](a, b, out, 27, 45, 20, **constants)
    wanted = expected(how, use, a, b, (16, 32), 28)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    artifact = product.compile(kinds, constants, target="sm_80", num_warps=2).artifact
    fresh = np.full_like(out, np.nan)
    found = run_ptx(artifact, [a, b, fresh, 27, 45, 20], (2, 1, 1))[2]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("use", USE)
@pytest.mark.parametrize("how", HOW)
def test_clamps_go_where_no_store_sees_them(how, use):
    kinds, constants = types_of(how, use)
    text = product.compile(kinds, constants, target="sm_80").asm["gpu"]
    loads = [line for line in text.splitlines() if "gpu.async_copy" in line or "load_view" in line]
    rows = [line for line in loads if '["indexed", ' in line or '["wrapped", ' in line]
    columns = [line for line in loads if ', "indexed"]' in line or ', "wrapped"]' in line]
    assert not columns, "every store drops columns beyond n"
    assert bool(rows) == (use in ("sum", "rows")), text
