"""Scans of the columns of matrices that come from memory by rows."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
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


def sums_of_columns(x, out, n, R: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr):
    rows, columns = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    value = tl.load(x + rows * C + columns, mask=rows < n, other=0.0).to(tl.float32)
    tl.store(out + rows * C + columns, tl.cumsum(value, 0, reverse=REVERSE) * 2, mask=rows < n)


@pytest.mark.parametrize(("rows", "columns", "warps", "reverse", "kind", "barriers"), [
    (64, 64, 4, False, np.float32, 1), (64, 32, 2, True, np.float16, 1), (16, 256, 4, False, np.float32, 1),
    (64, 4, 2, True, np.float32, 1), (4, 8, 1, False, np.float32, 0), (2, 512, 4, True, np.float16, 0),
])  # fmt: skip
def test_columns_are_scanned_where_they_are(rows, columns, warps, reverse, kind, barriers):
    """Loads, scan and stores have one layout: no exchange but that of the warps' totals."""
    element = dtypes.float16 if kind is np.float16 else dtypes.float32
    signature = {"x": dtypes.pointer_type(element), "out": dtypes.pointer_type(dtypes.float32)}
    signature |= {"n": dtypes.int32, "R": constexpr(rows), "C": constexpr(columns)}
    signature["REVERSE"] = constexpr(reverse)
    text = str(build(KernelFunction(sums_of_columns), signature, {"x": 16, "out": 16}).module)
    data = np.random.default_rng(rows).integers(-8, 8, rows * columns).astype(kind)
    arguments = [data, np.zeros(rows * columns, np.float32), rows - 1]
    expected = run_on_copies(parse_ir(text), arguments, (1, 1, 1))
    options = Options(num_warps=warps, disable=("reduce-num-warps",))
    artifact = backend.compile(parse_ir(text), options, target_info("sm_90a"))
    np.testing.assert_array_equal(run_ptx(artifact, arguments, (1,))[1], expected[1])
    assert artifact.asm["ptx"].count("bar.sync") == barriers
    for without in re.finditer(r"bar\.sync[^;]*;", artifact.asm["ptx"]):
        ptx = artifact.asm["ptx"]
        spoiled = type(artifact)(
            artifact.entry,
            b"",
            artifact.plan,
            {"ptx": ptx[: without.start()] + ptx[without.end() :]},
        )
        with pytest.raises(Exception, match=r"without a barrier|nothing was written"):
            run_ptx(spoiled, arguments, (1,))


def sums_of_a_product(a, b, factors, out):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    product = tl.dot(tl.load(a + at), tl.load(b + at)) * tl.load(factors + at)
    tl.store(out + at, tl.cumsum(product, 1))


@pytest.mark.parametrize(("target", "warps"), [("sm_80", 1), ("sm_90a", 4)])
def test_a_scan_has_the_layout_that_its_load_suggested(target, warps):
    """Factors are converted to the fragments of the product: the scan's operand is not in the layout of their load."""
    kinds = dict.fromkeys("ab", np.float16) | dict.fromkeys(("factors", "out"), np.float32)
    elements = {np.float16: dtypes.float16, np.float32: dtypes.float32}
    signature = {name: dtypes.pointer_type(elements[kind]) for name, kind in kinds.items()}
    aligned = dict.fromkeys(kinds, 16)
    text = str(build(KernelFunction(sums_of_a_product), signature, aligned).module)
    random = np.random.default_rng(0)
    arguments = [random.integers(-2, 3, 32 * 32).astype(kind) for kind in kinds.values()]
    expected = run_on_copies(parse_ir(text), arguments, (1, 1, 1))[-1]
    artifact = backend.compile(parse_ir(text), Options(num_warps=warps), target_info(target))
    np.testing.assert_array_equal(run_ptx(artifact, arguments, (1,))[-1], expected)


def sums_of_doubled_columns(x, out, stride, R: tl.constexpr):
    at = tl.arange(0, R) * stride
    twice = tl.inline_asm_elementwise(
        "add.f32 $0, $1, $1;", "=f,f", [tl.load(x + at)], tl.float32, is_pure=True, pack=1
    )
    tl.store(out + at, tl.cumsum(twice, 0))


def test_inline_ptx_between_load_and_scan():
    """Elements that are no neighbors in memory are loaded in the layout of the scan: nothing is exchanged."""
    pointer = dtypes.pointer_type(dtypes.float32)
    signature = {"x": pointer, "out": pointer, "stride": dtypes.int32, "R": constexpr(64)}
    text = str(build(KernelFunction(sums_of_doubled_columns), signature, {"x": 16}).module)
    data = np.random.default_rng(0).integers(-8, 8, 64 * 3).astype(np.float32)
    arguments = [data, np.zeros(64 * 3, np.float32), 3]
    artifact = backend.compile(parse_ir(text), Options(num_warps=1), target_info("sm_90a"))
    found = run_ptx(artifact, arguments, (1,))[1]
    np.testing.assert_array_equal(found[::3], 2 * data[::3].cumsum())
    assert "st.shared" not in artifact.asm["ptx"]


