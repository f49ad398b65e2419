"""Kernels that read and write one array, on the PTX emulator: with a barrier wherever threads meet."""

import numpy as np
import pytest
from tests.in_place_kernels import KERNELS, B, arguments
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(6, full=6)


@pytest.mark.parametrize(("target", "warps"), [("sm_80", 4), ("sm_90a", 2)])
@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_order_of_one_array(function, target, warps):
    pointer = dtypes.pointer_type(dtypes.int32)
    signature = {"x": pointer, "y": pointer, "s": dtypes.int32, "t": dtypes.int32}
    signature["B"] = dtypes.constexpr(B)
    text = str(build(KernelFunction(function), signature, {"x": 16, "y": 16}).module)
    values = list(arguments().values())
    expected = run_on_copies(parse_ir(text), values, (1, 1, 1))
    artifact = backend.compile(parse_ir(text), Options(num_warps=warps), target_info(target))
    for a, b in zip(expected, run_ptx(artifact, values, (1,)), strict=True):
        np.testing.assert_array_equal(a, b)


def tells_others_that_it_has_stored(x, lock):
    o = tl.arange(0, 512)
    tl.store(x + o, o)
    tl.atomic_xchg(lock, 1, sem="release")


def test_a_release_follows_the_stores_of_all_threads():
    pointer = dtypes.pointer_type(dtypes.int32)
    kernel = KernelFunction(tells_others_that_it_has_stored)
    module = build(kernel, {"x": pointer, "lock": pointer}, {"x": 16}).module
    module.body.block.first_op.attributes["gpu.num_warps"] = IntegerAttr(4, i32)
    run_pipeline(module, nvidia_passes(), target_info("sm_80"))
    text = str(module)
    assert text.index("store_view") < text.index("gpu.barrier\n") < text.index("atomic_rmw")
