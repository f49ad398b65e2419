"""Reductions by instructions of whole warps or on pairs of elements, and accumulators that are only reduced."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.test_ptx import TARGETS
from tests.run_on_copies import run_on_copies

import tilewright
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

TYPES = {
    np.dtype(np.int32): dtypes.int32, np.dtype(np.int8): dtypes.int8, np.dtype(np.uint16): dtypes.uint16,
    np.dtype(np.float32): dtypes.float32, np.dtype(np.int64): dtypes.int64,
    np.dtype(np.float16): dtypes.float16, np.dtype(ml_dtypes.bfloat16): dtypes.bfloat16,
}  # fmt: skip


@tilewright.jit
def both(a, b):
    return a and b


@tilewright.jit
def either(a, b):
    return a or b


@tilewright.jit
def odd(a, b):
    return a ^ b


def reduced(x, out, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    rows = tl.arange(0, R)
    v = tl.load(x + rows[:, None] * C + tl.arange(0, C)[None, :])
    if HOW == "sum":
        result = tl.sum(v, 1)
    elif HOW == "max":
        result = tl.max(v, 1)
    elif HOW == "min":
        result = tl.min(v, 1)
    elif HOW == "xor":
        result = tl.xor_sum(v, 1)
    elif HOW == "all":
        result = tl.reduce(v > 0, 1, both)
    elif HOW == "any":
        result = tl.reduce(v > 0, 1, either)
    else:
        result = tl.reduce(v > 0, 1, odd)
    tl.store(out + rows, result)


def accumulated(x, out, n, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + rows[:, None] * n + columns[None, :])
    if HOW == "all" or HOW == "any":
        held = v > 0
    else:
        held = v
    for start in range(C, n, C):
        at = start + columns[None, :]
        v = tl.load(x + rows[:, None] * n + at, mask=at < n, other=0)
        if HOW == "max":
            held = tl.maximum(held, v)
        elif HOW == "nans":
            held = tl.minimum(v, held, propagate_nan=tl.PropagateNan.ALL)
        elif HOW == "sum":
            held = held + v
        elif HOW == "all":
            held = (v > 0) & held
        else:
            held = held | (v > 0)
    if HOW == "max":
        tl.store(out + rows, tl.max(held, 1))
    elif HOW == "nans":
        tl.store(out + rows, tl.reduce(held, 1, smaller))
    elif HOW == "sum":
        tl.store(out + rows, tl.sum(held, 1))
    elif HOW == "all":
        tl.store(out + rows, tl.reduce(held, 1, both))
    else:
        tl.store(out + rows, tl.reduce(held, 1, either))


@tilewright.jit
def smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


def ran(function, x, result, constants, target, warps, n=()):
    """The machine code, once it has given what the IR does."""
    signature = {"x": dtypes.pointer_type(TYPES[x.dtype]), "out": dtypes.pointer_type(result)}
    signature |= {name: dtypes.int32 for name, _ in zip(["n"], n, strict=False)}
    signature |= {name: constexpr(value) for name, value in constants.items()}
    text = str(build(KernelFunction(function), signature, {"x": 16, "out": 16}).module)
    kind = {dtypes.int1: np.bool_, **{v: k for k, v in TYPES.items()}}[result]
    arguments = [x, np.zeros(constants["R"], kind), *n]
    expected = run_on_copies(parse_ir(text), arguments, (1, 1, 1))
    options = Options(num_warps=warps, disable=("reduce-num-warps",))
    artifact = backend.compile(parse_ir(text), options, target_info(target))
    after = run_ptx(artifact, arguments, (1,))
    np.testing.assert_array_equal(np.asarray(after[1]), np.asarray(expected[1]))
    return artifact.asm["ptx"]


def data(kind, rows, columns):
    rng = np.random.default_rng(rows + columns)
    if np.issubdtype(kind, np.floating):
        values = rng.standard_normal(rows * columns).astype(kind)
        values[rng.integers(0, values.size, 3)] = np.nan
        return values
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return rng.integers(low, high, rows * columns, dtype=kind, endpoint=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns", "warps"), [(4, 256, 2), (32, 16, 1), (8, 32, 4)])
@pytest.mark.parametrize("how", ["all", "any", "odd"])
def test_booleans_are_voted_on(how, rows, columns, warps, target):
    x = data(np.int32, rows, columns)
    x[rng_rows(rows, columns)] = 1 if how == "all" else -1
    ptx = ran(reduced, x, dtypes.int1, {"R": rows, "C": columns, "HOW": how}, target, warps)
    assert "vote.sync.ballot" in ptx and "shfl.sync.bfly" not in ptx


def rng_rows(rows, columns):
    """All elements of every other row."""
    return np.repeat(np.arange(rows) % 2 == 0, columns)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [np.int32, np.int8, np.uint16, np.int64])
@pytest.mark.parametrize("how", ["sum", "max", "min", "xor"])
def test_integers_of_a_warp_take_one_instruction(how, kind, target):
    x = data(kind, 2, 512)
    result = dtypes.int32 if how == "sum" and np.dtype(kind).itemsize < 4 else TYPES[np.dtype(kind)]
    ptx = ran(reduced, x, result, {"R": 2, "C": 512, "HOW": how}, target, 1)
    assert ("redux.sync" in ptx) == (kind is not np.int64)
    assert ("shfl.sync.bfly" in ptx) == (kind is np.int64)


@pytest.mark.parametrize(("how", "kind", "result"), [
    ("all", np.int32, dtypes.int1), ("any", np.int8, dtypes.int1), ("max", np.float32, dtypes.float32),
    ("nans", np.float32, dtypes.float32), ("sum", np.int32, dtypes.int32), ("max", np.int64, dtypes.int64),
])  # fmt: skip
@pytest.mark.parametrize(("rows", "columns"), [(4, 128), (32, 32)])
def test_accumulators_that_are_only_reduced(how, kind, result, rows, columns):
    """A thread carries a partial result per row, not all of its elements."""
    n = 4 * columns - 5
    x = data(kind, rows, n)
    if how == "all":
        x[rng_rows(rows, n)] = 1
    constants = {"R": rows, "C": columns, "HOW": how}
    ptx = ran(accumulated, x, result, constants, "sm_90a", 1, (n,))
    assert "bra" in ptx


@pytest.mark.parametrize(("how", "kind", "result"), [
    ("sum", np.float32, dtypes.float32), ("max", np.float16, dtypes.float32),
    ("xor", np.int32, dtypes.int32), ("min", np.int64, dtypes.int64),
])  # fmt: skip
@pytest.mark.parametrize(("rows", "columns", "warps", "shuffles"), [
    (16, 128, 1, 8 + 4 + 2 + 1 + 1 + 16), (32, 32, 1, 8 * 3), (8, 128, 2, 4 * 5), (16, 64, 1, 4 + 2 + 1 + 1 + 8),
    (32, 16, 1, 4 * 2),
])  # fmt: skip
def test_lanes_divide_results_of_several_rows(how, kind, result, rows, columns, warps, shuffles):
    """Each combines all parts of some rows and sends the results to the others."""
    x = data(kind, rows, columns)
    x = np.where(np.isnan(x), 2, 4 * x).round() if np.issubdtype(kind, np.floating) else x
    constants = {"R": rows, "C": columns, "HOW": how}
    ptx = ran(reduced, x.astype(kind), result, constants, "sm_90a", warps)
    if kind is np.float32:
        assert ptx.count("shfl.sync") == shuffles


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kind", "pairs"), [(ml_dtypes.bfloat16, "bf16x2"), (np.float16, "f16x2")])
@pytest.mark.parametrize("how", ["max", "min"])
def test_16_bit_floats_are_compared_in_pairs(how, kind, pairs, target):
    """Although `tl.max` extends bf16 to fp32 first; a thread has 16 elements of a row, then 2."""
    for rows, columns in ((2, 512), (32, 16)):
        x = np.random.default_rng(rows).standard_normal(rows * columns).astype(kind)
        x[::5], x[3::7], x[:columns] = np.nan, -0.0, np.inf
        constants = {"R": rows, "C": columns, "HOW": how}
        ptx = ran(reduced, x, dtypes.float32, constants, target, 1)
        assert f"{how}.{pairs}" in ptx


def place(x, out, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    rows = tl.arange(0, R)
    v = tl.load(x + rows[:, None] * C + tl.arange(0, C)[None, :])
    if HOW == "argmin":
        result = tl.argmin(v, 1)
    elif HOW == "argmax":
        result = tl.argmax(v, 1)
    elif HOW == "min":
        value, index = tl.min(v, 1, return_indices=True)
        result = value.to(tl.int32, bitcast=True) ^ index
    else:
        value, index = tl.max(v, 1, return_indices=True)
        result = value.to(tl.int32, bitcast=True) ^ index
    tl.store(out + rows, result)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("how", ["argmin", "argmax", "min", "max"])
def test_places_of_extremes_take_two_instructions(how, kind, target):
    """Several equal ones, and zeros of both signs, which are equal but keep their sign."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (8, 128)).astype(kind)
    if kind is np.float32:
        x[1], x[2] = np.inf, -np.inf
        x[3] = np.where(rng.integers(0, 2, 128), 0.0, -0.0)
        x[4], x[5, 77] = rng.standard_normal(128) * 1e-40, -1e30
    for warps in (1, 4):
        constants = {"R": 8, "C": 128, "HOW": how}
        ptx = ran(place, x.ravel(), dtypes.int32, constants, target, warps)
        assert "redux.sync" in ptx and "shfl.sync.bfly" not in ptx


