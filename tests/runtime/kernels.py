"""Kernels whose bodies the fake back end replaces."""

import tilewright as tw
import tilewright.language as tl

SCALE = 2


@tw.jit
def add_kernel(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(o_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tw.jit
def one_pointer(out_ptr):
    pass


@tw.jit
def scalars(out_ptr, a, b, c=7, FLAG: tl.constexpr = True):
    pass


@tw.jit(do_not_specialize=["a"])
def unspecialized(out_ptr, a, b):
    pass


@tw.jit
def helper(x):
    return x * SCALE


@tw.jit
def uses_globals(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, helper(tl.load(out_ptr)) + SCALE)
