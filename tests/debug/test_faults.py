"""What each check reports, word for word, and that correct kernels pass all of them."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import debug
from tilewright.debug.context import check_names
from tilewright.errors import (
    DeadlockError,
    LaunchError,
    NumericalFault,
    OutOfBoundsError,
    RaceError,
    UnwrittenMemoryError,
)
from tilewright.interpreter import memory

FILE = Path(__file__).with_name("kernels.py")


def _kernels():
    spec = importlib.util.spec_from_file_location("faulty_kernels", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


kernels = _kernels()


def text(caught):
    return str(caught.value).replace(str(FILE), "kernels.py")


def test_out_of_bounds():
    x, out = np.zeros(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        kernels.copies[(4,)](x, out, 100, BLOCK=32)
    assert text(caught) == (
        "kernels.py:10:9: tl.load reads outside 'x_ptr' (fp32, elements 0 … 99, 400 bytes) in"
        " program (3, 0, 0): 28 of 32 lanes: lane [4] → element 100, lane [5] → element 101,"
        " lane [6] → element 102, lane [7] → element 103, …\n"
        "   10 |     x = tl.load(x_ptr + offsets)\n"
        "                ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: pass mask=... to tl.load, true for the lanes inside the array"
    )


@pytest.mark.parametrize("interpret", ["1", "ir"])
def test_gather_beyond_the_tile(monkeypatch, interpret):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    x, index = np.zeros(8, np.float32), np.array([0, 7, 6, 8, 50, 1, 2, 3], np.int32)
    expected = r"element 8 of 8 along axis 0 in 2 of 8 lanes, the first at \[3\]"
    with pytest.raises(OutOfBoundsError, match=expected):
        kernels.gathers[(1,)](x, index)


def test_out_of_bounds_in_a_helper():
    x, out = np.zeros((4, 8), np.float16)[:, :6], np.zeros((4, 8), np.float16)
    kernels.fetches[(1,)](x, out, 4, 6, 8)
    with pytest.raises(OutOfBoundsError) as caught:
        kernels.fetches[(1,)](x, out, 4, 6, 9)
    assert text(caught) == (
        "kernels.py:16:12: tl.load reads outside 'x_ptr' (fp16, elements 0 … 31, 64 bytes) in"
        " program (0, 0, 0): 1 of 32 lanes: lane [3, 5] → element 32\n"
        "   16 |     return tl.load(pointers, mask=mask)\n"
        "                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: check the mask against the array's extents and strides. Lanes are 9, 1 elements apart"
        " along the tile's dimensions; 'x_ptr' has shape 4 x 6 and strides 8, 1\n"
        "called from kernels.py:24:9 in fetches\n"
        "   24 |     x = fetch(x_ptr + i * stride + j, inside)\n"
        "                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_nothing_is_written_outside():
    whole = np.zeros(64, np.float32)
    with pytest.raises(OutOfBoundsError):
        kernels.copies[(4,)](np.zeros(128, np.float32), whole, 128, BLOCK=32)
    assert not whole.any()


def test_masked_lanes():
    x, out = np.zeros((4, 6), np.float32), np.zeros((4, 8), np.float32)
    kernels.fetches[(1,)](x, out, 4, 6, 6)
    with (
        debug.checks("masked"),
        pytest.raises(OutOfBoundsError, match=r"lane \[3, 6\].*masked off"),
    ):
        kernels.fetches[(1,)](x, out, 4, 6, 6)


def test_a_race():
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    kernels.sums[(4,)](x, out, BLOCK=16)
    assert out[0] == 64
    with debug.checks("races"), pytest.raises(RaceError) as caught:
        kernels.sums[(4,)](x, out, BLOCK=16)
    assert text(caught).startswith(
        "kernels.py:31:21: programs (0, 0, 0) and (1, 0, 0) race for element 0 of 'o_ptr':"
        " tl.store of program (0, 0, 0) at kernels.py:31:5 writes it, and tl.load of program"
        " (1, 0, 0) reads it; nothing orders the two\n"
        "   31 |     tl.store(o_ptr, tl.load(o_ptr) + tl.sum(x))\n"
    )


def test_what_is_ordered_is_no_race():
    x, out, lock = np.ones(64, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    with debug.checks():
        kernels.sums_atomically[(4,)](x, out, BLOCK=16)
        kernels.sums_under_a_lock[(4,)](x, out, lock, BLOCK=16)
        kernels.copies[(2,)](x, np.zeros(64, np.float32), 64, BLOCK=32)
    assert out[0] == 128


def test_unwritten_memory():
    x, out, last = np.ones(64, np.float32), np.empty(64, np.float32), np.empty(64, np.float32)
    debug.mark_unwritten(out)
    with debug.checks("unwritten"):
        kernels.copies[(1,)](x, out, 32, BLOCK=32)
        kernels.copies[(1,)](out, last, 32, BLOCK=32)
        with pytest.raises(UnwrittenMemoryError, match="element 32 of 'x_ptr' in program"):
            kernels.copies[(2,)](out, last, 64, BLOCK=32)
        debug.forget_unwritten(out)
        kernels.copies[(2,)](out, last, 64, BLOCK=32)


def test_the_first_infinity():
    x, out = np.array([1, 2, 0, 4], np.float32), np.zeros(4, np.float32)
    kernels.logs[(1,)](x, out, BLOCK=4)
    with debug.checks("nonfinite"), pytest.raises(NumericalFault) as caught:
        kernels.logs[(1,)](x, out, BLOCK=4)
    assert text(caught).startswith(
        "kernels.py:53:31: the first infinity: math.log of 0.0 in program (0, 0, 0), lane [2]"
        " (1 lanes in all); tl.store at "
    )
    x[2] = np.nan  # not the kernel's doing
    with debug.checks("nonfinite"):
        kernels.logs[(1,)](x, out, BLOCK=4)


def test_wrapped_integers():
    out = np.zeros(4, np.int32)
    with debug.checks("overflow"), pytest.raises(NumericalFault) as caught:
        kernels.wraps[(1,)](out, 70000)
    assert text(caught).startswith(
        "kernels.py:59:23: 70000 * 70000 = 4900000000 does not fit i32 and wrapped to 605032704"
        " in program (0, 0, 0)\n"
    )


def test_a_wait_without_end(monkeypatch):
    monkeypatch.setattr(memory, "PATIENCE", 100)
    with pytest.raises(DeadlockError, match=r"kernels.py:64:11: program \(0, 0, 0\) waits"):
        kernels.waits[(1,)](np.zeros(1, np.int32))


def test_checks_by_environment(monkeypatch):
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    monkeypatch.setenv("TILEWRIGHT_DEBUG_CHECKS", "races,masked")
    with pytest.raises(RaceError):
        kernels.sums[(4,)](x, out, BLOCK=16)
    monkeypatch.setenv("TILEWRIGHT_DEBUG_CHECKS", "rices")
    with pytest.raises(LaunchError, match="rices"):
        kernels.sums[(4,)](x, out, BLOCK=16)


def test_an_unknown_check(monkeypatch):
    with pytest.raises(LaunchError, match="speed"), debug.checks("speed"):
        pass
    with pytest.raises(
        LaunchError, match="unknown debug check '-rices'\nhelp: did you mean 'races'"
    ):
        check_names(("all", "-rices"))


def test_names_of_checks():
    usual = {"unwritten", "undefined", "races", "nonfinite", "overflow"}
    assert check_names(("all",)) == usual
    assert check_names(("all", "-views")) == usual
    assert check_names(("all", "-races")) == usual - {"races"}
    assert check_names(("-races",)) == usual - {"races"}
    assert check_names(("masked", "all")) == {*usual, "masked"}
    assert check_names(("races", "masked", "-races")) == {"masked"}
    assert check_names(()) == set()
    assert check_names(("-races",), frozenset(("races", "views"))) == {"views"}


@tilewright.jit
def divides(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = 1.0 / x
    tl.store(o_ptr + i, tl.where(y > 2, tl.exp(-y), y), mask=i < n)


@pytest.mark.parametrize("interpret", ["1", "ir"])
def test_what_is_not_written_may_be_infinite(interpret, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    x, out = np.array([1, 2, 4, 0, -0.0], np.float32), np.zeros(5, np.float32)
    with debug.checks("nonfinite"):
        divides[(1,)](x, out, 4, BLOCK=8)  # exp(-1/0) is 0
        assert out.tolist() == [1, 0.5, 0.25, 0, 0]
        with pytest.raises(NumericalFault, match=r"arith.divf of 1.0, -0.0 .*lane \[4\]"):
            divides[(1,)](x, out, 5, BLOCK=8)


def test_torch():
    torch = pytest.importorskip("torch")
    with pytest.raises(OutOfBoundsError, match="elements 0 … 99, 200 bytes"):
        kernels.copies[(4,)](
            torch.zeros(100, dtype=torch.bfloat16), torch.zeros(100), 100, BLOCK=32
        )


@tilewright.jit
def rows_apart(x_ptr, stride, rows, columns):
    i = tl.arange(0, 16)
    inside = (i[:, None] < rows) & (i[None, :] < columns)
    tl.load(x_ptr + i[:, None] * stride + i[None, :], mask=inside)


@pytest.mark.parametrize("interpret", ["1", "ir"])
def test_strides_are_compared(interpret, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    x = np.zeros((12, 10), np.float32)
    rows_apart[(1,)](x, 10, 12, 10)
    with pytest.raises(OutOfBoundsError) as caught:
        rows_apart[(1,)](x, 12, 12, 10)
    assert text(caught).splitlines()[-1] == (
        "help: check the mask against the array's extents and strides. Lanes are 12, 1 elements"
        " apart along the tile's dimensions; 'x_ptr' has shape 12 x 10 and strides 10, 1"
    )


def test_a_tile_outside_as_a_whole():
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(OutOfBoundsError, match="no lane is inside: check the offset"):
        kernels.copies[(5,)](x, out, 64, BLOCK=16)
