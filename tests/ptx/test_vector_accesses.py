"""Vectors that a mask may cut, and reductions in memory by vectors, executed as PTX text."""

import functools

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.interface import innermost

pytestmark = pytest.mark.sampled(6, full=6)


@tw.jit
def masked_copy(x_ptr, mask_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Limits and a mask of loaded bits: neither says anything of whole vectors."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(mask_ptr + offs, mask=offs < n, other=0) != 0
    x = tl.load(x_ptr + offs, mask=(offs < n) & chosen, other=7)
    tl.store(out_ptr + offs, x + 1, mask=(offs < n) & ((offs & 3) != 2))


@tw.jit
def scatter_rows(
    x_ptr, rows_ptr, out_ptr, m, n, x_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Rows added to rows chosen by a table (the gradient of an embedding)."""
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    rows = tl.load(rows_ptr + i, mask=i < m, other=0)
    mask = (i < m)[:, None] & (j < n)[None, :]
    x = tl.load(x_ptr + i[:, None] * x_stride + j[None, :], mask=mask, other=0)
    tl.atomic_add(out_ptr + rows[:, None] * n + j[None, :], x, mask=mask)


@tw.jit
def count_twice(out_ptr, old_ptr, n, BLOCK: tl.constexpr):
    """A result that is used: ordered as a whole, by fences around all of its elements."""
    offs = tl.arange(0, BLOCK)
    old = tl.atomic_add(out_ptr + offs % 8, 1, mask=offs < n)
    tl.store(old_ptr + offs, old, mask=offs < n)


@functools.cache
def compiled(kernel, types, constants, target):
    return kernel.compile(
        signature=dict(types), constexprs=dict(constants), target=target, num_warps=1
    )


def artifact(kernel, target, types, **constants):
    key = innermost(kernel), tuple(types.items()), tuple(constants.items()), target
    made = compiled(*key)
    return made, made.asm["ptx"]


def of(kind):
    return {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32}[
        kind
    ]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["fp32", "fp16"])
def test_masked_vectors(kind, target):
    chance = np.random.default_rng(5)
    n = 250
    x = chance.standard_normal(256).astype(of(kind))
    chosen = np.repeat(chance.integers(0, 2, 64), 4).astype(np.int8)  # whole vectors, and cut ones
    chosen[::37] ^= 1
    out = np.full(256, -9, of(kind))
    types = {"x_ptr": f"*{kind}:16", "mask_ptr": "*i8:16", "out_ptr": f"*{kind}:16", "n": "i32"}
    made, text = artifact(masked_copy, target, types, BLOCK=256)
    assert "ld.global.v4" in text and "st.global.v4" in text
    found = run_ptx(made.artifact, [x, chosen, out, n], (1, 1, 1))[2]
    i = np.arange(256)
    expected = np.where(chosen != 0, x, of(kind)(7)) + of(kind)(1)
    expected = np.where((i < n) & (i % 4 != 2), expected, out)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kind", "target", "form"),
    [
        ("fp32", "sm_90a", "red.relaxed.gpu.global.add.v4.f32"),
        ("fp16", "sm_90a", "red.relaxed.gpu.global.add.noftz.v4.f16x2"),
        ("bf16", "sm_90a", "red.relaxed.gpu.global.add.noftz.v4.bf16x2"),
        ("fp16", "sm_80", "red.relaxed.gpu.global.add.noftz.f16x2"),
        ("fp32", "sm_80", "red.relaxed.gpu.global.add.f32"),
    ],
)
@pytest.mark.parametrize("n", [64, 62, 61])
def test_reductions_in_memory(kind, target, form, n):
    chance = np.random.default_rng(n)
    m = 7
    x = chance.integers(-4, 5, (m, 64)).astype(of(kind))
    rows = np.array([3, 0, 3, 2, 1, 0, 3], np.int32)
    out = chance.integers(-4, 5, (4, n)).astype(of(kind))
    types = {"x_ptr": f"*{kind}:16", "rows_ptr": "*i32:16", "out_ptr": f"*{kind}:16"}
    types |= {"m": "i32", "n": "i32", "x_stride": "i32:16"}
    made, text = artifact(scatter_rows, target, types, ROWS=8, COLUMNS=64)
    assert form in text
    assert text.count("fence.acq_rel.gpu") == 1, "one release for all elements"
    found = run_ptx(made.artifact, [x, rows, out, m, n, 64], (1, 1, 1))[2]
    expected = out.astype(np.float64)
    np.add.at(expected, rows, x[:, :n].astype(np.float64))
    np.testing.assert_array_equal(found.astype(np.float64), expected)


@tw.jit
def add_rows(x_ptr, out_ptr, m, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows of a known length added to rows: where they begin is known to be aligned."""
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    places = i[:, None] * COLUMNS + j[None, :]
    x = tl.load(x_ptr + places, mask=i[:, None] < m, other=0)
    tl.atomic_add(out_ptr + places, x, mask=i[:, None] < m)


def test_reductions_at_aligned_addresses_have_no_second_form():
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "m": "i32"}
    made, text = artifact(add_rows, "sm_90a", types, ROWS=8, COLUMNS=16)
    assert "add.v4.f32" in text and "add.f32" not in text
    x, out = (np.arange(128, dtype=np.float32).reshape(8, 16) + i for i in (0, 5))
    found = run_ptx(made.artifact, [x, out, 5], (1, 1, 1))[1]
    np.testing.assert_array_equal(found, out + np.where(np.arange(8)[:, None] < 5, x, 0))
    types["out_ptr"] = "*fp32"
    assert "add.f32" in artifact(add_rows, "sm_90a", types, ROWS=8, COLUMNS=16)[1]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_sums_of_fp64_are_added_one_by_one(target):
    """There are no vectors of fp64 in `red`."""
    made, _ = artifact(add_rows, target, {"x_ptr": "*fp64:16", "out_ptr": "*fp64:16", "m": "i32"}, ROWS=8, COLUMNS=16)  # fmt: skip
    x, out = (np.arange(128.0).reshape(8, 16) + i for i in (0, 5))
    found = run_ptx(made.artifact, [x, out, 8], (1, 1, 1))[1]
    np.testing.assert_array_equal(found, out + x)


@tw.jit
def embedding_gradient(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offs, tl.load(x_ptr + offs).to(tl.float32))


@tw.jit
def add_row_sums(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tl.atomic_add(out_ptr + i, tl.sum(tl.load(x_ptr + i[:, None] * COLUMNS + j[None, :]), axis=1))


def test_lanes_add_to_neighbouring_vectors():
    types = {"x_ptr": "*bf16:16", "out_ptr": "*fp32:16"}
    made, text = artifact(embedding_gradient, "sm_90a", types, BLOCK=512)
    assert text.count("add.v4.f32") == 4 and text.count("ld.global.b64") == 4
    x, out = np.arange(512).astype(ml_dtypes.bfloat16), np.ones(512, np.float32)
    _, found = run_ptx(made.artifact, [x, out], (1, 1, 1))
    np.testing.assert_array_equal(found, 1 + x.astype(np.float32))


def test_sums_of_rows_are_added_by_neighbouring_lanes():
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16"}
    made, text = artifact(add_row_sums, "sm_90a", types, ROWS=32, COLUMNS=16)
    assert text.count("red.relaxed") == 1
    x, out = np.arange(512, dtype=np.float32).reshape(32, 16), np.ones(32, np.float32)
    _, found = run_ptx(made.artifact, [x, out], (1, 1, 1))
    np.testing.assert_array_equal(found, 1 + x.sum(1))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_used_results_are_fenced_once(target):
    out, old, n = np.zeros(8, np.int32), np.zeros(128, np.int32), 120
    types = {"out_ptr": "*i32:16", "old_ptr": "*i32:16", "n": "i32"}
    made, text = artifact(count_twice, target, types, BLOCK=128)
    assert text.count("fence.acq_rel.gpu") == 2
    assert "atom.relaxed.gpu" in text and "atom.acq_rel" not in text
    counts, before = run_ptx(made.artifact, [out, old, n], (1, 1, 1))
    np.testing.assert_array_equal(counts, np.full(8, 15))
    for cell in range(8):
        np.testing.assert_array_equal(np.sort(before[:n][cell::8]), np.arange(15))


@tw.jit
def announce_and_look(
    mine_ptr, other_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr, LOOKS: tl.constexpr
):
    """Of two programs that each write, count and look at what the other wrote, one sees it."""
    tl.atomic_xchg(mine_ptr, 1, sem="relaxed")
    if BLOCK == 1:
        tl.atomic_add(count_ptr, 1)
    else:
        tl.atomic_add(count_ptr + tl.arange(0, BLOCK), 1)
    tl.store(out_ptr, tl.load(other_ptr, volatile=LOOKS))


@pytest.mark.parametrize("block", [1, 128])
def test_unused_results_acquire_for_strong_reads(block):
    types = dict.fromkeys(("mine_ptr", "other_ptr", "count_ptr", "out_ptr"), "*i32")
    made, text = artifact(announce_and_look, "sm_90a", types, BLOCK=block, LOOKS=True)
    _, weak = artifact(announce_and_look, "sm_90a", types, BLOCK=block, LOOKS=False)
    fences = [t.count("fence.acq_rel.gpu") + t.count("atom.acq_rel.gpu") for t in (text, weak)]
    assert fences == ([1, 0] if block == 1 else [2, 1])
    assert text.count("bar.") > weak.count("bar.")
    cells = [np.zeros(block, np.int32) for _ in range(4)]
    found = run_ptx(made.artifact, cells, (1, 1, 1))
    assert found[0][0] == 1 and (found[2] == 1).all() and found[3][0] == 0


@tw.jit
def promised_rows(x_ptr, out_ptr, stride, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Nothing is known of the pointers and the stride but what the hints promise, on lines of their own."""
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    xs = x_ptr + i[:, None] * stride + j[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(steps):
        tl.multiple_of(xs, [16, 16])
        total += tl.load(xs)
        xs += COLUMNS
    tl.store(out_ptr + i[:, None] * COLUMNS + j[None, :], total)


def test_hints_on_lines_of_their_own_promise_alignment():
    x = np.arange(8 * 96, dtype=np.float32).reshape(8, 96)
    out = np.empty((8, 32), np.float32)
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "stride": "i32", "steps": "i32"}
    made, text = artifact(promised_rows, "sm_80", types, ROWS=8, COLUMNS=32)
    assert "ld.global.v4" in text and "st.global.v4" not in text
    found = run_ptx(made.artifact, [x, out, 96, 3], (1, 1, 1))[1]
    np.testing.assert_array_equal(found, x.reshape(8, 3, 32).sum(1))


@tw.jit
def store_to_loaded(x_ptr, table_ptr, out_ptr, offset, n, SIZE: tl.constexpr):
    """A tile stored to an address from a table, at which nothing is known of its alignment."""
    if tl.program_id(0) == 0:
        tl.store(table_ptr, (out_ptr + offset).to(tl.int64))
        tl.debug_barrier()
        out = tl.load(table_ptr).to(tl.pointer_type(tl.float16))
        i = tl.arange(0, SIZE)
        x = tl.load(x_ptr + i[:, None] * SIZE + i[None, :])
        tl.store(out + i[:, None] * n + i[None, :], x, mask=i[None, :] < n)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("offset", "n"), [(0, 16), (8, 24), (3, 16), (8, 15), (1, 13)])
def test_alignment_of_loaded_addresses_is_tested(target, offset, n):
    types = {"x_ptr": "*fp16:16", "table_ptr": "*i64:16", "out_ptr": "*fp16:16", "offset": "i32", "n": "i32"}  # fmt: skip
    made, ptx = artifact(store_to_loaded, target, types, SIZE=16)
    assert "st.global.v4.b32" in ptx
    x = np.arange(256, dtype=np.float16).reshape(16, 16)
    out = np.full(offset + 16 * 24, -1, np.float16)
    found = run_ptx(made, [x, np.zeros(1, np.int64), out, offset, n], (1,))[2]
    expected = out.copy()
    for row in range(16):
        expected[offset + row * n :][: min(n, 16)] = x[row, : min(n, 16)]
    np.testing.assert_array_equal(found, expected)


@tw.jit
def copy_with_hints(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    first = tl.load(x_ptr + offs, cache_modifier=".cg")
    second = tl.load(x_ptr + BLOCK + offs, eviction_policy="evict_first")
    tl.store(out_ptr + offs, first + second, cache_modifier=".cs")
    tl.store(out_ptr + offs, second, mask=first > 63, eviction_policy="evict_last")


def test_cache_modifiers_and_eviction_policies_are_qualifiers():
    made, ptx = artifact(
        copy_with_hints, "sm_90a", {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16"}, BLOCK=128
    )
    assert "ld.global.cg.v4.b32" in ptx
    assert "createpolicy.fractional.L2::evict_first.b64" in ptx
    assert "ld.global.L1::evict_first.L2::cache_hint.v4.b32" in ptx
    assert "st.global.cs.v4.b32" in ptx
    x = np.arange(256, dtype=np.float32)
    found = run_ptx(made, [x, np.zeros(128, np.float32)], (1,))

    expected = np.where(x[:128] > 63, x[128:], x[:128] + x[128:])
    np.testing.assert_array_equal(found[1], expected)


@tw.jit
def turned(x_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, 16), tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    tl.store(out_ptr + i[:, None] * N + j[None, :], tl.flip(x, 1))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_bytes_in_reverse(target):
    """One instruction turns the bytes of a word around; its second source is undefined."""
    made, _ = artifact(turned, target, {"x_ptr": "*i8:16", "out_ptr": "*i8:16"}, N=128)
    x = np.arange(16 * 128).astype(np.int8).reshape(16, 128)
    found = run_ptx(made.artifact, [x, np.zeros_like(x)], (1, 1, 1))[1]
    np.testing.assert_array_equal(found, x[:, ::-1])
