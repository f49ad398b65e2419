"""Conversions to 8-bit floats: in compiled code and in both interpreters."""

import ml_dtypes
import numpy as np
import pytest
from tests.rounding import rounded

import tilewright as tw
import tilewright.language as tl


@tw.jit
def narrowed(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    kind = out_ptr.dtype.element_ty
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(kind))
    tl.store(out_ptr + N + at, tl.full([N], 1e6, kind))


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("interpret", ["", "1", "ir"])
def test_saturate(kind: type, source: type, interpret: str, monkeypatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    x = np.array([1e9, -1e9, 464, 465, 61440, -57345, 0.3, 3], np.float64)
    if source != np.int32:
        x = np.concatenate([x, [np.inf, -np.inf, np.nan, -0.0, 448, 1e-9, 2.5, -7]])
    with np.errstate(all="ignore"):
        x = np.resize(x, 16).astype(source)
    out = np.zeros(32, kind)
    narrowed[(1,)](x, out, N=16)
    np.testing.assert_array_equal(out[:16].astype(np.float32), rounded(x, kind).astype(np.float32))
    assert (out[16:] == ml_dtypes.finfo(kind).max).all()
