"""Rows that lie upside down: the strides of tensor maps are unsigned, so that the rows are copied in another way."""

import numpy as np
import pytest
from tests.engines import run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def product(a, b, out, stride, rows: tl.constexpr, K: tl.constexpr, UPSIDE_DOWN: tl.constexpr):
    m, n = tl.arange(0, rows), tl.arange(0, 64)
    acc = tl.zeros((rows, 64), tl.float32)
    a += tl.where(stride < 0, (rows - 1) * -stride, 0)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        if UPSIDE_DOWN:
            x = tl.load(a + (rows - 1 - m)[:, None] * K + k[None, :])
        else:
            x = tl.load(a + m[:, None] * stride + k[None, :])
        acc = tl.dot(x, tl.load(b + k[:, None] * 64 + n[None, :]), acc)
    tl.store(out + m[:, None] * 64 + n[None, :], acc)


@pytest.mark.parametrize("engine", ["cpu", "sm_90a"])
@pytest.mark.parametrize(("stride", "upside_down"), [(128, True), (-128, False), (128, False)])
def test_rows_upside_down(engine, stride, upside_down):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 128), (128, 64)))
    out = np.zeros((64, 64), np.float32)
    found = run(engine, product, (1,), a, b, out, stride, 64, 128, upside_down, stages=3)[2]
    rows = a[::-1] if upside_down or stride < 0 else a
    np.testing.assert_array_equal(found, rows.astype(np.float64) @ b)


@tw.jit
def annotated(a, stride: tl.int64):
    tl.store(a, stride)


@pytest.mark.parametrize("stride", [-128, 128])
def test_annotated_strides(stride):
    parameter = annotated.params[1]
    assert annotated.launcher.specializer.argument(parameter, stride).divisible == (stride > 0)
