"""Operands of products whose rows are gathered, paged or masked arrive by asynchronous copies, stages ahead."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir


@tw.jit
def product(
    a_ptr, b_ptr, c_ptr, table, rows, m, n, k, HOW: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    i, j, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    row, live = i, (i < m)[:, None]
    if HOW == "rows":
        row = tl.load(rows + i, mask=i < m, other=0)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(0, tl.cdiv(k, BK)):
        at = t * BK + inner
        inside = at < k
        place = at
        if HOW == "page":
            place = tl.load(table + t) * BK + inner
        elif HOW == "pages":
            place = tl.load(table + at // 16, mask=inside, other=0) * 16 + at % 16
        elif HOW == "below":
            place = at - 20
        if HOW == "mask":
            live = (tl.load(rows + i, mask=i < m, other=0) > t)[:, None]
        elif HOW == "along":
            inside = tl.load(rows + at, mask=inside, other=0) > 2
        a = tl.load(a_ptr + row[:, None] * k + at[None, :], mask=live & inside[None, :], other=0.0)
        b = tl.load(b_ptr + place[:, None] * n + j[None, :], mask=((at < k) & (place >= 0))[:, None], other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * n + j[None, :], acc, mask=(i < m)[:, None])


def expected(how, a, b, table, rows, block):
    m, k = a.shape
    at = np.arange(k)
    place = at - 20 if how == "below" else at
    if how in ("page", "pages"):
        size = block if how == "page" else 16
        place = table[at // size] * size + at % size
    live = np.ones((m, k), bool)
    if how == "mask":
        live = rows[:m, None] > at // block
    elif how == "along":
        live = np.broadcast_to(rows[:k] > 2, (m, k))
    left = np.where(live, a[rows[:m]] if how == "rows" else a, 0).astype(np.float32)
    right = np.where((place >= 0)[:, None], b[np.maximum(place, 0)], 0).astype(np.float32)
    return left @ right


HOW = ("rows", "page", "pages", "below", "mask", "along")


@pytest.mark.sampled(2, full=2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("how", HOW)
def test_rows_from_memory(how, target):
    m, n, k, block = 50, 32, 112, 32
    chance = np.random.default_rng(len(how))
    a = chance.standard_normal((m, k)).astype(np.float16)
    b = chance.standard_normal((128, n)).astype(np.float16)
    table = chance.permutation(4 if how == "page" else 7).astype(np.int32)
    rows = chance.integers(0, 5, k).astype(np.int32)
    out = np.full((m, n), np.nan, np.float32)
    kinds = dict.fromkeys(("a_ptr", "b_ptr"), "*fp16:16") | dict.fromkeys(
        ("table", "rows"), "*i32:16"
    )
    kinds |= {"c_ptr": "*fp32:16"} | dict.fromkeys("mnk", "i32:16+") | {"m": "i32+"}
    constants = {"HOW": how, "BM": 64, "BN": 32, "BK": block}
    compiled = product.compile(kinds, constants, target=target, num_warps=4, num_stages=3)
    arguments = [a, b, out, table, rows, m, n, k]
    wanted = expected(how, a, b, table, rows, block)
    found = run_ptx(compiled.artifact, arguments, (1, 1, 1))[2]
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)
    gpu = run_on_copies(parse_ir(compiled.asm["gpu"]), arguments, (1, 1, 1))[2]
    np.testing.assert_allclose(gpu, wanted, rtol=1e-2, atol=1e-2)
    text = compiled.asm["ptx"]
    assert ("ld.global.b16" in text) == (how == "along")  # where the mask varies between neighbors
    assert "cp.async" in text


@tw.jit
def wrapped_columns(a_ptr, b_ptr, c_ptr, starts, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """C = A @ B of columns from a start in memory, whose sign is not known, to a run's end or the matrix's."""
    i, j, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    columns = (tl.load(starts) * BN + j) % n
    columns = tl.max_contiguous(tl.multiple_of(columns, BN), BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for t in range(0, k // BK):
        at = t * BK + inner
        a = tl.load(a_ptr + i[:, None] * k + at[None, :])
        acc = tl.dot(a, tl.load(b_ptr + at[:, None] * n + columns[None, :]), acc)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], acc)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_promised_runs_of_columns_are_copied(target):
    """Columns that wrap around within the promised run, at a multiple of 16."""
    m, n, k, block = 64, 144, 128, 64
    chance = np.random.default_rng(0)
    a = chance.standard_normal((m, k)).astype(np.float16)
    b = chance.standard_normal((k, n)).astype(np.float16)
    kinds = dict.fromkeys(("a_ptr", "b_ptr"), "*fp16:16") | {"c_ptr": "*fp32:16", "starts": "*i32"}
    kinds |= dict.fromkeys("nk", "i32:16+")
    constants = {"BM": m, "BN": block, "BK": 32}
    compiled = wrapped_columns.compile(kinds, constants, target=target, num_warps=4, num_stages=3)
    arguments = [a, b, np.zeros((m, block), np.float32), np.array([2], np.int32), n, k]
    wanted = (a.astype(np.float32) @ b.astype(np.float32))[:, (2 * block + np.arange(block)) % n]
    found = run_ptx(compiled.artifact, arguments, (1, 1, 1))[2]
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)
    text = compiled.asm["ptx"]
    assert "ld.global.b16" not in text and "cp.async.cg" in text and "cp.async.ca" not in text


@tw.jit
def gather(x_ptr, rows, out_ptr, m, k, BM: tl.constexpr, BK: tl.constexpr):
    i, j = tl.arange(0, BM), tl.arange(0, BK)
    live = (i < m)[:, None] & (j < k)[None, :]
    row = tl.load(rows + i, mask=i < m, other=0)
    x = tl.load(x_ptr + row[:, None] * k + j[None, :], mask=live, other=0.0)
    tl.store(out_ptr + i[:, None] * k + j[None, :], x, mask=live)


def test_gathered_rows_are_vectors():
    m, k = 13, 48
    x = np.random.default_rng(0).standard_normal((20, k)).astype(np.float16)
    rows = np.random.default_rng(1).integers(0, 20, m).astype(np.int32)
    out = np.zeros((m, k), np.float16)
    kinds = {
        "x_ptr": "*fp16:16",
        "rows": "*i32:16",
        "out_ptr": "*fp16:16",
        "m": "i32",
        "k": "i32:16",
    }
    compiled = gather.compile(kinds, {"BM": 16, "BK": 64}, target="sm_90a", num_warps=1)
    found = run_ptx(compiled.artifact, [x, rows, out, m, k], (1, 1, 1))[2]
    np.testing.assert_array_equal(found, x[rows])
    assert "ld.global.v4.b32" in compiled.asm["ptx"]


@tw.jit
def shared_rows(X, W, Rows, S, Z, n, R: tl.constexpr, D: tl.constexpr):
    """Gathered rows that two products and element-wise work read."""
    r, d = tl.arange(0, R), tl.arange(0, D)
    w = tl.load(W + r[:, None] * D + d[None, :])
    total, norms = tl.zeros((R, D), tl.float32), tl.zeros((R,), tl.float32)
    for i in range(0, n):
        row = tl.load(Rows + i * R + r)
        x = tl.load(X + row[:, None] * D + d[None, :], mask=(row < 90)[:, None], other=0.0)
        s = tl.dot(w, tl.trans(x))
        norms += tl.sum(x.to(tl.float32) * x, 1)
        total = tl.dot(s.to(x.dtype), x, total)
    tl.store(S + r[:, None] * D + d[None, :], total)
    tl.store(Z + r, norms)


@pytest.mark.parametrize(("target", "warps"), [("sm_90a", 4), ("sm_90a", 8), ("sm_80", 4)])
def test_several_readers_of_gathered_rows(target, warps):
    """All of them read the stage of their iteration."""
    rng, n, rows, depth = np.random.default_rng(1), 5, 64, 64
    x = (rng.standard_normal((100, depth)) / 4).astype(np.float16)
    w = (rng.standard_normal((rows, depth)) / 4).astype(np.float16)
    index = rng.integers(0, 100, n * rows).astype(np.int32)
    signature = dict.fromkeys(("X", "W"), dtypes.pointer_type(dtypes.float16))
    signature |= {"Rows": dtypes.pointer_type(dtypes.int32), "n": dtypes.int32}
    signature |= dict.fromkeys(("S", "Z"), dtypes.pointer_type(dtypes.float32))
    signature |= {"R": constexpr(rows), "D": constexpr(depth)}
    order = {p: signature[p] for p in ("X", "W", "Rows", "S", "Z", "n", "R", "D")}
    module = build(shared_rows, order, dict.fromkeys(("X", "W", "Rows", "S", "Z"), 16)).module
    options = Options(num_warps=warps, num_stages=3)
    artifact = backend.compile(module, options, target_info(target))
    arguments = [x, w, index, np.zeros((rows, depth), np.float32), np.zeros(rows, np.float32), n]
    after = run_ptx(artifact, arguments, (1, 1, 1))
    wide, total, norms = x.astype(np.float64), 0, 0
    for block in index.reshape(n, rows):
        taken = np.where((block < 90)[:, None], wide[block], 0)
        total = total + w.astype(np.float64) @ taken.T @ taken
        norms = norms + (taken**2).sum(1)
    np.testing.assert_allclose(np.asarray(after[3]), total, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(np.asarray(after[4]), norms, rtol=1e-3, atol=1e-3)
