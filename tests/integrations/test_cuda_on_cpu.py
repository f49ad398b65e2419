"""Programs with `device="cuda"` on a machine without a GPU."""

import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.integrations.cuda_on_cpu import cuda_on_cpu

torch = pytest.importorskip("torch")


@tw.autotune([tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 128})], key=["n"])
@tw.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def test_tensors_are_on_the_cpu_and_kernels_run_there():
    with cuda_on_cpu():
        x = torch.rand(300, device="cuda", dtype=torch.float32)
        y = torch.empty_like(x, device=torch.device("cuda", 0))
        assert x.is_cuda and y.is_cuda and x.device.type == "cpu"
        for _ in range(3):  # the slow path, the fast path
            double[lambda meta: (tw.cdiv(300, meta["BLOCK"]),)](x, y, 300)
        torch.cuda.synchronize()
        moved = x.cuda().to("cuda:0").to(device="cuda")
        assert moved.device.type == "cpu"
    assert not x.is_cuda
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())


def test_kernels_run_below_other_modes_of_torch():
    with cuda_on_cpu():
        x = torch.rand(300, device="cuda", dtype=torch.float32)
        with torch.device(x.device):
            y = torch.empty(300)
            for _ in range(3):
                double[lambda meta: (tw.cdiv(300, meta["BLOCK"]),)](x, y, 300)
            assert x.is_cuda and y.is_cuda
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())


def test_functions_of_torch_cuda_come_back():
    before = torch.cuda.synchronize, torch.cuda.Event, torch.cuda.device
    with cuda_on_cpu():
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        end.record()
        assert start.elapsed_time(end) >= 0 and end.query()
        with torch.cuda.device(0), torch.cuda.stream(None):
            assert torch.cuda.current_device() == 0
        assert torch.cuda.get_device_properties(0).multi_processor_count >= 1
        assert torch.cuda.get_device_name()
        if not torch.version.cuda:
            assert not torch.cuda.is_available()
    assert before == (torch.cuda.synchronize, torch.cuda.Event, torch.cuda.device)


def test_functions_are_distinct():
    """torch._dynamo keeps one rule for each function of torch."""
    with cuda_on_cpu():
        names = ("synchronize", "empty_cache", "set_device", "device", "stream")
        assert len({id(getattr(torch.cuda, name)) for name in names}) == len(names)


def test_programs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys, torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

x = torch.ones(100, device="cuda")
assert x.is_cuda
double[(2,)](x, 100, BLOCK=64)
print(float(x.sum()), sys.argv[1:])
"""
    )

    def run(*options):
        command = [sys.executable, "-m", "tilewright", "run", *options, str(program), "--flag"]
        return subprocess.run(command, capture_output=True, text=True)

    result = run("--on-cpu")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["200.0", "['--flag']"]
    if not torch.version.cuda:
        failed = run()
        assert failed.returncode == 1 and "tilewright run --on-cpu" in failed.stderr
