"""`assert_close` over NumPy, ml_dtypes and torch values."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.testing import assert_close


def test_equal_arrays_and_scalars():
    assert_close(np.ones(3), np.ones(3))
    assert_close(1.0, 1.005)
    assert_close(np.zeros((0, 3)), np.zeros((0, 3)))


def test_report_names_the_worst_element():
    x, y = np.zeros((2, 3)), np.zeros((2, 3))
    x[1, 2], x[0, 1] = 5, 1
    with pytest.raises(AssertionError) as caught:
        assert_close(x, y, err_msg="softmax")
    text = str(caught.value)
    assert text.startswith("softmax\n2 of 6 elements differ")
    assert text.index("[1, 2]: got 5.0, expected 0.0") < text.index("[0, 1]")


def test_nan_and_infinities():
    x = np.array([np.nan, np.inf, -np.inf])
    assert_close(x, x.copy())
    with pytest.raises(AssertionError):
        assert_close(np.array([np.nan]), np.array([0.0]))
    with pytest.raises(AssertionError):
        assert_close(np.array([np.inf]), np.array([-np.inf]), rtol=1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_small_floats(dtype):
    x = np.arange(8).astype(getattr(ml_dtypes, dtype, dtype))
    assert_close(x, np.arange(8.0), atol=0, rtol=0)
    with pytest.raises(AssertionError):
        assert_close(x, np.arange(8.0) + 1)


def test_integers_are_exact_and_do_not_wrap():
    assert_close(np.array([2**62 + 1]), np.array([2**62 + 1]))
    with pytest.raises(AssertionError):
        assert_close(np.array([2**62 + 1]), np.array([2**62]))
    with pytest.raises(AssertionError):
        assert_close(np.array([255], np.uint8), np.array([0], np.uint8), atol=2)


def test_relative_tolerance_and_shapes():
    assert_close(np.array([100.0]), np.array([101.0]), atol=0, rtol=0.01)
    with pytest.raises(AssertionError, match=r"shapes differ: \(2,\) and \(3,\)"):
        assert_close(np.zeros(2), np.zeros(3))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    assert_close(x, np.ones(4))
    with pytest.raises(AssertionError):
        assert_close(x, x.detach().float() + 1)
