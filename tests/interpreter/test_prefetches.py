"""Prefetches are of what is in an array."""

import numpy as np
import pytest

from tilewright.errors import OutOfBoundsError
from tilewright.interpreter.executor import run_module
from tilewright.ir.text import parse_ir

KERNEL = """
func.func @k(%x: !tile.ptr<f32>, %count: i64, %pred: i1) {
  gpu.prefetch %x, %count of 8 : i64 if %pred : !tile.ptr<f32>
  func.return
}
"""


@pytest.mark.parametrize(("count", "pred"), [(6, True), (0, True), (-3, True), (7, False)])
def test_nothing_is_changed(count, pred):
    x = np.arange(6, dtype=np.float32)
    run_module(parse_ir(KERNEL), [x, count, pred], (1,))
    np.testing.assert_array_equal(x, np.arange(6))


@pytest.mark.parametrize(("extent", "count"), [(6, 7), (16, 9)])
def test_elements_are_in_the_array_and_the_extent(extent, count):
    x = np.zeros(extent, np.float32)
    with pytest.raises(OutOfBoundsError, match=f"gpu.prefetch fetches .* {count} elements"):
        run_module(parse_ir(KERNEL), [x, count, True], (1,))
