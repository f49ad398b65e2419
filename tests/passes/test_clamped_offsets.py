"""However a clamp is written, rows that no store sees are left out of the load; seen rows are not."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def row_sums(x_ptr, out_ptr, m, k, HOW: tl.constexpr, MORE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = i < m
    if HOW == "where":
        j = tl.where(inside, i, 0)
    elif HOW == "otherwise":
        j = tl.where(i >= m, 0, i)
    elif HOW == "from_below":
        j = tl.where(i + 1 > m, m - 1, i)
    elif HOW == "not":
        j = tl.where(~inside, 0, i)
    elif HOW == "outside":
        j = tl.where((i < 0) | (i >= m), 0, i)
    elif HOW == "both":
        j = tl.where((i >= 0) & inside, i, 0)
    elif HOW == "minimum":
        j = tl.minimum(tl.maximum(i, 0), m - 1)
    elif HOW == "maximum":
        j = tl.maximum(tl.minimum(i, m - 1), 0)
    elif HOW == "clamp":
        j = tl.clamp(i, 0, m - 1)
    elif HOW == "times":
        j = i * inside
    elif HOW == "times_wide":
        j = inside.to(tl.int64) * i
    elif HOW == "nested":
        j = tl.where(inside, tl.where(i >= 0, i, 1), 0)
    elif HOW == "wide":
        j = tl.minimum(i.to(tl.int64), m - 1)
    elif HOW == "wrapped":
        j = tl.where(inside, i % m, 0)
    else:  # scaled
        j = tl.where(inside, i * k, 0)
    rows = j if HOW == "scaled" else j * k
    cols = tl.arange(0, BK)
    x = tl.load(x_ptr + rows[:, None] + cols[None, :], mask=cols[None, :] < k, other=0.0)
    tl.store(out_ptr + i, tl.sum(x, 1), mask=i < m + MORE)


HOW = {
    "where": 0, "otherwise": 0, "from_below": -1, "not": 0, "outside": 0, "both": 0, "minimum": -1,
    "maximum": -1, "clamp": -1, "times": 0, "times_wide": 0, "nested": 0, "wide": -1, "wrapped": 0, "scaled": 0,
}  # fmt: skip
"""Spellings, and which row stands for those beyond the last."""


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("how", HOW)
def test_clamped_rows(how, more):
    m, k = 21, 12
    x = np.random.default_rng(1).standard_normal((m, k), np.float32)
    out = np.full(32, np.nan, np.float32)
    constants = {"HOW": how, "MORE": more, "BM": 16, "BK": 16}
    row_sums[(2,)](x, out, m, k, **constants)
    rows = [*range(m), *[HOW[how] % m] * more]
    np.testing.assert_allclose(out[: m + more], x[rows].sum(1), rtol=1e-5)
    assert np.isnan(out[m + more :]).all()
    kinds = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "m": "i32", "k": "i32"}
    text = row_sums.compile(kinds, constants, target="sm_80").asm["gpu"]
    (load,) = [line for line in text.splitlines() if "tile.load_view" in line]
    assert ('["strided", "strided"]' in load) == (more == 0), load


@tw.jit
def row_numbers(out_ptr, m, k, HOW: tl.constexpr, MORE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Store each row's number to it, of rows that are clamped to those within `m`."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    if HOW == "where":
        j = tl.where(i < m, i, 0)
    elif HOW == "minimum":
        j = tl.minimum(i, m - 1)
    else:
        j = i % m
    cols = tl.arange(0, BK)
    inside = (i < m + MORE)[:, None] & (cols < k)[None, :]
    tl.store(out_ptr + j[:, None] * k + cols[None, :], tl.broadcast_to(j[:, None], (BM, BK)), mask=inside)  # fmt: skip


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("how", ["where", "minimum", "wrapped"])
def test_clamped_rows_of_stores(how, more):
    """A store whose mask has the limit of the clamp is strided; one with rows beyond it stores those where they are."""
    m, k = 21, 12
    out = np.full((32, k), -1, np.int32)
    constants = {"HOW": how, "MORE": more, "BM": 16, "BK": 16}
    row_numbers[(2,)](out, m, k, **constants)
    written = m + min(more, 0)
    np.testing.assert_array_equal(out[:written], np.arange(written)[:, None] + np.zeros(k))
    assert (out[written:] == -1).all()
    kinds = {"out_ptr": "*i32:16", "m": "i32", "k": "i32"}
    text = row_numbers.compile(kinds, constants, target="sm_80").asm["gpu"]
    (store,) = [line for line in text.splitlines() if "tile.store_view" in line]
    assert ('["strided", "strided"]' in store) == (more == 0), store
