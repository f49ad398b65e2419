# ruff: noqa: SIM201, PYI024
"""Kernels for the front end's tests, one construct each."""

from collections import namedtuple
from types import SimpleNamespace

import tilewright.language as tl
from tilewright.language.kernel_function import KernelFunction as jit

FOUR = 4
WIDTH = tl.constexpr(8)
SETTINGS = SimpleNamespace(inner=SimpleNamespace(flag=None))
Pair = namedtuple("Pair", ["first", "second"])


@jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@jit
def constexpr_branch(out_ptr, n, KIND: tl.constexpr):
    if KIND == "a":
        value = n + 1
    elif KIND is None:
        value = undefined_name  # noqa: F821
    else:
        value = n * 2
    tl.store(out_ptr, value)


@jit
def globals_read(out_ptr, n):
    if SETTINGS.inner.flag is None:
        n += FOUR
    tl.store(out_ptr + tl.arange(0, WIDTH), n)


@jit
def dynamic_if(out_ptr, n):
    a = 1
    b = 2.5
    if n > 3:
        a = n
        temporary = n * 2
        b = temporary.to(tl.float32)
    else:
        temporary = 1.5
        b += temporary
    tl.store(out_ptr, a + b)


@jit
def temporaries_differ(out_ptr, n):
    """`t` has another type in each branch, and nobody reads it afterwards."""
    if n > 3:
        t = tl.arange(0, 8)
        tl.store(out_ptr + t, 1.0)
    else:
        t = 1.0
        tl.store(out_ptr, t)


@jit
def early_return(out_ptr, n):
    if n > 3:
        return
    tl.store(out_ptr, n)


@jit
def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0


@jit
def several_returns(out_ptr, n):
    tl.store(out_ptr, sign(n))


@jit
def divmod_of(a, b=3, *, scale: tl.constexpr = 1):
    return a // b * scale, a % b


@jit
def tuple_return(out_ptr, n):
    q, r = divmod_of(n, scale=2)
    pair = Pair(q, r)
    tl.store(out_ptr, pair.first + pair[1])


@jit
def range_loop(out_ptr, n, step):
    total = 0
    last = 0
    for i in range(n, 0, step):
        inside = i * 2
        total += inside
        last = i
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, last)


@jit
def nested_loops(out_ptr, n):
    total = 0
    for i in range(n):
        for j in range(i):
            if i:
                total += j
    tl.store(out_ptr, total)


@jit
def static_loops(out_ptr, N: tl.constexpr):
    for i in tl.static_range(N):
        tl.store(out_ptr + i, i)
    for k, v in ((10, 1.5), (11, 2.5)):
        tl.store(out_ptr + k, v)
    squares = [i * i for i in range(4) if i != 2]
    tl.store(out_ptr + 12, squares[-1] + len(squares))


@jit
def hinted_range(out_ptr, n):
    total = 0.0
    for i in tl.range(0, n, 2, num_stages=3, loop_unroll_factor=2):
        total += i
    tl.store(out_ptr, total)


@jit
def while_loop(out_ptr, n):
    steps = 0
    while n != 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    tl.store(out_ptr, steps)


@jit
def break_and_continue(x_ptr, out_ptr, n):
    total = 0
    for i in range(n):
        v = tl.load(x_ptr + i)
        if v == 0:
            continue
        if v < 0:
            break
        total += v
    tl.store(out_ptr, total)


@jit
def _find(x_ptr, n, wanted):
    for i in range(n):
        if tl.load(x_ptr + i) == wanted:
            return i
    return -1


@jit
def return_in_loop(x_ptr, out_ptr, n):
    tl.store(out_ptr, _find(x_ptr, n, 7))


@jit
def unrolled_break(x_ptr, out_ptr, N: tl.constexpr):
    total = 0
    for i in tl.static_range(N):
        v = tl.load(x_ptr + i)
        if v < 0:
            break
        total += v
    tl.store(out_ptr, total)


@jit
def while_true(x_ptr, out_ptr):
    i = 0
    while True:
        if tl.load(x_ptr + i) == 0:
            break
        i += 1
    tl.store(out_ptr, i)


