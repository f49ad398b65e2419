"""Kernels that read and write one array, and what they do to it: all lanes of an operation before the next.

`x` holds 2048 int32 below 200, `y` 512 of them; `s` and `t` are scalars. Every kernel runs as one program.
"""

import numpy as np

import tilewright.language as tl

B = 512


def compare_exchange(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    a = tl.load(x + 2 * o)
    b = tl.load(x + 2 * o + 1)
    tl.store(x + 2 * o, b, mask=a > b)
    tl.store(x + 2 * o + 1, a, mask=a > b)


def shifted_under_a_loaded_mask(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    m = tl.load(x + 3 + o)
    tl.store(x + 4 + o, o, mask=m > 100)


def mask_of_a_carried_tile(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    acc = tl.zeros((B,), tl.int32)
    for _ in range(2):
        v = tl.load(x + s + o)
        tl.store(x + o, v, mask=acc > 0)
        acc += v


def indices_from_the_array(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    i = tl.load(x + o)
    tl.store(x + 2 * i + 1, i, mask=i > 20)
    tl.store(x + o + 1, i)


def indices_beside_a_shifted_store(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    i = tl.load(x + s + o)
    tl.store(x + s + o + 1, o)
    tl.store(y + i, i + 1)
    tl.store(x + o, i, mask=i > 50)


def rows_and_columns_of_indices(x, y, s, t, B: tl.constexpr):
    r, c = tl.arange(0, 16), tl.arange(0, 32)
    at = tl.load(x + r)
    v = tl.load(x + r[:, None] * 32 + c[None, :])
    tl.store(x + r[:, None] * 32 + c[None, :] + 1, v + 1)
    tl.store(
        x + 1024 + (at % 16)[:, None] * 0 + r[:, None] * 32 + c[None, :], v, mask=at[:, None] > 60
    )


def three_stores_of_one_condition(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    a, b = tl.load(x + o), tl.load(x + o + 1)
    c = (a > b) & (tl.load(x + o + s) > 50)
    tl.store(x + o, tl.where(c, b, a + 1), mask=a != b)
    tl.store(x + o + 1, a, mask=c)
    tl.store(x + o + s, b, mask=c | (a == 3))


def scalar_between_tiles(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    k = tl.sum(v, 0) % 256
    between = tl.load(x + k)
    tl.store(x + o, v + 1)
    tl.store(x + o + 256, v + between)


def scalar_store_between(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    tl.store(x + s, 77)
    w = tl.load(x + o)
    tl.store(x + o + s, v + w, mask=w > 20)
    tl.store(y + o, w)


def loop_over_shifted_views(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    for i in range(s):
        m = tl.load(x + o + i)
        v = tl.load(x + o + 2 * i + 1)
        tl.store(x + o + 1, v + i, mask=m % 3 > 0)
        tl.store(x + o, m - v, mask=m % 2 > 0)


def row_under_its_own_mask(x, y, s, t, B: tl.constexpr):
    r, c = tl.arange(0, 16), tl.arange(0, 32)
    row = tl.load(x + c)
    at = x + r[:, None] * 32 + c[None, :]
    v = tl.load(at)
    tl.store(at, v + row[None, :], mask=row[None, :] > 30)
    tl.store(at + 1, v - row[None, :], mask=row[None, :] > 90)


def transposed_in_place(x, y, s, t, B: tl.constexpr):
    r, c = tl.arange(0, 32), tl.arange(0, 32)
    v = tl.load(x + r[:, None] * 32 + c[None, :])
    m = tl.load(x + c[:, None] + r[None, :] * 32)
    tl.store(x + c[:, None] + r[None, :] * 32, v, mask=m > v)
    tl.store(x + r[:, None] * 32 + c[None, :], m, mask=(r[:, None] < 7) & (v > m))


def wrapped_at_two_starts(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(x + (o + s) % B, o * 10)
    tl.store(y + o, tl.load(x + (o + t) % B))


def wrapped_in_place(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + (o + 64) % B)
    tl.store(x + (o + 65) % B, v, mask=v > 50)
    tl.store(x + (o + 63) % B, o, mask=v > 100)


def two_permutations(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    p, q = (o * 3) % B, (o * 5 + 7) % B
    tl.store(x + p, o)
    v = tl.load(x + q)
    tl.store(x + p, v + 1)
    tl.store(y + o, tl.load(x + q))


def one_index_in_many_lanes(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    p = (o * o) % 64
    v = tl.load(x + p)
    tl.store(x + p, p)
    tl.store(y + o, v + tl.load(x + p))


def reduction_of_what_was_stored(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    tl.store(x + o + 1, v, mask=v > 30)
    total = tl.sum(tl.load(x + o), 0)
    tl.store(x + o, total - v, mask=tl.load(x + o + 2) > total % 100)


def atomic_after_a_load(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    tl.atomic_add(x + (o + 1) % B, v, mask=v > 40)
    w = tl.load(x + o)
    tl.store(y + o, w, mask=w > 100)


def atomics_of_other_lanes(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.atomic_add(x + o, o)
    tl.atomic_add(x + B - 1 - o, 3)
    old = tl.atomic_max(x + (o + 64) % B, 150)
    tl.store(y + o, old)


def length_from_the_array(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    n = tl.load(x + s)
    tl.store(x + o, o + 7, mask=o < n)
    m = tl.load(x + t)
    tl.store(x + o + 1, o + 9, mask=o < m)


def both_branches(x, y, s, t, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    if s > 2:
        w = tl.load(x + o + 1)
    else:
        w = v + 1
    tl.store(x + o, w, mask=v > 30)
    tl.store(x + o + 1, v, mask=w > 60)


KERNELS = [
    value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__
]


def arguments():
    """One call's arguments: `s` shifts by less than a vector, `t` by more."""
    numbers = np.random.default_rng(7)
    x = numbers.integers(0, 200, 2048).astype(np.int32)
    return {"x": x, "y": numbers.integers(0, 200, B).astype(np.int32), "s": 3, "t": 301}
