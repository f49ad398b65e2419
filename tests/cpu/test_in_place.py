"""Kernels that read and write one array, natively, against the interpreter; and one array passed twice."""

import numpy as np
import pytest
from tests.in_place_kernels import KERNELS, B, arguments

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.sampled(4, full=2)


def interpreted(kernel, values, monkeypatch, **constants):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "ir")
    kernel[(1,)](*values, **constants)
    monkeypatch.delenv("TILEWRIGHT_INTERPRET")


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_order_of_one_array(function, monkeypatch):
    kernel = tw.jit(function)
    expected, found = arguments(), arguments()
    interpreted(kernel, expected.values(), monkeypatch, B=B)
    kernel[(1,)](*found.values(), B=B)
    for name in "xy":
        np.testing.assert_array_equal(expected[name], found[name])


@pytest.mark.parametrize("shift", [0, 1, -5, 16])
@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_two_arguments_of_one_array(function, shift, monkeypatch):
    """The second a view of the first, shifted."""
    kernel = tw.jit(function)
    expected, found = arguments(), arguments()
    for run in (expected, found):
        run["y"] = run["x"][128 + shift : 128 + shift + B]
    interpreted(kernel, expected.values(), monkeypatch, B=B)
    kernel[(1,)](*found.values(), B=B)
    np.testing.assert_array_equal(expected["x"], found["x"])


@tw.jit
def add_one_twice(x, rows, columns, m, R: tl.constexpr, C: tl.constexpr):
    at = x + tl.arange(0, R)[:, None] * rows + tl.arange(0, C)[None, :] * columns
    live = tl.arange(0, R)[:, None] < m
    v = tl.load(at, mask=live)
    tl.store(at, v + 1, mask=live)
    tl.store(at, v + 2, mask=live & (v > 100))


@pytest.mark.parametrize(
    ("rows", "columns"), [(64, 1), (0, 1), (1, 1), (1, 16), (3, 7), (0, 0), (-64, 1)]
)
def test_lanes_that_share_an_address(rows, columns):
    """Strides are known at run time alone: every lane reads before any writes."""
    x = np.arange(2048, dtype=np.int32) % 190
    expected = x.copy()
    i = (np.arange(16)[:13, None] * rows + np.arange(64) * columns + 1000).ravel()
    expected[i] = x[i] + 1 + (x[i] > 100)
    add_one_twice[(1,)](x[1000:], rows, columns, 13, R=16, C=64)
    np.testing.assert_array_equal(expected, x)
