"""Kernels whose integers wrap, or whose divisors and counters are not what offsets usually have: compiled for a
CPU and as PTX they do what NumPy does."""

import time

import numpy as np
import pytest
from tests.passes.analysis.engines import run

import tilewright as tw
import tilewright.language as tl

ENGINES = ("cpu", "ptx")
B = 64


def zeros(count=B, kind=np.int32):
    return np.zeros(count, kind)


@tw.jit
def unsigned_hash(y, B: tl.constexpr):
    i = tl.arange(0, B)
    h = i.to(tl.uint32) * 1103515245 + 12345
    tl.store(y + i, i + 1, mask=h < 1073741824)


@tw.jit
def signed_hash(y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, i + 1, mask=(i * 1103515245 + 12345) >= 0)


@tw.jit
def shifted_out(y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, i + 1, mask=(i << 28) >= 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["unsigned_hash", "signed_hash", "shifted_out"])
def test_masks_that_wrap(engine, name):
    i = np.arange(B)
    h = i * 1103515245 + 12345
    allowed = {
        "unsigned_hash": (h & 0xFFFFFFFF) < 1 << 30,
        "signed_hash": h.astype(np.int32) >= 0,
        "shifted_out": i & 8 == 0,
    }[name]
    (y,) = run(engine, globals()[name], (1,), [zeros()], {"B": B})
    np.testing.assert_array_equal(y, np.where(allowed, i + 1, 0))


@tw.jit
def buckets(x, y, B: tl.constexpr):
    pid = tl.program_id(0)
    o = tl.arange(0, B)
    h = (pid.to(tl.uint32) * 805459861 + o.to(tl.uint32)) % 1000
    tl.store(y + pid * B + o, tl.load(x + h))


@pytest.mark.parametrize("engine", ENGINES)
def test_unsigned_remainders_are_no_wrapped_dimension(engine):
    p, o = np.arange(6)[:, None], np.arange(B)
    expected = (((p * 805459861 + o) & 0xFFFFFFFF) % 1000).reshape(-1)
    _, y = run(engine, buckets, (6,), [np.arange(1000, dtype=np.int32), zeros(6 * B)], {"B": B})
    np.testing.assert_array_equal(y, expected)


