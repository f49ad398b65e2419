"""What a user is told when something goes wrong on a GPU; what breaks the context runs in a process of its own."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError

torch = pytest.importorskip("torch")


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tw.jit
def astray(x_ptr, far, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(x_ptr + offsets + far, tl.load(x_ptr + offsets))


def alone(code, **settings):
    """Exit status, output and error output of Python code that may break the CUDA context."""
    import os

    start = f"""
        import runpy, torch
        kernels = runpy.run_path({__file__!r}, run_name="kernels")
        add, astray = kernels["add"], kernels["astray"]
        x = torch.zeros(1000, device="cuda")
    """
    text = textwrap.dedent(start) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300,
        env={**os.environ, **settings},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_the_next_launch_names_a_kernel_that_failed():
    status, out, _ = alone(
        """
        import time
        from tilewright.errors import KernelFault
        astray[(1,)](x, 1 << 40, N=64)
        time.sleep(0.5)
        for _ in range(2):
            try:
                add[(2,)](x, x, x, 1000, BLOCK=512)
            except KernelFault as error:
                print(error)
        """
    )
    assert status == 0 and out.count("ILLEGAL_ADDRESS") == 2
    assert out.count("(launched last: astray)") == 2


def test_launches_that_wait_name_the_kernel_at_once():
    status, out, _ = alone(
        """
        from tilewright.errors import KernelFault
        try:
            astray[(1,)](x, 1 << 40, N=64)
        except KernelFault as error:
            print(error)
        """,
        CUDA_LAUNCH_BLOCKING="1",
    )
    assert status == 0 and "(launched last: astray)" in out


def test_where_torch_reports_the_error_the_process_ends_with_the_kernels_name():
    status, _, err = alone(
        """
        astray[(1,)](x, 1 << 40, N=64)
        print(x.sum().item())
        """
    )
    assert status == 1 and "illegal memory access" in err
    assert "tilewright: a kernel failed on the GPU" in err and "(launched last: astray)" in err


def test_timings_of_kernels_that_fail_name_them():
    status, out, _ = alone(
        """
        from tilewright.errors import KernelFault
        from tilewright.testing import do_bench
        try:
            do_bench(lambda: astray[(1,)](x, 1 << 40, N=64))
        except KernelFault as error:
            print(error)
        """
    )
    assert status == 0 and "(launched last: astray)" in out


def test_processes_without_a_fault_end_quietly():
    assert alone("add[(2,)](x, x, x, 1000, BLOCK=512); torch.cuda.synchronize()") == (0, "", "")


def test_compiled_kernels_refuse_arrays_of_another_device():
    x = torch.zeros(64, device="cuda")
    host = np.zeros(64, np.float32)
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    here = add.compile(types, {"BLOCK": 64})
    there = add[(1,)](x, x, x, 64, BLOCK=64)
    with pytest.raises(LaunchError, match="compiled for cpu, and 'x_ptr' is on GPU 0"):
        here[(1,)](x, x, x, 64)
    with pytest.raises(LaunchError, match="'x_ptr' is in host memory"):
        there[(1,)](host, host, host, 64)
    there[(1,)](x, x.cpu().pin_memory(), x, 64)
    torch.cuda.synchronize()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x.cpu(), "in host memory"),
        (lambda x: x.to("meta"), "in host memory|device meta"),
        (lambda x: x.view(8, 8).to_sparse(), "no memory of its own"),
        (lambda x: x.to(torch.complex64), "complex64"),
        (lambda x: [1.0, 2.0], "expected an array, got a list"),
    ],
)
def test_what_is_no_array_on_the_gpu(make, message):
    x = torch.ones(64, device="cuda")
    with pytest.raises(LaunchError, match=message):
        add[(1,)](x, make(x), x, 64, BLOCK=64)


def test_doctor():
    command = [sys.executable, "-m", "tilewright", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "GPU 0" in done.stdout and "on GPU 0" in done.stdout and "right: a softmax" in done.stdout
    )
