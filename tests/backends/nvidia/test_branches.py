"""Products of tiles inside one arm of an `if`."""

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction


def product_in_branch(a, out, n):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x = tl.load(a + places)
    if tl.program_id(0) < n:
        tl.store(out + places, tl.dot(x, x))


def product_and_number_in_branch(a, out, n):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x = tl.load(a + places)
    at = n
    if tl.program_id(0) < n:
        tl.store(out + places, tl.dot(x, x))
        at = n * 4096 + tl.load(out).to(tl.int32)
    tl.store(out + at, 1.0)


def compiled(kernel):
    types = {
        "a": pointer_type(dtypes.float16),
        "out": pointer_type(dtypes.float32),
        "n": dtypes.int32,
    }
    module = build(KernelFunction(kernel), types, {"a": 16, "out": 16}).module
    return backend.compile(module, Options(num_warps=4), target_info("sm_90a")).asm["ptx"]


def test_a_branch_that_gives_no_values():
    """The other arm has nothing that would have to be made in it."""
    assert "wgmma.mma_async" in compiled(product_in_branch)


def test_a_branch_that_gives_one_number():
    """The other arm makes one register, which is no struct."""
    assert "wgmma.mma_async" in compiled(product_and_number_in_branch)
