"""The runtime with the real compiler: faults of worker threads, threads and forks that compile."""

import os
import threading
import time

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError, DeviceAssertError
from tilewright.runtime.drivers.cpu import driver


@tw.jit(debug=True)
def checked(x_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.device_assert(x < limit, "too large")
    tl.store(out_ptr + offsets, x + 1)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
    driver().refresh_threads()
    yield
    monkeypatch.undo()
    driver().refresh_threads()


def test_a_fault_of_a_worker_is_raised_by_the_launch(two_threads):
    """Programs of the second half run on another thread; the first by program id is reported."""
    programs, block = 4096, 1024
    x, out = np.zeros(programs * block, np.float32), np.zeros(programs * block, np.float32)
    checked[(programs,)](x, out, 1.0, BLOCK=block)
    assert (out == 1).all()
    for bad in (programs - 1, 3000, 17):
        x[bad * block + 5] = 2
        with pytest.raises(DeviceAssertError, match="too large") as caught:
            checked[(programs,)](x, out, 1.0, BLOCK=block)
        assert f"program ({bad}, 0, 0)" in str(caught.value)
        assert f"{__file__}:{checked.first_line + 3}" in str(caught.value)
    checked[(programs,)](x, out, 3.0, BLOCK=block)


def make_kernel(number):
    @tw.jit
    def adds(x_ptr, out_ptr, n, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(out_ptr + offsets, x + NUMBER, mask=offsets < n)

    return lambda x, out: adds[(tw.cdiv(x.size, 256),)](x, out, x.size, number, BLOCK=256)


def test_threads_compile_and_launch_at_once(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    failures = []

    def work(number):
        try:
            launch = make_kernel(number)
            for n in (1000, 1001, 77):
                x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
                for _ in range(20):
                    launch(x, out)
                    np.testing.assert_array_equal(out, x + number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_compiles_and_launches(two_threads, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    x, out = np.arange(1 << 20, dtype=np.float32), np.zeros(1 << 20, np.float32)
    make_kernel(1)(x, out)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            make_kernel(2)(x, out)
            code = 0 if (out == x + 2).all() else 2
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    done, status = 0, 1
    while not done and time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert done and status == 0
    make_kernel(1)(x, out)
    assert (out == x + 1).all()


def test_vendor_options_are_accepted_and_unknown_ones_are_not():
    @tw.jit
    def fills(out_ptr, BLOCK: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)

    out = np.zeros(8, np.float32)
    fills[(1,)](out, BLOCK=8, waves_per_eu=2, matrix_instr_nonkdim=16, kpack=1, num_warps=8)
    assert (out == 1).all()
    with pytest.raises(TypeError, match="unknown keyword 'wave_per_eu'"):
        fills[(1,)](out, BLOCK=8, wave_per_eu=2)


def test_a_kernel_without_source():
    scope = {"tw": tw, "tl": tl}
    exec("@tw.jit\ndef lost(x_ptr):\n    tl.store(x_ptr, 1.0)\n", scope)
    with pytest.raises(CompilationError, match="cannot read the source of kernel 'lost'"):
        scope["lost"][(1,)](np.zeros(1, np.float32))
