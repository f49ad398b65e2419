"""Random programs give the same results on the GPU as in the interpreter."""

import os
import random

import numpy as np
import pytest
from tests.random.programs import generate
from tests.run_on_copies import run_on_copies

import tilewright as tw
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

#: the conformance tests of the language are those of tests/cpu, run with TILEWRIGHT_TEST_DEVICE=cuda
PROGRAMS = int(os.environ.get("TILEWRIGHT_RANDOM_PROGRAMS", "1000"))
SHARDS = 20


class Moved:
    """A NumPy array's copy on the GPU."""

    is_cuda = True

    def __init__(self, array):
        import torch

        self.array = array
        self.bytes = torch.from_numpy(array.view(np.uint8).copy()).cuda()
        self.dtype, self.shape = array.dtype, array.shape

    def data_ptr(self):
        return self.bytes.data_ptr()

    def get_device(self):
        return 0

    def back(self):
        return self.bytes.cpu().numpy().view(self.array.dtype)


def on_gpu(program, warps, **options):
    values = {
        name: Moved(value) if isinstance(value, np.ndarray) else value
        for name, value in program.arguments.items()
    }
    kernel = tw.jit(program.function())
    kernel[program.grid](*values.values(), **program.constants, num_warps=warps, **options)
    return [v.back() for v in values.values() if isinstance(v, Moved)]


def interpreted(program):
    module = build(KernelFunction(program.function()), program.signature()).module
    return run_on_copies(module, list(program.arguments.values()), program.grid)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_programs(shard, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    for number in range(shard, PROGRAMS, SHARDS):
        program = generate(random.Random(number))
        rough = 'input_precision="tf32"' in program.source
        results = on_gpu(program, 1 << (number // SHARDS) % 4)
        program.compare(interpreted(program), results, 2e-3 if rough else 0.0)
