"""Atomic operations, natively: kinds, types, masks, orders, contention between programs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError
from tilewright.runtime.drivers.kernels import thresholds

INTS = [np.dtype(f"{u}int{w}") for u in ("", "u") for w in (32, 64)]
SMALL_INTS = [np.dtype(f"{u}int{w}") for u in ("", "u") for w in (8, 16)]
FLOATS = [np.dtype(t) for t in ("f2", ml_dtypes.bfloat16, "f4", "f8")]


def values(n: int, dtype: np.dtype, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    return (rng.integers(-64, 64, n) / 4).astype(dtype)


@tw.jit
def tile_kernel(x_ptr, y_ptr, m_ptr, old_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(y_ptr + i)
    keep = tl.load(m_ptr + i)
    a = tl.atomic_add(x_ptr + i, y)
    tl.store(old_ptr + i, a)
    b = tl.atomic_max(x_ptr + N + i, y, mask=keep)
    tl.store(old_ptr + N + i, b, mask=keep)
    c = tl.atomic_min(x_ptr + 2 * N + i, y, mask=keep, sem="relaxed")
    tl.store(old_ptr + 2 * N + i, c, mask=keep)
    d = tl.atomic_xchg(x_ptr + 3 * N + i, y, sem="acquire", scope="cta")
    tl.store(old_ptr + 3 * N + i, d)
    e = tl.atomic_cas(x_ptr + 4 * N + i, y, tl.load(y_ptr + (i + 1) % N), sem="release")
    tl.store(old_ptr + 4 * N + i, e)


@pytest.mark.parametrize("dtype", [*SMALL_INTS, *INTS, *FLOATS], ids=str)
def test_tiles(dtype: np.dtype) -> None:
    N = 32
    x, y = values(5 * N, dtype, 1).reshape(5, N), values(N, dtype, 2)
    x[4, ::2] = y[::2]
    keep = np.random.default_rng(3).random(N) < 0.5
    before, old = x.copy(), np.zeros((5, N), dtype)
    tile_kernel[(1,)](x, y, keep, old, N=N)
    wide = np.float64 if dtype in FLOATS else dtype
    xx, yy = before.astype(wide), y.astype(wide)
    with np.errstate(over="ignore"):
        want = np.stack([
            (xx[0] + yy).astype(dtype).astype(wide),
            np.where(keep, np.maximum(xx[1], yy), xx[1]),
            np.where(keep, np.minimum(xx[2], yy), xx[2]), yy,
            np.where(xx[4] == yy, np.roll(yy, -1), xx[4]),
        ])  # fmt: skip
    np.testing.assert_array_equal(x.astype(wide), want)
    seen = xx.copy()
    seen[1:3, ~keep] = 0
    np.testing.assert_array_equal(old.astype(wide), seen)


@tw.jit
def bits_kernel(x_ptr, y_ptr, old_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(y_ptr + i)
    tl.store(old_ptr + i, tl.atomic_and(x_ptr + i, y))
    tl.store(old_ptr + N + i, tl.atomic_or(x_ptr + N + i, y, sem="acq_rel", scope="sys"))
    tl.store(old_ptr + 2 * N + i, tl.atomic_xor(x_ptr + 2 * N + i, y, mask=i % 2 == 0), i % 2 == 0)


@pytest.mark.parametrize("dtype", [*SMALL_INTS, *INTS], ids=str)
def test_bits(dtype: np.dtype) -> None:
    N = 16
    x, y = values(3 * N, dtype, 1).reshape(3, N), values(N, dtype, 2)
    before, old = x.copy(), np.zeros((3, N), dtype)
    bits_kernel[(1,)](x, y, old, N=N)
    even = np.arange(N) % 2 == 0
    want = [before[0] & y, before[1] | y, np.where(even, before[2] ^ y, before[2])]
    np.testing.assert_array_equal(x, want)
    before[2, ~even] = 0
    np.testing.assert_array_equal(old, before)


@tw.jit
def contended_kernel(x_ptr, slot_ptr, count_ptr, lock_ptr, n, N: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * N + tl.arange(0, N)
    value = (i % 7).to(x_ptr.dtype.element_ty)
    tl.atomic_add(x_ptr + i % 5, value, mask=i < n)
    tl.atomic_max(x_ptr + 5, pid.to(x_ptr.dtype.element_ty))
    ticket = tl.atomic_add(count_ptr, 1)
    tl.store(slot_ptr + ticket, pid)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    guarded = tl.load(lock_ptr + 1)
    tl.store(lock_ptr + 1, guarded + 1)
    tl.atomic_xchg(lock_ptr, 0)


@pytest.mark.parametrize("dtype", [np.dtype("i4"), np.dtype("u8"), *FLOATS], ids=str)
def test_contention(dtype: np.dtype) -> None:
    N, programs = 16, 40 if dtype.itemsize > 2 else 8
    n = N * programs - 5
    x, slots = np.zeros(6, dtype), np.full(programs, -1, np.int32)
    count, lock = np.zeros(1, np.int32), np.zeros(2, np.int32)
    contended_kernel[(programs,)](x, slots, count, lock, n, N=N)
    i = np.arange(n)
    want = [np.sum((i % 7)[i % 5 == r]) for r in range(5)] + [programs - 1]
    np.testing.assert_array_equal(x.astype(np.float64), want)
    np.testing.assert_array_equal(np.sort(slots), np.arange(programs))
    assert count[0] == lock[1] == programs
    assert lock[0] == 0


@tw.jit
def scalar_kernel(x_ptr, o_ptr, flag):
    tl.store(o_ptr + 0, tl.atomic_add(x_ptr + 0, 2.5))
    tl.store(o_ptr + 1, tl.atomic_max(x_ptr + 1, 3))
    tl.store(o_ptr + 2, tl.atomic_min(x_ptr + 2, -1.0, mask=flag > 0))
    tl.store(o_ptr + 3, tl.atomic_xchg(x_ptr + 3, 9.0, mask=flag < 0))
    tl.store(o_ptr + 4, tl.atomic_cas(x_ptr + 4, 4.0, 44.0))
    tl.store(o_ptr + 5, tl.atomic_cas(x_ptr + 5, 4.0, 55.0))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scalars(dtype: np.dtype) -> None:
    x, o = np.arange(6).astype(dtype), np.full(6, -9).astype(dtype)
    scalar_kernel[(1,)](x, o, 5)
    np.testing.assert_array_equal(x.astype(float), [2.5, 3, -1, 3, 44, 5])
    np.testing.assert_array_equal(o.astype(float)[[0, 1, 2, 4, 5]], [0, 1, 2, 4, 5])


@tw.jit
def nan_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(y_ptr + i)
    tl.atomic_max(x_ptr + i, y)
    tl.atomic_min(x_ptr + N + i, y)
    tl.atomic_add(x_ptr + 2 * N + i, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values(dtype: np.dtype) -> None:
    """Numbers win over NaN in max and min, as in `tl.maximum`; infinities and zeros behave."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 0.0], dtype)
    x = np.tile(special[::-1], (3, 1)).copy()
    start = x.astype(float)
    nan_kernel[(1,)](x, special, N=8)
    y = special.astype(float)
    np.testing.assert_array_equal(x[0].astype(float), np.fmax(start[0], y))
    np.testing.assert_array_equal(x[1].astype(float), np.fmin(start[1], y))
    np.testing.assert_array_equal(x[2].astype(float), start[2] + y)


