"""What products outside of loops move: a tile and the transposed one are one buffer, and conversions of layouts move the
narrow elements of what is widened."""

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction


def gram(a, out):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x = tl.load(a + places)
    s = tl.dot(x, tl.trans(x)).to(tl.float16)
    t = tl.dot(tl.trans(x), s)
    tl.store(out + places, t + tl.dot(x, tl.trans(s)))


def test_one_buffer_for_a_tile_and_the_transposed_one():
    types = {"a": pointer_type(dtypes.float16), "out": pointer_type(dtypes.float32)}
    module = build(KernelFunction(gram), types, dict.fromkeys(types, 16)).module
    options = Options(num_warps=4, disable=("lower-stores-to-tma",))
    backend.lower(module, options, target_info("sm_90a"))
    text = str(module)
    assert text.count("gpu.wgmma ") == 3
    assert text.count("gpu.local_store ") == 2
    assert text.count("gpu.memdesc_trans ") == 2


def residual(a, out):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x = tl.load(a + places)
    tl.store(out + places, tl.dot(x, x) + x.to(tl.float32))


def test_what_is_widened_is_moved_before():
    types = {"a": pointer_type(dtypes.float16), "out": pointer_type(dtypes.float32)}
    module = build(KernelFunction(residual), types, dict.fromkeys(types, 16)).module
    options = Options(num_warps=4, disable=("lower-stores-to-tma",))
    backend.lower(module, options, target_info("sm_90a"))
    moved = [line for line in str(module).splitlines() if "gpu.convert_layout" in line]
    assert sum("xf16" in line for line in moved) == 1
    assert sum("xf32" in line for line in moved) <= 1  # what is stored
