"""The interpreter gives the same results before and after every pass of the CPU pipeline."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from tests.run_on_copies import run_on_copies

from tilewright.backends.base import TargetInfo
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.ir.text import parse_ir, verify_ir

pytestmark = pytest.mark.sampled(4, full=4)

HERE = Path(__file__).parent
MACHINES = {
    "avx512": TargetInfo("cpu", "x86_64-linux-gnu", features=("avx512f",), vector_bits=512, vector_registers=32),
    "sse": TargetInfo("cpu", "x86_64-linux-gnu", vector_bits=128, vector_registers=16),
}  # fmt: skip


def load(path):
    spec = importlib.util.spec_from_file_location(f"each_pass_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


seeds = load(HERE / "test_seeds_raise.py")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("program", "name", "arguments", "constants", "grid"), seeds.CASES)
def test_results_after_each_pass(program, name, arguments, constants, grid, machine):
    text = seeds.module_of(seeds.kernel(program, name), arguments, constants)
    module = parse_ir(text)
    values = list(arguments.values())
    reference = run_on_copies(module, values, grid)
    for step in cpu_passes():
        before = str(module)
        step.apply(module, MACHINES[machine])
        verify_ir(module)
        if str(module) == before:
            continue
        after = run_on_copies(module, values, grid)
        for a, b in zip(reference, after, strict=True):
            np.testing.assert_allclose(a, b, rtol=3e-3, atol=1e-5, err_msg=f"after {step.name}")
