"""Control flow, natively: loops that carry tiles, early exits, branches, tuples, helpers."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

N = 16


def run(kernel: object, rows: int, *args: object, dtype: str = "i4", **meta: object) -> np.ndarray:
    o = np.zeros((rows, N), dtype)
    kernel[(1,)](o, *args, N=N, **meta)  # type: ignore[index]
    return o


@tw.jit
def loops_kernel(o_ptr, n, step, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.zeros((N,), tl.int32)
    for j in range(n):
        x += i * j
    tl.store(o_ptr + i, x)
    x = tl.zeros((N,), tl.int32)
    for j in range(n, -1, -1):
        x = x * 3 + j
    tl.store(o_ptr + N + i, x)
    x = i
    for j in range(n, 0, step):  # a negative step known at run time only
        x = x ^ (j * 5 + i)
    tl.store(o_ptr + 2 * N + i, x)
    x = i
    for j in tl.range(0, n, 2, num_stages=3):
        for k in range(j, n):
            x = x + j * k
        x = x - 1
    tl.store(o_ptr + 3 * N + i, x)
    x = i
    for j in tl.static_range(3):
        x = x * (j + 2)
    for j in tl.static_range(5, 0, -2):
        x = x - j
    tl.store(o_ptr + 4 * N + i, x)
    x = i
    for _ in range(0):
        x = x + 100
    tl.store(o_ptr + 5 * N + i, x)
    a, b = i, i + 1
    for _ in range(n):
        a, b = b, a + b  # a swap of carried tiles
    tl.store(o_ptr + 6 * N + i, a)
    tl.store(o_ptr + 7 * N + i, b)


@pytest.mark.parametrize(("n", "step"), [(7, -2), (1, -1), (0, -3), (12, -5)])
def test_for(n: int, step: int) -> None:
    i = np.arange(N, dtype=np.int32)
    got = run(loops_kernel, 8, n, step)
    horner = np.zeros(N, np.int32)
    for j in range(n, -1, -1):
        horner = horner * 3 + np.int32(j)
    mixed = i.copy()
    for j in range(n, 0, step):
        mixed ^= j * 5 + i
    nested = i + sum(sum(j * k for k in range(j, n)) - 1 for j in range(0, n, 2))
    a, b = i, i + 1
    for _ in range(n):
        a, b = b, a + b
    want = [i * sum(range(n)), horner, mixed, nested, i * 24 - 9, i, a, b]
    np.testing.assert_array_equal(got, want)


@tw.jit
def while_kernel(o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = i + n
    steps = 0
    while tl.max(x) > 3:
        x = x // 2
        steps += 1
    tl.store(o_ptr + i, x)
    tl.store(o_ptr + N + i, steps)
    low = n * 0
    high = n + 1
    while high - low > 1:  # bisection: integer square root
        middle = (low + high) // 2
        if middle * middle <= n:
            low = middle
        else:
            high = middle
    tl.store(o_ptr + 2 * N + i, low)
    a, b = n + 48, n + 36
    while b != 0:
        a, b = b, a % b
    tl.store(o_ptr + 3 * N + i, a)
    y = i
    count = 0
    while (count < n) & (tl.sum(y) < 5000):
        j = 0
        while j < count:
            y += j
            j += 1
        count += 1
    tl.store(o_ptr + 4 * N + i, y)
    tl.store(o_ptr + 5 * N + i, count)


@pytest.mark.parametrize("n", [0, 1, 10, 1000])
def test_while(n: int) -> None:
    i = np.arange(N)
    got = run(while_kernel, 6, n)
    x, steps = i + n, 0
    while x.max() > 3:
        x, steps = x // 2, steps + 1
    y, count = i.copy(), 0
    while count < n and y.sum() < 5000:
        y += sum(range(count))
        count += 1
    gcd = np.gcd(n + 48, n + 36)
    want = [x, 0 * i + steps, 0 * i + int(np.sqrt(n)), 0 * i + gcd, y, 0 * i + count]
    np.testing.assert_array_equal(got, want)


@tw.jit
def exits_kernel(o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.zeros((N,), tl.int32)
    for j in range(100):
        if j == n:
            break
        if j % 3 == 1:
            continue
        x += j
    tl.store(o_ptr + i, x)
    j = 0
    y = i
    while True:
        j += 1
        if j % 2 == 0:
            continue
        y += j
        if j > n:
            break
    tl.store(o_ptr + N + i, y)
    found = -1
    for a in range(10):
        for b in range(10):
            if a * b == n:
                found = a * 10 + b
                break
        if found >= 0:
            break
    tl.store(o_ptr + 2 * N + i, found)
    if n > 50:
        return
    tl.store(o_ptr + 3 * N + i, i)
    if n > 20:
        tl.store(o_ptr + 4 * N + i, 1)
        return
    else:
        tl.store(o_ptr + 4 * N + i, 2)
    tl.store(o_ptr + 5 * N + i, 3)


@pytest.mark.parametrize("n", [0, 4, 12, 21, 60, 200])
def test_early_exits(n: int) -> None:
    i = np.arange(N)
    got = run(exits_kernel, 6, n)
    total = sum(j for j in range(min(n, 100)) if j % 3 != 1)
    j, y = 0, i.copy()
    while True:
        j += 1
        if j % 2 == 0:
            continue
        y = y + j
        if j > n:
            break
    pairs = [a * 10 + b for a in range(10) for b in range(10) if a * b == n]
    want = np.zeros((6, N), np.int64)
    want[0], want[1], want[2] = total, y, pairs[0] if pairs else -1
    if n <= 50:
        want[3], want[4] = i, 1 if n > 20 else 2
        want[5] = 0 if n > 20 else 3
    np.testing.assert_array_equal(got, want)


@tw.jit
def classify(x, flag):
    """A helper with several returns."""
    if flag > 10:
        return x * 2, flag
    elif flag > 5:
        return x + 100, flag * 2
    return x - 1, flag * 3


@tw.jit
def search(limit):
    """A helper that returns from inside a loop."""
    for j in range(100):
        if j * j > limit:
            return j
    return -1


@tw.jit
def apply(fn: tl.constexpr, x, *rest):
    for value in rest:
        x = fn(x, value)
    return x


@tw.jit
def plus(a, b):
    return a + b


@tw.jit
def with_default(x, scale: tl.constexpr = 3, offset=1):
    return x * scale + offset


@tw.jit
def helpers_kernel(o_ptr, n, N: tl.constexpr, choice: tl.constexpr):
    i = tl.arange(0, N)
    x, flag = classify(i, n)
    tl.store(o_ptr + i, x)
    tl.store(o_ptr + N + i, flag)
    tl.store(o_ptr + 2 * N + i, search(n))
    pair = (i, n)
    first, second = pair
    tl.store(o_ptr + 3 * N + i, first + second + pair[0] + len(pair))
    tl.store(o_ptr + 4 * N + i, apply(plus, i, n, 5, i))
    tl.store(o_ptr + 5 * N + i, with_default(i) + with_default(i, offset=n, scale=2))
    if choice == "a":
        y = i + 1
    else:
        y = i.to(tl.float32) * 2  # another type: never compiled together with the other branch
    tl.store(o_ptr + 6 * N + i, y)
    z = i if n > 3 else i * 10
    z += 1 if choice == "a" else 2
    tl.store(o_ptr + 7 * N + i, z)
    total = 0
    for value in (1, n, 3):
        total += value
    tl.store(o_ptr + 8 * N + i, total)
    state = (i, i * 2)
    for _ in range(n):
        state = (state[1], state[0] + 1)
    tl.store(o_ptr + 9 * N + i, state[0] * 100 + state[1])


@pytest.mark.parametrize("choice", ["a", "b"])
@pytest.mark.parametrize("n", [2, 8, 15])
def test_helpers_and_tuples(n: int, choice: str) -> None:
    i = np.arange(N)
    got = run(helpers_kernel, 10, n, choice=choice)
    x, flag = (i * 2, n) if n > 10 else (i + 100, n * 2) if n > 5 else (i - 1, n * 3)
    first = next(j for j in range(100) if j * j > n)
    a, b = i, i * 2
    for _ in range(n):
        a, b = b, a + 1
    want = [
        x, 0 * i + flag, 0 * i + first, 2 * i + n + 2, 2 * i + n + 5, i * 3 + 1 + i * 2 + n,
        i + 1 if choice == "a" else i * 2, (i if n > 3 else i * 10) + (1 if choice == "a" else 2),
        0 * i + n + 4, a * 100 + b,
    ]  # fmt: skip
    np.testing.assert_array_equal(got, want)


@tw.jit
def branches_kernel(x_ptr, o_ptr, n, N: tl.constexpr, M: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    i = m * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i)
    if n > 0:
        if tl.sum(x) > 0:
            y = tl.sum(x, 1)
        else:
            y = tl.max(x, 1)
        x = x * 2.0
    else:
        y = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, N), tl.float32)
    for j in range(n):
        if j % 2 == 0:
            acc += x
        elif j % 3 == 0:
            acc = acc * 0.5 + tl.trans(tl.reshape(x, N, M))
        else:
            acc = tl.where(acc > 1, acc - 1, acc)
    tl.store(o_ptr + i, acc + y[:, None])
    if (n > 2 and n < 6) or n == 9:
        tl.store(o_ptr + M * N + i, x)
    if not (n % 2):
        tl.store(o_ptr + 2 * M * N + i, -x)
    assert n >= 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_branches_with_tiles(n: int, sign: int) -> None:
    M = 8
    x = (np.random.default_rng(0).random((M, N)) * sign).astype(np.float32)
    o = np.zeros((3, M, N), np.float32)
    branches_kernel[(1,)](x, o, n, N=N, M=M)
    y, w = np.zeros(M, np.float32), x
    if n > 0:
        y, w = x.sum(1) if sign > 0 else x.max(1), x * 2
    acc = np.zeros((M, N), np.float32)
    for j in range(n):
        if j % 2 == 0:
            acc = acc + w
        elif j % 3 == 0:
            acc = acc * np.float32(0.5) + w.reshape(N, M).T
        else:
            acc = np.where(acc > 1, acc - 1, acc)
    want = np.zeros((3, M, N), np.float32)
    want[0] = acc + y[:, None]
    want[1] = w if 2 < n < 6 or n == 9 else 0
    want[2] = -w if n % 2 == 0 else 0
    np.testing.assert_allclose(o, want, rtol=1e-6, atol=1e-6)


@tw.jit
def carried_kernel(x_ptr, o_ptr, n, N: tl.constexpr):
    """Carried tiles of several shapes and types, pointers that advance, memory as state."""
    i = tl.arange(0, N)
    pointer = x_ptr + i
    best = tl.full((N,), float("-inf"), tl.float32)
    where = tl.full((N,), -1, tl.int32)
    square = tl.zeros((N, N), tl.float32)
    seen = tl.zeros((N,), tl.int1)
    total = 0.0
    for j in range(n):
        x = tl.load(pointer)
        better = x > best
        best = tl.where(better, x, best)
        where = tl.where(better, j, where)
        square += x[:, None] * x[None, :]
        seen = seen | (x > 0.5)
        total += tl.sum(x)
        pointer += N
        tl.store(o_ptr + i, tl.load(o_ptr + i) + x)
    tl.store(o_ptr + N + i, best)
    tl.store(o_ptr + 2 * N + i, where)
    tl.store(o_ptr + 3 * N + i, seen)
    tl.store(o_ptr + 4 * N + i, total)
    tl.store(o_ptr + 5 * N + i[:, None] * N + i[None, :], square)


@pytest.mark.parametrize("n", [0, 1, 6])
def test_carried_state(n: int) -> None:
    x = np.random.default_rng(1).random((6, N)).astype(np.float32)
    o = np.zeros((5 + N, N), np.float32)
    carried_kernel[(1,)](x, o, n, N=N)
    w = x[:n].astype(np.float64)
    best = w.max(0) if n else np.full(N, -np.inf)
    where = w.argmax(0) if n else np.full(N, -1)
    seen = (w > 0.5).any(0)
    want = np.concatenate([[w.sum(0), best, where, seen, np.full(N, w.sum())], w.T @ w])
    np.testing.assert_allclose(o, want, rtol=2e-6)


@tw.jit
def grid_kernel(o_ptr, G: tl.constexpr):
    x = tl.program_id(0)
    y = tl.program_id(axis=1)
    z = tl.program_id(2)
    place = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(o_ptr + place, x + 100 * y + 10000 * z)
    if place == 0:
        last: tl.constexpr = G[0] * G[1] * G[2]
        tl.store(o_ptr + last, tl.num_programs(2) * 100 + tl.num_programs(1) * 10
                 + tl.num_programs(0))  # fmt: skip


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 1, 1), (3, 4, 5), (1, 1, 7), (2, 9, 1)])
def test_grids(grid: tuple[int, int, int]) -> None:
    gx, gy, gz = grid
    o = np.zeros(gx * gy * gz + 1, np.int32)
    grid_kernel[grid](o, G=grid)
    z, y, x = np.indices((gz, gy, gx))
    want = (x + 100 * y + 10000 * z).ravel()
    np.testing.assert_array_equal(o, [*want, gz * 100 + gy * 10 + gx])


@tw.jit
def rotation_kernel(x_ptr, o_ptr, n, N: tl.constexpr):
    """Carried tiles that take each other's place, some of them without a computation of their own."""
    i = tl.arange(0, N)
    a = tl.load(x_ptr + i)
    b = a + 1
    c = b + 0
    d = tl.zeros((N, N), tl.float32) + a[None, :]
    e = d + 1
    for _ in range(n):
        b = c
        c = a + c
        a, b, c = b, c, a
        d, e = tl.trans(e), d
        tl.store(x_ptr + i, a)
    tl.store(o_ptr + i, a)
    tl.store(o_ptr + N + i, b)
    tl.store(o_ptr + 2 * N + i, c)
    tl.store(o_ptr + 3 * N + i[:, None] * N + i[None, :], d * 100 + e)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_rotations_of_carried_tiles(n: int) -> None:
    x = (np.arange(N, dtype=np.float32) * 3) % 7
    o = np.zeros((3 + N, N), np.float32)
    a, b, c = x.copy(), x + 1, x + 1
    d = np.zeros((N, N), np.float32) + a[None, :]
    e = d + 1
    for _ in range(n):
        a, b, c = c, a + c, a
        d, e = e.T, d
    rotation_kernel[(1,)](x, o, n, N=N)
    np.testing.assert_array_equal(o, np.concatenate([[a, b, c], d * 100 + e]))
