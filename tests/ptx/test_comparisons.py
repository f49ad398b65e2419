"""Comparisons of positions with a bound that is a multiple of what a thread holds in a row."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.scalar import OPERATIONS
from tests.ptx.values import KINDS, bits_of, seen
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction


def selected(x, out, n, B: tl.constexpr, WHICH: tl.constexpr):
    columns = tl.arange(0, B)
    value, moved = tl.load(x + columns), columns + (tl.program_id(0) + 1) * 16
    if WHICH == 0:
        value = tl.where(columns < n, value, 0.0)
    elif WHICH == 1:
        value = tl.where(n <= moved, value, 0.0)
    elif WHICH == 2:
        value = tl.where(columns <= n, value, 0.0)
    else:
        value = tl.where(columns + 1 < n, value, 0.0)
    tl.store(out + columns, value)


@pytest.mark.parametrize(("which", "divisible", "comparisons"), [
    (0, True, 4), (1, True, 4), (0, False, 16), (2, True, 16), (3, True, 16),
])  # fmt: skip
def test_neighbours_are_compared_once(which, divisible, comparisons):
    """Where all or none of the four of an access are below the bound: not with another bound or start."""
    kind = dtypes.pointer_type(dtypes.float32)
    signature = {"x": kind, "out": kind, "n": dtypes.int32}
    signature |= {"B": constexpr(512), "WHICH": constexpr(which)}
    divisors = {"x": 16, "out": 16, **({"n": 16} if divisible else {})}
    text = str(build(KernelFunction(selected), signature, divisors).module)
    n = 336 if divisible else 333
    arguments = [np.arange(1, 513, dtype=np.float32), np.zeros(512, np.float32), n]
    expected = run_on_copies(parse_ir(text), arguments, (1, 1, 1))
    artifact = backend.compile(parse_ir(text), Options(num_warps=1), target_info("sm_90a"))
    np.testing.assert_array_equal(run_ptx(artifact, arguments, (1,))[1], expected[1])
    assert artifact.asm["ptx"].count("setp") == comparisons


def in_rows(x, out, n, start, B: tl.constexpr, STEP: tl.constexpr):
    """Positions of two dimensions, as kernels write them that name the elements of a vector."""
    rows, lanes = tl.arange(0, B)[:, None], tl.arange(0, 8)[None, :]
    places = (tl.program_id(0) + start) * STEP + rows * STEP + lanes
    tl.store(out + places, tl.load(x + places, mask=places < n, other=-1.0))


@pytest.mark.parametrize(
    ("divisible", "step", "loads"), [(True, 8, 4), (False, 8, 36), (True, 12, 0)]
)
def test_masks_of_two_dimensions_take_vectors_whole(divisible, step, loads):
    """Where each vector is below the bound or none of it: no load of single elements remains."""
    kind = dtypes.pointer_type(dtypes.float16)
    signature = {"x": kind, "out": kind, "n": dtypes.int32, "start": dtypes.int32}
    signature |= {"B": constexpr(128), "STEP": constexpr(step)}
    divisors = {"x": 16, "out": 16, **({"n": 16} if divisible else {})}
    text = str(build(KernelFunction(in_rows), signature, divisors).module)
    n = 736 if divisible else 733
    arguments = [np.arange(1, 2049, dtype=np.float16), np.zeros(2048, np.float16), n, 2]
    expected = run_on_copies(parse_ir(text), arguments, (1, 1, 1))
    artifact = backend.compile(parse_ir(text), Options(num_warps=1), target_info("sm_90a"))
    np.testing.assert_array_equal(run_ptx(artifact, arguments, (1,))[1], expected[1])
    if loads:
        assert artifact.asm["ptx"].count("ld.global") == loads


def chosen(x, out, which, start, B: tl.constexpr):
    columns = tl.arange(0, B)
    wanted = tl.load(which + tl.program_id(0))
    places = start + columns.to(tl.int64)
    value = tl.where(places == wanted, -1.0, tl.load(x + columns))
    value = tl.where(wanted != places, value, value - 1.0)
    tl.store(out + tl.program_id(0) * B + columns, value)


@pytest.mark.parametrize("start", [0, 768, -64, 1 << 40])
def test_indices_are_compared_in_32_bits_with_a_label_of_64(start):
    """Also with one that has the low half of an index, and no other half."""
    kind = dtypes.pointer_type(dtypes.float32)
    signature = {"x": kind, "out": kind, "which": dtypes.pointer_type(dtypes.int64)}
    signature["start"] = dtypes.int64 if start else constexpr(0)
    text = str(build(KernelFunction(chosen), signature | {"B": constexpr(256)}, {}).module)
    labels = np.array([5, -1, 255, 256, 5 + (1 << 32), -(1 << 32) + 5], np.int64) + start
    arguments = [np.arange(256, dtype=np.float32), np.zeros((6, 256), np.float32), labels]
    arguments += [start] if start else []
    expected = run_on_copies(parse_ir(text), arguments, (6, 1, 1))
    artifact = backend.compile(parse_ir(text), Options(num_warps=1), target_info("sm_90a"))
    found = run_ptx(artifact, arguments, (6,))[1]
    np.testing.assert_array_equal(found, expected[1])
    assert np.count_nonzero(found == -2.0) == 2
    equalities = re.findall(r"setp\.(?:eq|ne)\.[bsu]64", artifact.asm["ptx"])
    assert len(equalities) <= 2  # not of each register


def below(x, out, n, B: tl.constexpr):
    columns = tl.arange(0, B)
    tl.store(out + columns, tl.load(x + columns, mask=columns < n, other=-1.0), mask=columns < n)


@pytest.mark.parametrize("divisible", [True, False])
def test_limits_of_64_bits_are_compared_in_32(divisible):
    """Whatever their sign and size. Of a vector that a limit cuts, all elements but the last are accessed one by one."""
    kind = dtypes.pointer_type(dtypes.float32)
    signature = {"x": kind, "out": kind, "n": dtypes.int64, "B": constexpr(512)}
    divisors = {"x": 16, "out": 16, **({"n": 4} if divisible else {})}
    module = build(KernelFunction(below), signature, divisors).module
    artifact = backend.compile(module, Options(num_warps=1), target_info("sm_90a"))
    ptx = artifact.asm["ptx"]
    singles = re.findall(r"@%p\d+ (?:ld|st)\.global\.b32", ptx)
    assert len(singles) == (0 if divisible else 2 * 4 * 3)
    assert len(re.findall(r"setp\.\w+\.[bsu]64", ptx)) <= 2  # clamp the limit
    x, left = np.arange(1, 513, dtype=np.float32), np.full(512, 7, np.float32)
    for n in (-4, 0, 4, 332, 508, 512, 516, 2**32, 2**32 + 4, -(2**32) + 8, 2**62):
        n += 0 if divisible else 1
        found = run_ptx(artifact, [x, left.copy(), n], (1,))[1]
        np.testing.assert_array_equal(found, np.where(np.arange(512) < n, x, left))


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_zeros_are_ordered_by_their_signs(name, kind):
    """So that the threads of a butterfly reduction hold the same bits."""
    zeros = bits_of(np.array([0.0, -0.0, 0.0, -0.0], KINDS[kind]))
    found = seen(OPERATIONS[name]([kind], zeros, zeros[[1, 0, 2, 3]]), kind)
    less = name == "min"
    np.testing.assert_array_equal(np.signbit(found), [less, less, False, True])
