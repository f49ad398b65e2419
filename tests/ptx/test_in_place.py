"""Kernels that read and write one array, on the machine for PTX: with a barrier wherever threads meet."""

import pytest
from tests.in_place_kernels import KERNELS, B, arguments
from tests.ptx.launch import run_ptx

import numpy as np

from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.interpreter.compare import run_on_copies
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction


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