@tilewright.jit
def last_of_equals(a, i, b, j):
    better = (a < b) | ((a == b) & (i > j))
    return tl.where(better, a, b), tl.where(better, i, j)


def last_place(x, out, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + rows[:, None] * C + columns[None, :])
    _, index = tl.reduce((v, tl.broadcast_to(columns[None, :], (R, C))), 1, last_of_equals)
    tl.store(out + rows, index)


def test_other_orders_of_places_take_shuffles():
    x = np.random.default_rng(0).integers(-3, 4, 8 * 128).astype(np.float32)
    ptx = ran(last_place, x, dtypes.int32, {"R": 8, "C": 128}, "sm_90a", 1)
    assert "redux.sync" not in ptx and "shfl.sync.bfly" in ptx


def place_in_column(x, out, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    rows, columns = tl.arange(0, C), tl.arange(0, R)
    v = tl.load(x + rows[:, None] * R + columns[None, :])
    if HOW == "argmax":
        result = tl.argmax(v, 0)
    else:
        value, index = tl.min(v, 0, return_indices=True)
        result = value.to(tl.float32).to(tl.int32, bitcast=True) ^ index
    tl.store(out + columns, result)


@pytest.mark.parametrize("how", ["argmax", "min"])
@pytest.mark.parametrize(("columns", "warps", "divided"), [
    (64, 8, True),  # 4 lanes hold the same 8 columns
    (32, 4, True),  # 8 lanes
    (16, 8, True),  # 16 lanes, of which 8 divide the columns
    (64, 2, False),  # two parts of each result
])  # fmt: skip
def test_lanes_with_the_same_results_divide_what_warps_have_left(how, columns, warps, divided):
    x = np.random.default_rng(columns).integers(-9, 10, 128 * columns).astype(np.float16)
    constants = {"R": columns, "C": 128, "HOW": how}
    ptx = ran(place_in_column, x, dtypes.int32, constants, "sm_90a", warps)
    assert ("shfl.sync.idx" in ptx) == divided


def largest(x, out, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, R)
    v = tl.load(x + rows[:, None] * C + tl.arange(0, C)[None, :])
    tl.store(out + rows[:, None] * K + tl.arange(0, K)[None, :], tl.topk(v, K))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "k"), [(2, 64, 8), (1, 128, 16), (4, 32, 32), (1, 64, 1)]
)
def test_largest(rows, columns, k, target):
    """Runs of k elements are sorted, and merged two and two."""
    x = np.random.default_rng(k).standard_normal((rows, columns)).astype(np.float32)
    signature = {name: dtypes.pointer_type(dtypes.float32) for name in ("x", "out")}
    signature |= {n: constexpr(v) for n, v in {"R": rows, "C": columns, "K": k}.items()}
    module = build(KernelFunction(largest), signature, {"x": 16, "out": 16}).module
    artifact = backend.compile(module, Options(num_warps=2), target_info(target))
    after = run_ptx(artifact, [x.ravel(), np.zeros(rows * k, np.float32)], (1,))
    np.testing.assert_array_equal(after[1].reshape(rows, k), -np.sort(-x, 1)[:, :k])