@tilewright.jit
def sums_of_one_column(x, out, stride, n, R: tl.constexpr):
    at = tl.arange(0, R)
    value = tl.load(x + at * stride, mask=at < n, other=0.0)
    tl.store(out + at * stride, tl.cumsum(value, 0), mask=at < n)


def test_elements_of_a_column_are_loaded_as_they_are_scanned():
    """They are no neighbors in memory: the layout of the scan is as good as any, and nothing is exchanged but totals."""
    types = {"x": "*fp32:16", "out": "*fp32:16", "stride": "i32:16", "n": "i32"}
    made = sums_of_one_column.compile(types, {"R": 1024}, target="sm_90a", num_warps=4)
    x = np.random.default_rng(0).integers(-8, 8, (1000, 16)).astype(np.float32)
    found = run_ptx(made.artifact, [x, np.zeros_like(x), 16, 1000], (1, 1, 1))[1]
    np.testing.assert_array_equal(found[:, 0], x[:, 0].cumsum())
    assert made.asm["ptx"].count("bar.sync") == 1


@tilewright.jit
def later_maximum(a, i, b, j):
    take = (b > a) | ((a == b) & (j > i))
    return tl.where(take, b, a), tl.where(take, j, i)


def scans_of_rows(x, sums, most, places, n, start, R: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    offsets, mask = start + rows * C + columns, columns < n
    value = tl.load(x + offsets, mask=mask, other=0.0)
    tl.store(sums + offsets, tl.cumsum(value, 1, reverse=REVERSE), mask=mask)
    numbers = tl.broadcast_to(columns, value.shape)
    found, place = tl.associative_scan((value, numbers), 1, later_maximum, reverse=REVERSE)
    tl.store(most + offsets, found, mask=mask)
    tl.store(places + offsets, place, mask=mask)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("rows", "columns", "warps", "aligned"), [
    (1, 2048, 4, True), (1, 512, 1, True), (2, 1024, 2, True), (8, 64, 4, True), (1, 512, 4, False),
    (4, 256, 2, False), (1, 8192, 2, False),
])  # fmt: skip
def test_rows_are_scanned_where_loads_leave_them(rows, columns, warps, reverse, aligned):
    """Threads hold the runs of a load, several of them."""
    names = ("x", "sums", "most", "places")
    signature = {a: dtypes.pointer_type(dtypes.float32) for a in names}
    signature |= {"places": dtypes.pointer_type(dtypes.int32), "n": dtypes.int32}
    signature |= {"start": dtypes.int32, "R": constexpr(rows), "C": constexpr(columns)}
    signature["REVERSE"] = constexpr(reverse)
    divisible = {**dict.fromkeys(names, 16), **({"start": 16} if aligned else {})}
    text = str(build(KernelFunction(scans_of_rows), signature, divisible).module)
    data = np.random.default_rng(rows).integers(-8, 8, rows * columns + 16).astype(np.float32)
    arguments = [data, *(np.zeros_like(data) for _ in range(2)), np.zeros(data.size, np.int32)]
    arguments += [columns - 3, 16 if aligned else 5]
    expected = run_on_copies(parse_ir(text), arguments, (1, 1, 1))
    options = Options(num_warps=warps, disable=("reduce-num-warps",))
    artifact = backend.compile(parse_ir(text), options, target_info("sm_90a"))
    found = run_ptx(artifact, arguments, (1,))
    for one, other in zip(found[1:4], expected[1:4], strict=True):
        np.testing.assert_array_equal(one, other)
    vectors = re.findall(r"ld\.global\.(?:v(\d)\.)?b32", artifact.asm["ptx"])
    assert max(int(v or 1) for v in vectors) == (4 if aligned else 1)


@tilewright.jit
def sums_of_a_row(x, out, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0, reverse=REVERSE))


@pytest.mark.parametrize(("n", "warps", "reverse", "additions"), [
    # two runs of 4 in 4 warps: in a run 3, across lanes 5, prefixes with each other 1, with elements 4; totals of 8
    (1024, 4, False, 2 * (3 + 5 + 1 + 4) + 6), (1024, 4, True, 2 * (3 + 5 + 1 + 4) + 6),
    # one warp: the second run takes the first one's total, combined with its lanes' prefix
    (256, 1, False, 2 * (3 + 5) + 3 + 1 + 4),
])  # fmt: skip
def test_prefixes_are_combined_before_elements(n, warps, reverse, additions):
    constants = {"N": n, "REVERSE": reverse}
    made = sums_of_a_row.compile(
        {"x": "*fp32:16", "out": "*fp32:16"}, constants, target="sm_90a", num_warps=warps
    )
    data = np.random.default_rng(n).integers(-8, 8, n).astype(np.float32)
    _, out = run_ptx(made, [data, np.zeros(n, np.float32)], (1,))
    np.testing.assert_array_equal(out, np.cumsum(data[::-1])[::-1] if reverse else np.cumsum(data))
    assert len(re.findall(r"add(?:\.rn)?\.f32", made.asm["ptx"])) == additions
