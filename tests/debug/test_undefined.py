"""The check "undefined": lanes that the mask of a load without `other=` turned off."""

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import debug
from tilewright.errors import UndefinedValueError


@pytest.fixture(autouse=True, params=["1", "ir"])
def _mode(request, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", request.param)
    with debug.checks("undefined"):
        yield


@tilewright.jit
def copies(x_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * 2 + 1, mask=i < m)


def test_a_store():
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    copies[(2,)](x, out, 13, 13, BLOCK=8)
    with pytest.raises(UndefinedValueError) as caught:
        copies[(2,)](x, out, 13, 14, BLOCK=8)
    line = copies.first_line
    text = str(caught.value)
    assert f"{__file__}:{line + 3}:5: tl.store writes an undefined value in" in text
    assert "program (1, 0, 0), lane [5] (1 lanes in all): it depends on lanes that the mask" in text
    assert f"of the tl.load at {__file__}:{line + 2}:9 turns off" in text
    assert "help: give that load an other=" in text


@tilewright.jit
def sums(x_ptr, out_ptr, n, WAY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < n
    if WAY == "other":
        x = tl.load(x_ptr + i, mask=inside, other=0.0)
    else:
        x = tl.load(x_ptr + i, mask=inside)
    if WAY == "where":
        x = tl.where(inside, x, 0.0)
    if WAY == "scan":
        x = tl.cumsum(x, 0)
        tl.store(out_ptr + i, x, mask=inside)
    else:
        tl.store(out_ptr, tl.sum(x, 0))


@pytest.mark.parametrize("way", ["plain", "other", "where", "scan"])
def test_reductions_and_scans(way):
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    if way == "plain":
        with pytest.raises(
            UndefinedValueError, match=r"tl.store writes .* in program \(0, 0, 0\):"
        ):
            sums[(1,)](x, out, 13, way, BLOCK=16)
        sums[(1,)](x, out, 16, way, BLOCK=16)
        return
    sums[(1,)](x, out, 13, way, BLOCK=16)
    assert out[12 if way == "scan" else 0] == 13


@tilewright.jit
def shaped(x_ptr, out_ptr, n, ROWS: tl.constexpr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tile = tl.trans(tl.reshape(x, (4, 4)))
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 4)[None, :]
    tl.store(out_ptr + rows * 4 + columns, tile, mask=(columns < ROWS) & (rows >= 0))


def test_lanes_move_with_the_tile():
    x, out = np.arange(16, dtype=np.int32), np.zeros((4, 4), np.int32)
    shaped[(1,)](x, out, 12, ROWS=3)
    assert (out[:, :3] == x.reshape(4, 4).T[:, :3]).all()
    with pytest.raises(UndefinedValueError, match=r"lane \[0, 3\] \(4 lanes in all\)"):
        shaped[(1,)](x, out, 12, ROWS=4)


@tilewright.jit
def products(a_ptr, b_ptr, out_ptr, K, OTHER: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    for k in range(0, K, 16):
        if OTHER:
            a = tl.load(a_ptr + i * K + k + j, mask=k + j < K, other=0.0)
            b = tl.load(b_ptr + (k + i) * 16 + j, mask=k + i < K, other=0.0)
        else:
            a = tl.load(a_ptr + i * K + k + j, mask=k + j < K)
            b = tl.load(b_ptr + (k + i) * 16 + j, mask=k + i < K)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + i * 16 + j, acc)


def test_dots_and_carried_values():
    a, b, out = np.ones((16, 24), np.float32), np.ones((24, 16), np.float32), np.zeros((16, 16))
    out = out.astype(np.float32)
    products[(1,)](a, b, out, 24, OTHER=True)
    assert (out == 24).all()
    products[(1,)](a[:, :16].copy(), b, out, 16, OTHER=False)
    with pytest.raises(UndefinedValueError, match=r"256 lanes in all"):
        products[(1,)](a, b, out, 24, OTHER=False)


@tilewright.jit
def follows(index_ptr, x_ptr, out_ptr, n, WAY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i, mask=i < n)
    if WAY == "address":
        tl.store(out_ptr + i, tl.load(x_ptr + at))
    elif WAY == "masked address":
        tl.store(out_ptr + i, tl.load(x_ptr + at, mask=i < n, other=0.0))
    elif WAY == "mask":
        tl.store(out_ptr + i, 1.0, mask=at < 5)
    elif WAY == "decided mask":
        tl.store(out_ptr + i, 1.0, mask=(at < 5) & (i < n))
    elif WAY == "branch":
        if tl.max(at, 0) > 3:
            tl.store(out_ptr, 1.0)
    elif WAY == "atomic":
        tl.atomic_add(out_ptr + at, 1.0)
    else:
        for k in range(tl.max(at, 0)):
            tl.store(out_ptr + k, 1.0)


WAYS = {
    "address": "tl.load reads through", "mask": "tl.store is masked by",
    "branch": "a branch depends on", "atomic": "tl.atomic_add goes through",
    "loop": "a branch depends on", "masked address": "", "decided mask": "",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_addresses_masks_and_branches(way):
    index, x, out = np.arange(8, dtype=np.int32), np.ones(8, np.float32), np.zeros(8, np.float32)
    follows[(1,)](index, x, out, 8, way, BLOCK=8)
    if not WAYS[way]:
        follows[(1,)](index, x, out, 6, way, BLOCK=8)
        return
    with pytest.raises(UndefinedValueError, match=WAYS[way]):
        follows[(1,)](index, x, out, 6, way, BLOCK=8)
