"""The same faults, found while the interpreter runs the kernel's IR (TILEWRIGHT_INTERPRET=ir)."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import debug
from tilewright.errors import (
    CompilationError,
    DeviceAssertError,
    NumericalFault,
    OutOfBoundsError,
    RaceError,
    UnwrittenMemoryError,
)

FILE = Path(__file__).with_name("kernels.py")


def _kernels():
    spec = importlib.util.spec_from_file_location("faulty_kernels_ir", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


kernels = _kernels()


@pytest.fixture(autouse=True)
def _ir(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "ir")


def text(caught):
    return str(caught.value).replace(str(FILE), "kernels.py")


def test_out_of_bounds():
    x, out = np.zeros(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        kernels.copies[(4,)](x, out, 100, BLOCK=32)
    assert text(caught).startswith(
        "kernels.py:10:9: tl.load reads outside 'x_ptr' (fp32, elements 0 … 99, 400 bytes) in"
        " program (3, 0, 0): 28 of 32 lanes: lane [4] → element 100, lane [5] → element 101,"
        " lane [6] → element 102, lane [7] → element 103, …\n"
        "   10 |     x = tl.load(x_ptr + offsets)\n"
    )


def test_masked_lanes_in_a_helper():
    x, out = np.zeros((4, 6), np.float32), np.zeros((4, 8), np.float32)
    kernels.fetches[(1,)](x, out, 4, 6, 6)
    with debug.checks("masked"), pytest.raises(OutOfBoundsError) as caught:
        kernels.fetches[(1,)](x, out, 4, 6, 6)
    assert "kernels.py:16:12: tl.load reads outside 'x_ptr'" in text(caught)
    assert "lane [3, 6] → element 24, lane [3, 7] → element 25 (masked off)" in text(caught)
    assert "called from kernels.py:24:9" in text(caught)


def test_races():
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    with debug.checks("races"), pytest.raises(RaceError) as caught:
        kernels.sums[(4,)](x, out, BLOCK=16)
    assert text(caught).startswith(
        "kernels.py:31:21: programs (0, 0, 0) and (1, 0, 0) race for element 0 of 'o_ptr':"
        " tl.store of program (0, 0, 0) at kernels.py:31:5 writes it, and tl.load of program"
        " (1, 0, 0) reads it; nothing orders the two\n"
    )
    with debug.checks():
        kernels.sums_atomically[(4,)](x, out, BLOCK=16)


def test_unwritten_memory():
    x, out, last = np.ones(64, np.float32), np.empty(64, np.float32), np.empty(64, np.float32)
    debug.mark_unwritten(out)
    with debug.checks("unwritten"):
        kernels.copies[(1,)](x, out, 32, BLOCK=32)
        kernels.copies[(1,)](out, last, 32, BLOCK=32)
        with pytest.raises(UnwrittenMemoryError, match="element 32 of 'x_ptr' in program"):
            kernels.copies[(2,)](out, last, 64, BLOCK=32)
    debug.forget_unwritten(out)


def test_the_first_infinity():
    x, out = np.array([1, 2, 0, 4], np.float32), np.zeros(4, np.float32)
    with debug.checks("nonfinite"), pytest.raises(NumericalFault) as caught:
        kernels.logs[(1,)](x, out, BLOCK=4)
    assert text(caught).startswith(
        "kernels.py:53:31: the first infinity: math.log of 0.0 in program (0, 0, 0), lane [2]"
        " (1 lanes in all); tl.store at "
    )


def test_offsets_that_wrap():
    out = np.zeros(4, np.int32)
    with debug.checks("overflow"), pytest.raises(NumericalFault) as caught:
        kernels.wraps[(1,)](out, 70000)
    assert text(caught).startswith(
        "kernels.py:59:23: 70000 * 70000 = 4900000000 does not fit i32 and wrapped to 605032704"
        " in program (0, 0, 0)\n"
    )


@tilewright.jit
def carries(o_ptr, step, n):
    offset = 0
    for _ in range(n):
        offset += step
    tl.store(o_ptr + offset * 0, 1)


@tilewright.jit
def hashes(o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    bucket = (i + 1).to(tl.uint32) * 0x9E3779B1 % BLOCK
    tl.store(o_ptr + bucket.to(tl.int32), tl.rand(7, i))


def test_carried_offsets_wrap_and_hashes_may():
    out = np.zeros(64, np.float32)
    with debug.checks("overflow"):
        carries[(1,)](out, 1 << 29, 3)
        hashes[(1,)](out, BLOCK=64)
        with pytest.raises(NumericalFault, match="does not fit i32"):
            carries[(1,)](out, 1 << 29, 4)


@tilewright.jit
def wraps_around(o_ptr, step, groups, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    first = (pid // groups) * step
    tl.store(o_ptr + (first + tl.arange(0, BLOCK)) % 50, 1)


@tilewright.jit
def masked_hash(o_ptr, factor, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, 1, mask=(i * factor + 12345) < 7)


@tilewright.jit
def shifted(o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + ((i << n) & 7), 1)
    tl.store(o_ptr + (i << 2), 1, mask=i < n)


def test_promises_about_addresses():
    """The check finds what language.md promises of addresses, and nothing else."""
    out = np.zeros(64, np.int32)
    with debug.checks("overflow"):
        wraps_around[(2,)](out, 1 << 30, 1, BLOCK=8)
        masked_hash[(1,)](out, 1103515245, BLOCK=8)
        shifted[(1,)](out, 30, BLOCK=8)
        with pytest.raises(NumericalFault, match="does not fit i32"):
            wraps_around[(4,)](out, 1 << 30, 1, BLOCK=8)
        with pytest.raises(NumericalFault, match="0 // -1 forms an address, with a divisor"):
            wraps_around[(1,)](out, 1, -1, BLOCK=8)


@tilewright.jit
def checked(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=1)
    tl.device_assert(x > 0, "positive")
    tl.store(x_ptr + offsets, -x, mask=offsets < n)


def test_asserts_run_and_results_land_in_the_arrays():
    x = np.ones(5, np.int16)
    checked[lambda meta: (1,)](x, 5, BLOCK=8)
    assert (x == -1).all()
    with pytest.raises(DeviceAssertError, match="positive"):
        checked[(1,)](x, 5, BLOCK=8)


def test_arguments_that_leave_no_slot():
    out = np.zeros(4, np.float32)

    @tilewright.jit
    def scaled(o_ptr, stride, pair, nothing, scale):
        i = tl.arange(0, 4)
        value = i * stride + pair[0] + pair[1]
        if nothing is None:
            tl.store(o_ptr + i, value * scale)

    scaled[(1,)](out, 1, (2, 3), None, 0.5)
    assert out.tolist() == [2.5, 3, 3.5, 4]


def test_torch_and_large_unsigned_numbers():
    torch = pytest.importorskip("torch")

    @tilewright.jit
    def adds(o_ptr, large, flag):
        i = tl.arange(0, 4)
        if flag:
            tl.store(o_ptr + i, (i + (large >> 60)).to(tl.float32))

    out = torch.zeros(4, dtype=torch.bfloat16)
    adds[(1,)](out, (1 << 64) - 1, True)
    assert out.tolist() == [15, 16, 17, 18]


def test_a_kernel_that_does_not_compile():
    @tilewright.jit
    def wrong(x_ptr):
        tl.store(x_ptr, tl.exponential(1.0))

    with pytest.raises(CompilationError, match=r"compiled for wrong\(x_ptr: \*fp32\)"):
        wrong[(1,)](np.zeros(1, np.float32))
