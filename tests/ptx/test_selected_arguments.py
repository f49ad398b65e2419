"""Scalars of which a program selects one, which LLVM loads from a selected place, and bits in reverse."""

import numpy as np
import pytest
from tests.engines import ENGINES, run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def count_in_units(lengths, out, first, second, PITCH: tl.constexpr, B: tl.constexpr):
    unit = tl.where(tl.program_id(1) == 0, first, second)
    length = tl.load(lengths) * unit
    for start in range(0, length, B):
        i = start + tl.arange(0, B)
        tl.store(out + tl.program_id(1) * PITCH + i, i // unit, mask=i < length)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_scalar_selected_by_the_program(engine):
    lengths, out = np.array([40], np.int64), np.full((2, 200), -1, np.int32)
    found = run(engine, count_in_units, (1, 2), lengths, out, 2, 3, PITCH=200, B=64)[1]
    for row, unit in enumerate((2, 3)):
        expected = np.where(np.arange(200) < 40 * unit, np.arange(200) // unit, -1)
        np.testing.assert_array_equal(found[row], expected)


@tw.jit
def reverse_bits(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.math.brev(tl.load(x + i)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_bits_in_reverse(engine, kind):
    limits = np.iinfo(kind)
    x = np.random.default_rng(0).integers(limits.min, limits.max, 64, dtype=kind)
    found = run(engine, reverse_bits, (1,), x, np.zeros_like(x), B=64)[1]
    unsigned = np.dtype(kind.replace("int", "uint"))
    expected = [int(f"{int(v):0{limits.bits}b}"[::-1], 2) for v in x.view(unsigned)]
    np.testing.assert_array_equal(found.view(unsigned), np.array(expected, unsigned))
