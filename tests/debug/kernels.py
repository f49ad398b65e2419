"""Kernels with faults, at lines that the expected messages name."""

import tilewright
import tilewright.language as tl


@tilewright.jit
def copies(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(o_ptr + offsets, x, mask=offsets < n)


@tilewright.jit
def fetch(pointers, mask):
    return tl.load(pointers, mask=mask)


@tilewright.jit
def fetches(x_ptr, o_ptr, rows, columns, stride):
    i = tl.arange(0, 4)[:, None]
    j = tl.arange(0, 8)[None, :]
    inside = (i < rows) & (j < columns)
    x = fetch(x_ptr + i * stride + j, inside)
    tl.store(o_ptr + i * 8 + j, x)


@tilewright.jit
def sums(x_ptr, o_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(o_ptr, tl.load(o_ptr) + tl.sum(x))


@tilewright.jit
def sums_atomically(x_ptr, o_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(o_ptr, tl.sum(x))


@tilewright.jit
def sums_under_a_lock(x_ptr, o_ptr, lock_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr, tl.load(o_ptr) + tl.sum(x))
    tl.atomic_xchg(lock_ptr, 0)


@tilewright.jit
def logs(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(o_ptr + offsets, tl.log(x))


@tilewright.jit
def wraps(o_ptr, stride):
    row = tl.program_id(0) + 70000
    tl.store(o_ptr + (row * stride) * 0, 1)


@tilewright.jit
def waits(x_ptr):
    while tl.atomic_add(x_ptr, 0) == 0:
        pass


@tilewright.jit
def gathers(x_ptr, index_ptr):
    offsets = tl.arange(0, 8)
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, tl.gather(x, tl.load(index_ptr + offsets), 0))
