"""The composites compile: the front end inlines them and the IR verifies."""

from __future__ import annotations

import pytest

import tilewright.language as tl
from tilewright import dtypes as t
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction


@KernelFunction
def sorting(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(y_ptr + offsets, tl.sort(x, descending=True))
    tl.store(y_ptr + tl.arange(0, 4), tl.topk(x, 4))


@KernelFunction
def random(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randn4x(n, offsets)
    tl.store(
        y_ptr + offsets, a + b + c + d + tl.rand(n, offsets) + tl.rand(17, tl.arange(0, BLOCK))
    )
    bits, _b, _c, _d = tl.philox(n, offsets, offsets, offsets, offsets)
    tl.store(y_ptr + offsets, tl.uint_to_uniform_float(bits))


@KernelFunction
def swizzled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), n, n, 4)
    tl.store(y_ptr + i * n + j, tl.load(x_ptr + j))


@KernelFunction
def shapes_and_functions(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK)).to(tl.float32)
    y = tl.flip(x) + tl.interleave(x[::2], x[1::2]) + tl.cat(x[: BLOCK // 2], x[BLOCK // 2 :])
    low, high = tl.split(tl.reshape(y, [BLOCK // 2, 2]))
    y = tl.join(low, high).ravel() + tl.math.tanh(x) + tl.extra.cuda.libdevice.rsqrt(x) + x[3]
    y = tl.fma(y, x, 1.0) + tl.clamp(y, 0.0, 1.0) + tl.softmax(y) + tl.libdevice.pow(x, 2.0)
    y += (
        tl.cumsum(x, 0)
        + tl.associative_scan(x, 0, tl.maximum, reverse=True)
        + tl.gather(x, tl.arange(0, BLOCK), 0)
    )
    tl.device_assert(n > 0, "n")
    tl.device_print("y", y)
    tl.atomic_add(y_ptr + tl.arange(0, BLOCK), y, mask=y > 0, sem="relaxed")
    tl.atomic_cas(x_ptr, 0.0, 1.0)
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.histogram(x.to(tl.int32), BLOCK))


@pytest.mark.parametrize("kernel", [sorting, random, swizzled, shapes_and_functions])
@pytest.mark.parametrize("element", [t.float32, t.bfloat16])
def test_builds(kernel, element):
    pointer = t.pointer_type(element)
    signature = {"x_ptr": pointer, "y_ptr": pointer, "n": t.int32, "BLOCK": t.constexpr(16)}
    build(kernel, signature).module.verify()