@tw.jit
def narrowed_counter(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    for i in range(n):
        j = i.to(tl.int8).to(tl.int32)
        tl.store(y + i * B + o, tl.load(x + o, mask=o < j * 16 - 500, other=7))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_counter_that_is_narrowed(engine):
    n = 200
    x = np.arange(100, 100 + B, dtype=np.int32)
    j = np.arange(n).astype(np.int8).astype(int)[:, None]
    expected = np.where(np.arange(B) < j * 16 - 500, x, 7).reshape(-1)
    _, y = run(engine, narrowed_counter, (1,), [x, zeros(B * n), n], {"B": B}, warps=1)
    np.testing.assert_array_equal(y, expected)


@tw.jit
def wrapping_limit(x, y, start, n, B: tl.constexpr):
    o = tl.arange(0, B)
    for i in range(n):
        tl.store(y + i * B + o, tl.load(x + o, mask=o < start - i * 65536, other=7))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_that_wraps_on_its_way(engine):
    n, start = 12, 10 * 65536 + 20 - (1 << 31)
    limit = (start - np.arange(n) * 65536).astype(np.int32)[:, None]
    x = np.arange(100, 100 + B, dtype=np.int32)
    expected = np.where(np.arange(B) < limit, x, 7).reshape(-1)
    assert (limit > 0).any()
    _, y = run(engine, wrapping_limit, (1,), [x, zeros(B * n), start, n], {"B": B}, warps=1)
    np.testing.assert_array_equal(y, expected)


@tw.jit
def quotient(x, y, d, B: tl.constexpr):
    pid = tl.program_id(0)
    o = tl.arange(0, B)
    q = (pid + 5) // d
    tl.store(y + pid * B + o, tl.load(x + o, mask=o + q >= 0, other=-1))


@tw.jit
def narrowed_id(x, y, d, B: tl.constexpr):
    pid = tl.program_id(0) * d
    o = tl.arange(0, B)
    v = pid.to(tl.int8).to(tl.int32)
    tl.store(y + tl.program_id(0) * B + o, tl.load(x + o, mask=o + v >= 0, other=-1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["quotient", "narrowed_id"])
def test_signs_are_proven(engine, name):
    p, o = np.arange(8)[:, None], np.arange(B)
    d, moved = (
        (-2, -((p + 5) // 2)) if name == "quotient" else (37, (p * 37).astype(np.int8).astype(int))
    )
    _, y = run(
        engine, globals()[name], (8,), [np.arange(B, dtype=np.int32), zeros(8 * B), d], {"B": B}
    )
    np.testing.assert_array_equal(y, np.where(o + moved >= 0, o, -1).reshape(-1))


@tw.jit
def odd_offset(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    off = 1
    for i in range(n):
        a = tl.load(x + off + o)
        off += 16
        tl.store(y + i * B + o, a + tl.load(x + off + o))


@tw.jit
def start_behind_loop(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    c = 0
    for i in range(2):
        c += 1
        tl.store(x + n * 16 + (c + o), o.to(tl.int16), mask=o * 3 <= i)
    tl.store(y + ((o + c) % B), o.to(tl.int16))


@pytest.mark.parametrize("engine", ENGINES)
def test_alignment_of_carried_offsets(engine):
    x = np.arange(1024, dtype=np.int32)
    _, y = run(engine, odd_offset, (1,), [x, zeros(4 * 256), 4], {"B": 256})
    i, o = np.arange(4)[:, None], np.arange(256)
    np.testing.assert_array_equal(y, (2 * (1 + 16 * i + o) + 16).reshape(-1))
    arrays = [zeros(1024, np.int16), zeros(128, np.int16), 7]
    _, y = run(engine, start_behind_loop, (1,), arrays, {"B": 128}, target="sm_80")
    np.testing.assert_array_equal(y, np.roll(np.arange(128), 2))


@tw.jit
def unsigned_tile(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B).to(tl.uint32) + 4294967290
    for i in range(n):
        tl.store(y + i * B + tl.arange(0, B), tl.load(x + tl.arange(0, B), mask=o < 40, other=-1))
        o += 3


@pytest.mark.parametrize("engine", ENGINES)
def test_carried_tiles_of_unsigned_numbers_wrap(engine):
    i, o = np.arange(5)[:, None], np.arange(B)
    expected = np.where(((o + 4294967290 + 3 * i) & 0xFFFFFFFF) < 40, o, -1).reshape(-1)
    _, y = run(
        engine, unsigned_tile, (1,), [np.arange(B, dtype=np.int32), zeros(5 * B), 5], {"B": B}
    )
    np.testing.assert_array_equal(y, expected)


@tw.jit
def far_bound(x, y, n, start, B: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=(o + 1) < n, other=-1))
    tl.store(y + o, 5, mask=o + start < n)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [40, -(2**63) + 3])
def test_bounds_of_64_bits(engine, n):
    """Differences of such numbers wrap."""
    start = 2**62
    o = np.arange(2 * B)
    expected = np.where(o + start < n, 5, np.where(o + 1 < n, o, -1))
    x = np.arange(2 * B, dtype=np.int32)
    _, y = run(engine, far_bound, (2,), [x, zeros(2 * B), n, start], {"B": B})
    np.testing.assert_array_equal(y, expected)


def test_compile_time_is_linear_in_carried_scalars():
    n = 13
    carried = range(n)
    lines = [
        "@tw.jit",
        "def kernel(x, y, n, B: tl.constexpr):",
        "    o = tl.arange(0, B)",
        *(f"    c{i} = {i} + n * 0" for i in carried),
        "    for j in range(n):",
        "        for k in range(n):",
        *(f"            c{i} = c{(i + 1) % n} + c{(i + 5) % n}" for i in carried),
        "            v = tl.load(x + o, mask=o + c3 < c5 + n, other=0)",
        "            tl.store(y + o, v, mask=o + c1 >= 0)",
    ]
    kernel = from_text("\n".join(lines) + "\n", "<carried scalars>")
    start = time.process_time()
    run("cpu", kernel, (1,), [zeros(), zeros(), 3], {"B": B})
    assert time.process_time() - start < 5


def from_text(source, name):
    """The kernel that a text defines."""
    import linecache

    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"tw": tw, "tl": tl}
    exec(compile(source, name, "exec"), scope)
    return scope["kernel"]