@tw.jit
def matrix_kernel(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.atomic_add(o_ptr + n[None, :] + m[:, None] * 0, x)  # every row into one
    tl.atomic_add(o_ptr + N, tl.sum(x))
    old = tl.atomic_add(o_ptr + N + 1 + tl.arange(0, M), tl.max(x, 1))
    tl.atomic_add(o_ptr + N + 1 + M, tl.sum(old))


def test_matrix_into_row() -> None:
    M, N = 8, 16
    x = np.random.default_rng(0).integers(0, 9, (M, N)).astype(np.float32)
    o = np.ones(N + M + 2, np.float32)
    matrix_kernel[(1,)](x, o, M=M, N=N)
    want = np.concatenate([x.sum(0), [x.sum()], x.max(1), [M]]) + 1
    np.testing.assert_array_equal(o, want)


@tw.jit
def overlap_kernel(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x_ptr + i)
    tl.atomic_add(x_ptr + i + 3, v)  # every load comes before every addition
    w = tl.load(x_ptr + (i * 5) % N)
    tl.store(x_ptr + (N - 1 - i), w)


def test_loads_come_before_overlapping_atomics() -> None:
    N = 64
    x = np.arange(N + 8, dtype=np.int32)
    want, i = x.copy(), np.arange(N)
    want[i + 3] += x[:N]
    want[N - 1 - i] = want[i * 5 % N]
    overlap_kernel[(1,)](x, N=N)
    np.testing.assert_array_equal(x, want)


@tw.jit
def rows_kernel(x_ptr, index_ptr, out_ptr, n, width, X: tl.constexpr):
    x = tl.program_id(0) * X + tl.arange(0, X)
    mask = x < n
    row = tl.load(index_ptr + x // 64, mask)
    row = tl.where(row < 0, row + 10, row)
    tl.device_assert(((row >= 0) & (row < 10)) | ~mask, "index out of bounds")
    tl.atomic_add(out_ptr + (x % 64 + row * width), tl.load(x_ptr + x, mask), mask, sem="exclusive")


@pytest.mark.parametrize("dtype", [*SMALL_INTS, *INTS, *FLOATS], ids=str)
@pytest.mark.parametrize("block", [32, 64, 256])  # of a row, and of several, which may be the same
def test_exclusive_additions_to_rows(dtype: np.dtype, block: int) -> None:
    rows = np.random.default_rng(5).integers(-10, 10, 37)
    n = 36 * 64 + 16  # the last row is cut off
    x, out = np.zeros(37 * 64, dtype), np.zeros((10, 70), dtype)
    x[:n] = np.random.default_rng(6).integers(-8, 8, n).astype(dtype)
    rows_kernel[(-(-n // block),)](x, rows, out, n, 70, X=block)
    wide = np.float64 if dtype in FLOATS else np.int64
    want = np.zeros((10, 70), wide)
    np.add.at(want[:, :64], rows % 10, x.astype(wide).reshape(37, 64))
    np.testing.assert_array_equal(out, want.astype(dtype))


@tw.jit
def counts_kernel(index_ptr, out_ptr, old_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    old = tl.atomic_add(out_ptr + tl.load(index_ptr + i), 1.0, sem="exclusive")
    tl.store(old_ptr + i, old)


def test_exclusive_additions_of_a_tile_to_one_element() -> None:
    index = np.random.default_rng(7).integers(0, 5, 4096)
    out, old = np.zeros(5, "f4"), np.zeros(4096, "f4")
    counts_kernel[(64,)](index, out, old, N=64)
    np.testing.assert_array_equal(out, np.bincount(index))
    for k in range(5):  # one thread, in order
        np.testing.assert_array_equal(old[index == k], np.arange(out[k]))


def test_kernels_with_exclusive_atomics_run_on_one_thread() -> None:
    types = {"index_ptr": "*i64", "out_ptr": "*fp32", "old_ptr": "*fp32"}
    plan = counts_kernel.compile(types, {"N": 64}, target="cpu").plan
    assert plan.serial and thresholds(plan)[0] > 10**12
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "m_ptr": "*i1", "old_ptr": "*fp32"}
    assert not tile_kernel.compile(types, {"N": 32}, target="cpu").plan.serial


def test_exclusive_atomics_are_for_cpus() -> None:
    types = {"index_ptr": "*i64", "out_ptr": "*fp32", "old_ptr": "*fp32"}
    with pytest.raises(
        CompilationError, match=r'sem="exclusive" promises that a launch runs on one'
    ):
        counts_kernel.compile(types, {"N": 64}, target="sm_90a")