@jit
def swap_in_loop(out_ptr, n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    tl.store(out_ptr, a)


@jit
def expressions(x_ptr, out_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    m = x[:, None] * x[None, :]
    low = min(n, 5, N)
    both = 0 < n < 10 and not n == 4
    either = n if both else -n
    name = f"N={N:03d}"
    tl.static_assert(name == "N=016", name)
    assert m.shape[0] == 8 and x.dtype == tl.float32 and isinstance(N, tl.constexpr)
    tl.static_assert(hasattr(x, "shape") and 8 in m.shape and N is not None)
    if (k := low + 1) > 2:
        tl.store(out_ptr, k)
    total = tl.sum(m, axis=1)
    tl.store(out_ptr + tl.arange(0, 8), total.to(tl.float32) + abs(either))


@jit
def float64_accumulator(x_ptr, out_ptr, n):
    acc = tl.zeros((8,), dtype=tl.float32)
    for i in range(n):
        acc += tl.load(x_ptr + tl.arange(0, 8) + i)
    tl.store(out_ptr + tl.arange(0, 8), acc)


@jit
def reduce_with_function(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    tl.store(out_ptr, tl.reduce(x, 0, larger))


@jit
def larger(a, b):
    return tl.where(a > b, a, b)


@jit
def dead_initial_value(x_ptr, out_ptr, n):
    """`x` is set before the loop with one type and anew in it with another; not carried."""
    x = tl.load(x_ptr)
    tl.store(out_ptr, x)
    for i in range(n):
        x = tl.load(x_ptr + tl.arange(0, 8) + i)
        tl.store(out_ptr + tl.arange(0, 8), x)


@jit
def plain_helper_on_constants(out_ptr, N: tl.constexpr):
    tl.store(out_ptr, _next_power(N))


def _next_power(n):
    return 1 << (n - 1).bit_length()


@jit
def debug_checks(x_ptr, n):
    tl.device_assert(n > 0, "n must be positive")
    assert n < 100, "n is too large"
    print("n", n)
    tl.store(x_ptr, n)


@jit
def indexing(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(out_ptr, x[3] + x[-1])
    tl.store(out_ptr + tl.arange(0, 8), x[:8])


@jit
def half_precision_math(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(out_ptr + tl.arange(0, 16), tl.exp(x))


@jit
def short_circuit(x_ptr, out_ptr, n):
    i = 0
    while i < n and tl.load(x_ptr + i) > 0:
        i += 1
    tl.store(out_ptr, i if i < n else -1)
    tl.store(out_ptr + 1, tl.load(x_ptr + i) if i < n else -1)


@jit
def block_pointers(x_ptr, out_ptr, M, N, B: tl.constexpr):
    window = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, 0), (B, B), (1, 0))
    acc = tl.zeros((B, B), tl.float32)
    for _ in range(0, N, B):
        acc += tl.load(window, boundary_check=(0, 1))
        window = tl.advance(window, (0, B))
    out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [B, B])
    out.store([0, 0], acc.to(out.dtype))


@jit
def tuples(out_ptr, pair, n):
    a, b = pair
    for i in range(n):
        a, pair = a + i, (a, b)
    both = (a, b)
    if n > 2:
        both = (b, a)
    first, *others = both
    tl.store(out_ptr, max(first, others[0]) + sum(pair) + len(both))


@jit
def standard_library(x_ptr, out_ptr, seed):
    offsets = tl.arange(0, 16)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.sort(x) + tl.rand(seed, offsets) + tl.softmax(x))
    top, where = tl.max(x, 0, return_indices=True)
    tl.store(out_ptr, top + where)


@jit
def methods_of_constants(out_ptr, n):
    tl.store(out_ptr, n.to(tl.float32) + n.dtype.primitive_bitwidth)
    if n.dtype.is_uint64() or out_ptr.dtype.is_int16() or not n.dtype.is_int32():
        tl.store(out_ptr, n.dtype.int_bitwidth)


@jit
def constant_decides(x_ptr, out_ptr, n, HAS: tl.constexpr):
    if n > 3 and HAS:
        tl.store(out_ptr, missing)  # noqa: F821
    if n > 3 or not HAS:
        tl.store(out_ptr, round(2.4) + divmod(7, 4)[1])
