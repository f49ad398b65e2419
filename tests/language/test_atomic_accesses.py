"""Atomic loads and stores, polling, and rows of descriptors by index, in every way a kernel can run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.engines import ENGINES, ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError

DTYPES = [
    np.dtype(kind)
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?")
] + [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2)]  # fmt: skip


@tw.jit
def copied(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.atomic_load(x_ptr + at)
    tl.static_assert(x.dtype == x_ptr.dtype.element_ty)
    tl.atomic_store(out_ptr + at, x, mask=at != 3)
    (out_ptr + N).atomic_store(x_ptr.atomic_load(sem="relaxed", scope="cta"), sem="relaxed")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_loads_and_stores(engine, dtype):
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2 if dtype == "?" else 120, 16 * dtype.itemsize, np.uint8)
    x = bits.view(dtype)
    out = np.zeros(20, dtype)  # bytes are swapped inside their words on a GPU
    kept, found = run(engine, copied, (1,), x, out, N=16)
    np.testing.assert_array_equal(kept.view(np.uint8), x.view(np.uint8))
    expected = np.concatenate([np.where(np.arange(16) == 3, 0, x).astype(dtype), x[:1], out[17:]])
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@tw.jit
def stored_numbers(out_ptr):
    tl.atomic_store(out_ptr + tl.arange(0, 8), 2.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_is_stored_to_each_lane(engine):
    (out,) = run(engine, stored_numbers, (1,), np.zeros(8, np.float16))
    np.testing.assert_array_equal(out, 2.5)


@tw.jit
def wrong_order(x_ptr, STORES: tl.constexpr):
    if STORES:
        tl.atomic_store(x_ptr, 1, sem="acquire")
    else:
        tl.atomic_load(x_ptr, sem="acq_rel")


def test_orders():
    for stores, text in ((True, "release and relaxed"), (False, "acquire and relaxed")):
        with pytest.raises(CompilationError, match=f"only supports {text} semantics"):
            run("cpu", wrong_order, (1,), np.zeros(1, np.int32), STORES=stores)


@tw.jit
def through_const(x_ptr: tl.const):
    tl.atomic_store(x_ptr, 1)


def test_constant_pointers_are_not_stored_to():
    with pytest.raises(CompilationError, match="Cannot store to a constant pointer"):
        run("cpu", through_const, (1,), np.zeros(1, np.int32))


@tw.jit
def chained(flags_ptr, out_ptr):
    """Each program waits for the one before it."""
    pid = tl.program_id(0)
    seen = tl.atomic_poll(flags_ptr + pid, 1)
    tl.store(
        out_ptr + pid,
        tl.load(out_ptr + pid - 1, mask=pid > 0, other=0, volatile=True) + 1,
        mask=seen,
    )
    tl.atomic_store(flags_ptr + pid + 1, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_that_wait_for_one_another(engine):
    flags = np.zeros(9, np.int32)
    flags[0] = 1
    _, out = run(engine, chained, (8,), flags, np.zeros(8, np.int32))
    np.testing.assert_array_equal(out, np.arange(1, 9))


@tw.jit
def polled_tiles(flags_ptr, out_ptr):
    at = tl.arange(0, 8)
    tl.store(out_ptr + at, tl.atomic_poll(flags_ptr + at, at.to(tl.int64), sem="relaxed"))


@tw.jit
def timed_poll(flags_ptr, out_ptr):
    tl.store(out_ptr, tl.atomic_poll(flags_ptr, 1, timeout_ns=100))


@pytest.mark.parametrize("engine", ENGINES)
def test_poll_of_a_tile(engine):
    _, out = run(engine, polled_tiles, (1,), np.arange(8), np.zeros(8, np.int8))
    np.testing.assert_array_equal(out, 1)


def test_poll_without_a_clock():
    with pytest.raises(CompilationError, match="timeout_ns"):
        run("cpu", timed_poll, (1,), np.ones(1, np.int32), np.zeros(1, np.int8))


# ---- rows of descriptors -------------------------------------------------------------------------------


@tw.jit
def gathered(x_ptr, rows_ptr, out_ptr, column, X, Y, M: tl.constexpr, N: tl.constexpr):
    desc = tl.make_tensor_descriptor(x_ptr, [X, Y], [Y, 1], [1, N])
    rows = tl.load(rows_ptr + tl.arange(0, M))
    out = desc.gather(rows, column)
    tl.store(out_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], out)


@tw.jit
def scattered(x_ptr, rows_ptr, out_ptr, column, X, Y, M: tl.constexpr, N: tl.constexpr):
    desc = tl.make_tensor_descriptor(out_ptr, [X, Y], [Y, 1], [1, N])
    rows = tl.load(rows_ptr + tl.arange(0, M))
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    desc.scatter(x, rows, column)


@pytest.mark.parametrize("column", [0, 16, 24])
@pytest.mark.parametrize("engine", ENGINES)
def test_gathered_rows(engine, column):
    x = np.arange(12 * 32, dtype=np.float32).reshape(12, 32) + 1
    rows = np.array([3, 0, 11, 3, 12, 7, -1, 1], np.int32)
    *_, out = run(
        engine, gathered, (1,), x, rows, np.zeros((8, 16), np.float32), column, 12, 32, M=8, N=16
    )
    padded = np.pad(x, ((1, 1), (0, 16)))
    np.testing.assert_array_equal(out, padded[rows + 1][:, column : column + 16])


@pytest.mark.parametrize("engine", ENGINES)
def test_scattered_rows(engine):
    x = np.arange(8 * 16, dtype=np.float16).reshape(8, 16) + 1
    rows = np.array([3, 0, 11, 4, 12, 7, -1, 1], np.int16)
    *_, out = run(
        engine, scattered, (1,), x, rows, np.zeros((12, 32), np.float16), 24, 12, 32, M=8, N=16
    )
    expected = np.zeros((12, 32), np.float16)
    for row, values in zip(rows, x, strict=True):
        if 0 <= row < 12:
            expected[row, 24:] = values[:8]
    np.testing.assert_array_equal(out, expected)


@tw.jit
def wrong_block(x_ptr, rows_ptr):
    desc = tl.make_tensor_descriptor(x_ptr, [16, 16], [16, 1], [4, 16])
    tl.store(x_ptr, tl.sum(desc.gather(tl.load(rows_ptr + tl.arange(0, 8)), 0)))


@pytest.mark.parametrize("engine", ON_CPU)
def test_gather_needs_a_block_of_one_row(engine):
    with pytest.raises(CompilationError, match=r"must be one row of a matrix, not \[4, 16\]"):
        run(engine, wrong_block, (1,), np.zeros((16, 16), np.float32), np.zeros(8, np.int32))
