"""Random numbers, printing, assertions and hints, natively."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError

N = 64

ON_GPU = os.environ.get("TILEWRIGHT_TEST_DEVICE") == "cuda"


def philox(seed: int, counters: list[np.ndarray], bits: int, rounds: int = 10) -> list[np.ndarray]:
    """Philox-4xW as published (Salmon et al., SC'11), in Python integers."""
    top = 1 << bits
    if bits == 32:
        multipliers, weyl = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
        key = [seed % top, seed >> 32]
    else:
        multipliers = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
        weyl = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
        key = [seed, 0]
    out = []
    for counter in zip(*counters, strict=True):
        c, k = [int(v) for v in counter], list(key)
        for _ in range(rounds):
            a, b = multipliers[0] * c[0], multipliers[1] * c[2]
            c = [b >> bits ^ c[1] ^ k[0], b % top, a >> bits ^ c[3] ^ k[1], a % top]
            k = [(k[0] + weyl[0]) % top, (k[1] + weyl[1]) % top]
        out.append(c)
    return [np.array(column, f"u{bits // 8}") for column in zip(*out, strict=True)]


@tw.jit
def random_kernel(u_ptr, f_ptr, seed, start, N: tl.constexpr):
    i = start + tl.arange(0, N)
    o = tl.arange(0, N)
    tl.store(u_ptr + o, tl.randint(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(u_ptr + N + o, a)
    tl.store(u_ptr + 2 * N + o, b)
    tl.store(u_ptr + 3 * N + o, c)
    tl.store(u_ptr + 4 * N + o, d)
    tl.store(u_ptr + 5 * N + o, tl.randint(seed, i, n_rounds=7))
    zero = o * 0
    p, q, r, s = tl.philox(seed, i.to(tl.int32), zero + 1, zero + 2, zero + 3)
    tl.store(u_ptr + 6 * N + o, p ^ q ^ r ^ s)
    tl.store(f_ptr + o, tl.rand(seed, i))
    w, x, y, z = tl.rand4x(seed, i)
    tl.store(f_ptr + N + o, w + x + y + z)
    tl.store(f_ptr + 2 * N + o, tl.randn(seed, i))
    w, x, y, z = tl.randn4x(seed, i)
    tl.store(f_ptr + 3 * N + o, w)
    tl.store(f_ptr + 4 * N + o, x)
    tl.store(f_ptr + 5 * N + o, y)
    tl.store(f_ptr + 6 * N + o, z)


def uniform(bits: np.ndarray) -> np.ndarray:
    signed = bits.view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float64) * 4.6566127342e-10


def normal(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    radius = np.sqrt(-2 * np.log(np.maximum(u, 1e-7)))
    return radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)


@pytest.mark.parametrize(("seed", "start"), [(1234, 77), (2**40 + 5, 2**31 - 40), (3, 2**33)])
def test_philox(seed: int, start: int) -> None:
    u, f = np.zeros((7, N), np.uint32), np.zeros((7, N), np.float32)
    random_kernel[(1,)](u, f, seed, start, N=N)
    i = start + np.arange(N, dtype=np.int64)
    if start < 2**31:  # int32 offsets wrap
        i = i.astype(np.int32).astype(np.int64)
    low, high = (i & 0xFFFFFFFF), (i >> 32 & 0xFFFFFFFF if start >= 2**31 else 0 * i)
    zero = 0 * i
    a, b, c, d = philox(seed, [low, high, zero, zero], 32)
    mixed = philox(seed, [low, zero + 1, zero + 2, zero + 3], 32)
    fewer = philox(seed, [low, high, zero, zero], 32, rounds=7)[0]
    np.testing.assert_array_equal(
        u, [a, a, b, c, d, fewer, mixed[0] ^ mixed[1] ^ mixed[2] ^ mixed[3]]
    )
    ua, ub, uc, ud = (uniform(v) for v in (a, b, c, d))
    first = normal(ua, ub)
    want = [ua, ua + ub + uc + ud, first[0], *first, *normal(uc, ud)]
    np.testing.assert_allclose(f, want, rtol=1e-5, atol=2e-6)
    assert f[0].min() >= 0
    assert f[0].max() < 1


def test_philox_known_answer() -> None:
    """The reference implementation's published vector for zero key and counter."""
    got = [int(v[0]) for v in philox(0, [np.zeros(1, np.int64)] * 4, 32)]
    assert got == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@tw.jit
def wide_random_kernel(o_ptr, seed, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.uint64)
    zero = i * 0
    a, b, c, d = tl.philox(seed, i, zero, zero, zero)
    tl.store(o_ptr + tl.arange(0, N), a)
    tl.store(o_ptr + N + tl.arange(0, N), b)
    tl.store(o_ptr + 2 * N + tl.arange(0, N), c)
    tl.store(o_ptr + 3 * N + tl.arange(0, N), d)


def test_philox_64() -> None:
    o = np.zeros((4, N), np.uint64)
    wide_random_kernel[(1,)](o, 99, N=N)
    i = np.arange(N)
    np.testing.assert_array_equal(o, philox(99, [i, 0 * i, 0 * i, 0 * i], 64))


@pytest.mark.skipif(ON_GPU, reason="a block of 65536 elements is a thousand registers a thread")
def test_uniform_and_normal_moments() -> None:
    n = 1 << 16
    f = np.zeros((7, n), np.float32)
    random_kernel[(1,)](np.zeros((7, n), np.uint32), f, 5, 0, N=n)
    assert abs(f[0].mean() - 0.5) < 0.01
    assert abs(f[0].var() - 1 / 12) < 0.002
    assert abs(f[2].mean()) < 0.02
    assert abs(f[2].var() - 1) < 0.03


@tw.jit
def print_kernel(x_ptr, n, N: tl.constexpr, once: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.static_print("compiling", N, x.dtype)
    tl.device_print("values", x)
    tl.device_print("n is", n, n * 0.5)
    tl.device_print("hex", n, -n, hex=True)
    tl.device_print("small", i.to(tl.uint8) + 250)
    tl.device_print("flags", i > 1)
    tl.device_print("half", x.to(tl.float16))
    tl.device_print("square", (i[:, None] + i[None, :]).to(tl.int64))
    print("python", n)
    tl.device_print("only text")


def test_printing(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.array([1.5, -2.0, 3.25, 4.0], np.float32)
    print_kernel[(2,)](x, 11, N=4, once=time.time())  # not from the disk cache: static_print
    text = capfd.readouterr().out
    assert "compiling 4 fp32" in text
    for part in (
        "1.5",
        "-2",
        "3.25",
        "n is",
        "11",
        "5.5",
        "0x0000000b",
        "0xfffffff5",
        "253",
        "python",
        "only text",
    ):
        assert part.lower() in text.lower(), (part, text)
    lines = [line for line in text.splitlines() if "values" in line]
    assert len(lines) == 8  # two programs of four lanes


@tw.jit
def assert_kernel(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.device_assert(x >= 0, "negative value", mask=i < n)
    tl.device_assert(n > 0, "empty")
    tl.store(o_ptr + i, x)


def test_device_assert() -> None:
    x, o = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    x[40] = -1
    assert_kernel[(1,)](x, o, 40, N=N, debug=True)  # the bad lane is masked off
    np.testing.assert_array_equal(o, x)
    with pytest.raises(Exception, match="negative value"):
        assert_kernel[(1,)](x, o, 41, N=N, debug=True)
    with pytest.raises(Exception, match="empty"):
        assert_kernel[(1,)](x, o, 0, N=N, debug=True)
    assert_kernel[(1,)](x, o, 0, N=N)  # without debug there is no check


@tw.jit
def static_kernel(o_ptr, K: tl.constexpr):
    tl.static_assert(K % 2 == 0, "K must be even")
    tl.store(o_ptr, K)


def test_static_assert() -> None:
    o = np.zeros(1, np.int32)
    static_kernel[(1,)](o, K=4)
    assert o[0] == 4
    with pytest.raises(CompilationError, match="K must be even"):
        static_kernel[(1,)](o, K=3)


@tw.jit
def hints_kernel(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.assume(n > 0)
    start = tl.multiple_of(n * 16, 16)
    i = tl.max_contiguous(tl.multiple_of(start + tl.arange(0, N), N), N)
    tl.store(o_ptr + tl.arange(0, N), tl.load(x_ptr + i))
    tl.debug_barrier()
    same = tl.max_constancy(tl.arange(0, N) // 4, 4)
    tl.store(o_ptr + N + tl.arange(0, N), tl.load(o_ptr + same))
    lower, upper = tl.swizzle2d(n, 1, 4, 4, 2)
    tl.store(o_ptr + 2 * N, lower * 10 + upper)
    tl.store(o_ptr + 2 * N + 1, tl.cdiv(n + 7, 4))
    size: tl.constexpr = tl.next_power_of_2(N + 1)
    tl.store(o_ptr + 2 * N + 2, size)


def test_hints_do_not_change_values() -> None:
    x, o = np.arange(256, dtype=np.float32), np.zeros(2 * N + 3, np.float32)
    hints_kernel[(1,)](x, o, 3, N=N)
    want = np.concatenate([x[48 : 48 + N], (48 + np.arange(N) // 4), [24, 3, 128]])
    want[2 * N] = o[2 * N]
    np.testing.assert_array_equal(o, want)
    assert o[2 * N] in {i * 10 + j for i in range(4) for j in range(4)}


@tw.jit
def names_of_options(out_ptr, num_warps: tl.constexpr, num_stages: tl.constexpr = 7):
    tl.store(out_ptr, num_warps * 10 + num_stages)


def test_parameters_that_are_called_like_options() -> None:
    out = np.zeros(1, np.int32)
    for _ in range(2):
        names_of_options[(1,)](out, num_warps=4)
        assert out[0] == 47
        names_of_options[(1,)](out, num_warps=2, num_stages=1)
        assert out[0] == 21
        names_of_options[(1,)](out, 3, num_ctas=1)
        assert out[0] == 37
