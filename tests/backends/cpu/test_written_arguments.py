"""Which arrays a launch plan says may be written: through control flow too, and no others."""

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.cli.signature import resolve
from tilewright.cli.stages import trace


@tw.jit
def chosen(x_ptr, y_ptr, c):
    p = x_ptr
    if c > 0:
        p = y_ptr
    tl.store(p, 1.0)


@tw.jit
def carried(x_ptr, y_ptr, z_ptr, c):
    p = x_ptr
    q = z_ptr
    for _ in range(c):
        p, q = y_ptr, q + 1
    tl.store(p, tl.load(q))


@tw.jit
def waiting(x_ptr, y_ptr, c):
    p = x_ptr
    while c > 0:
        p = y_ptr
        c -= 1
    tl.store(p, 1.0)


@tw.jit
def selected(x_ptr, y_ptr, c):
    tl.store(tl.where(c > 0, x_ptr, y_ptr), 1.0)


@tw.jit
def indexed(x_ptr, index_ptr, value_ptr):
    at = tl.arange(0, 16)
    tl.store(x_ptr + tl.load(index_ptr + at).to(tl.int64), tl.load(value_ptr + at))


@tw.jit
def atomics(x_ptr, y_ptr, z_ptr):
    tl.atomic_add(x_ptr, 1.0)
    tl.atomic_cas(y_ptr.to(tl.pointer_type(tl.int32)), 0, 1)
    tl.load(z_ptr)


@tw.jit
def through_integer(x_ptr, y_ptr, address):
    p = (x_ptr.to(tl.int64) + address).to(tl.pointer_type(tl.float32))
    tl.store(p, tl.load(y_ptr))


@pytest.mark.parametrize(
    "kernel, written",
    [
        (chosen, "x_ptr y_ptr"),
        (carried, "x_ptr y_ptr"),
        (waiting, "x_ptr y_ptr"),
        (selected, "x_ptr y_ptr"),
        (indexed, "x_ptr"),
        (atomics, "x_ptr y_ptr"),
        (through_integer, "x_ptr"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_written(kernel, written):
    given = {"address": "i64"} if "address" in kernel.arg_names else {}
    result = trace(kernel, resolve(kernel, given), stop_after="front-end")
    pointers = [a for a in result.arguments if a.kind == "pointer"]
    assert " ".join(a.name for a in pointers if a.written) == written
