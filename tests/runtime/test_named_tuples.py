"""Named tuples as arguments: kernels use their names."""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


class Part(NamedTuple):
    data: Any
    count: Any
    scale: float = 1.0


class Turned(NamedTuple):
    count: Any
    data: Any
    scale: float = 1.0


@tw.jit
def scale_part(part, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < part.count
    _, _, factor = part
    tl.store(out_ptr + offsets, tl.load(part.data + offsets, mask=mask) * factor, mask=mask)


@tw.jit
def scale_turned(part, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < part.count
    tl.store(out_ptr + offsets, tl.load(part.data + offsets, mask=mask) * part.scale, mask=mask)


@pytest.mark.parametrize("interpret", ["0", "1", "ir"])
def test_named_tuples_keep_their_names(interpret, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    for kernel, part in (
        (scale_part, Part(x, 20, 3.0)),
        (scale_turned, Part(x, 20, 3.0)),
        (scale_turned, Turned(20, x, 3.0)),
    ):
        for _ in range(2):
            out[:] = 0
            kernel[(1,)](part, out, BLOCK=32)
            np.testing.assert_array_equal(out, np.where(np.arange(32) < 20, 3 * x, 0))


def test_names_of_tuples_are_part_of_the_key():
    swapped = namedtuple("Part", ("count", "data"))  # noqa: PYI024
    usual = namedtuple("Part", ("data", "count"))  # noqa: PYI024

    @tw.jit
    def copy_count(pair, out_ptr):
        tl.store(out_ptr, pair.count)

    out = np.zeros(1, np.int32)
    for kind, wanted in ((usual, 7), (swapped, 5), (usual, 7)):
        copy_count[(1,)](kind(5, 7), out)
        assert out[0] == wanted
