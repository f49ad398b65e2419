"""Candidates for products under max-autotune. What templates compute: `tuned…` in workloads.py."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.integrations.inductor import matmul


@pytest.mark.parametrize(
    ("extents", "threads", "tiles"),
    [
        ((1024, 1024, 1024), 2, [(128, 256, 256), (128, 128, 256), (128, 256, 64), (128, 128, 64)]),
        ((1, 4096, 100), 2, [(16, 256, 128), (16, 128, 128), (16, 256, 64), (16, 128, 64)]),
        ((100, 20, 7), 1, [(128, 32, 16), (64, 32, 16)]),
        ((128, 512, 512), 4, [(128, 256, 256), (128, 128, 256), (128, 256, 64), (128, 128, 64), (64, 64, 256)]),
    ],
)  # fmt: skip
def test_tiles(extents, threads, tiles):
    assert matmul.tiles(*extents, threads) == tiles


def test_generated_matmul_as_a_candidate():
    """The out variant that Inductor measures and calls."""
    a, b = (
        np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((20, (4, 5)), (15, (5, 3)))
    )
    out = np.empty((4, 3), np.float32)
    matmul.tilewright_matmul(a, b, out=out)
    np.testing.assert_array_equal(out, a @ b)
