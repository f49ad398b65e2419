"""Boxes of arrays of several dimensions: batches, offsets beyond 32 bits, extents known at run time."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from tests.run_on_copies import run_on_copies
from tests.tiled_products import shifted

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.errors import InterpreterError
from tilewright.frontend import build
from tilewright.interpreter.executor import run_module
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.analysis import tma_tiles
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(4, full=3)

TARGET = target_info("sm_90a")
BLOCK = 64
HALF = dtypes.pointer_type(dtypes.float16)


def built(kernel, integers, constants, undivided=()):
    """Tile IR: pointers to fp16, integers of 32 or 64 bits that are multiples of 16, constants."""
    code = KernelFunction(kernel)
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    signature = dict.fromkeys(names, HALF)
    signature |= {n: dtypes.int64 if n.endswith("b") else dtypes.int32 for n in integers}
    signature |= {n: constexpr(v) for n, v in constants.items()}
    known = [n for n in names if n not in constants and n not in undivided]
    return build(code, signature, dict.fromkeys(known, 16)).module


def lowered(*what, disabled=()):
    module = built(*what)
    run_pipeline(module, nvidia_passes(), TARGET, disabled=disabled)
    return module


def copied(module):
    """Dimensions of the boxes that are copied and stored."""
    text = str(module)
    found = {}
    for name in ("tma_load", "tma_store"):
        pattern = rf"gpu\.{name} .*? of ?\[(.*?)\]"
        found[name] = {len(dims.split(",")) for dims in re.findall(pattern, text)}
    return found


def batched(a, b, c, m, n, k, ab, am, bb, bk, cb, cn, MASK: tl.constexpr, INDEX: tl.constexpr):
    """Products of the matrices of a batch, one program each, whatever the distance between them."""
    i = tl.program_id(0)
    if INDEX == "back":
        i = tl.num_programs(0) - 1 - i
    if INDEX == "shifted":
        i = i + 1
        a -= ab
        b -= bb
        c -= cb
    i = i.to(tl.int64)
    r = tl.arange(0, 64)
    x, y = a + i * ab + r[:, None] * am + r[None, :], b + i * bb + r[:, None] * bk + r[None, :]
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, k, 64):
        if MASK:
            left = tl.load(x, mask=(r[:, None] < m) & (r[None, :] < k - start), other=0.0)
            right = tl.load(y, mask=(r[:, None] < k - start) & (r[None, :] < n), other=0.0)
        else:
            left, right = tl.load(x), tl.load(y)
        total = tl.dot(left, right, total)
        x += 64
        y += 64 * bk
    place = c + i * cb + r[:, None] * cn + r[None, :]
    tl.store(place, total.to(tl.float16), mask=(r[:, None] < m) & (r[None, :] < n))


INTEGERS = ("m", "n", "k", "ab", "am", "bb", "bk", "cb", "cn")


def case(count, m, n, k, gap=0, seed=0):
    """Arrays of a batch whose matrices are `gap` elements apart, NaN between them, and what is to come."""
    rng = np.random.default_rng(seed)

    def matrices(lines, length):
        space = np.full((count, lines * length + gap), np.nan, np.float16)
        space[:, : lines * length] = rng.standard_normal((count, lines * length))
        return space

    a, b = matrices(m, k), matrices(k, n)
    c = np.full((count, m * n + gap), -3, np.float16)
    product = a[:, : m * k].reshape(count, m, k).astype(np.float64) @ b[:, : k * n].reshape(
        count, k, n
    )
    wanted = c.astype(np.float64)
    wanted[:, : m * n] = product.reshape(count, -1)
    sizes = [m, n, k, a.shape[1], k, b.shape[1], n, c.shape[1], n]
    return [a, b, c, *sizes], wanted


def close(found, wanted):
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("index", ["plain", "back", "shifted"])
@pytest.mark.parametrize("k", [48, 64, 144])
def test_matrices_end_where_they_end(k, index):
    """A box beyond K brings zeros, not the next matrix (here: NaN), and stores none of what is beyond."""
    module = lowered(batched, INTEGERS, {"MASK": True, "INDEX": index})
    assert copied(module) == {"tma_load": {3}, "tma_store": {3}}
    arguments, wanted = case(3, 48, 32, k, gap=16)
    close(run_on_copies(module, arguments, (3, 1, 1))[2], wanted)


def test_one_matrix_for_all():
    """A batch that is one matrix has a stride of 0."""
    constants = {"MASK": True, "INDEX": "plain"}
    (a, b, c, m, n, k, ab, am, _, bk, cb, cn), _ = case(2, 48, 32, 80)
    arguments = [a, b[:1], c, m, n, k, ab, am, 0, bk, cb, cn]
    wanted = a.reshape(2, m, k).astype(np.float64) @ b[0].reshape(k, n).astype(np.float64)
    found = run_on_copies(lowered(batched, INTEGERS, constants), arguments, (2, 1, 1))[2]
    close(found.reshape(2, m, n), wanted)
    found = run_ptx(machine(batched, constants), arguments, (2, 1, 1))[2]
    close(found.reshape(2, m, n), wanted)


@pytest.mark.parametrize("mask", [True, False])
def test_matrices_that_are_far_apart(mask):
    """2^31 elements and more from the argument's start: memory that is reserved, and hardly used."""
    apart = (1 << 31) + 16
    a, b, c = (np.zeros(apart + BLOCK * BLOCK, np.float16) for _ in range(3))
    rng = np.random.default_rng(1)
    for array in (a, b):
        for start in (0, apart):
            array[start : start + BLOCK * BLOCK] = rng.standard_normal(BLOCK * BLOCK)
    module = lowered(batched, INTEGERS, {"MASK": mask, "INDEX": "plain"})
    assert copied(module)["tma_load"] == {3}
    run_module(module, [a, b, c, 64, 64, 64, *(apart, 64) * 3], (2, 1, 1))
    for start in (0, apart):
        x, y, z = (
            array[start : start + BLOCK * BLOCK].reshape(BLOCK, BLOCK) for array in (a, b, c)
        )
        close(z, x.astype(np.float64) @ y)


def machine(kernel, constants, disabled=()):
    module = built(kernel, INTEGERS, constants)
    return backend.compile(module, Options(num_warps=4, disable=disabled), TARGET)


@pytest.mark.parametrize("mask", [True, False])
def test_the_machine_agrees(mask, monkeypatch):
    """Lines are divided into parts of 2^30 elements; here of 2^9, of which there are some."""
    monkeypatch.setattr(tma_tiles, "_PART", 9)
    made = machine(batched, {"MASK": mask, "INDEX": "plain"})
    assert "cp.async.bulk.tensor.3d.shared" in made.asm["ptx"]
    size = (48, 32, 80) if mask else (64, 64, 128)
    arguments, wanted = case(2, *size, gap=16)
    close(run_ptx(made, arguments, (2, 1, 1))[2], wanted)


def below(a, b, c, first, am, K: tl.constexpr):
    """Rows from `first` on, which may be before the argument's start."""
    r = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, K, 64):
        x = tl.load(a + (first + r[:, None]) * am + start + r[None, :])
        y = tl.load(b + (start + r[:, None]) * 64 + r[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + r[:, None] * 64 + r[None, :], total.to(tl.float16))


def test_what_coordinates_do_not_reach_stops_the_program():
    what = below, ("first", "am"), {"K": 128}
    module = lowered(*what)
    a, b, c = (np.ones(s, np.float16) for s in ((128, 128), (128, 64), (64, 64)))
    close(run_on_copies(module, [a, b, c, 32, 128], (1, 1, 1))[2], np.full((64, 64), 128.0))
    with pytest.raises(InterpreterError, match="along dimension 1, which coordinates do not reach"):
        run_on_copies(module, [a, b, c, -16, 128], (1, 1, 1))
    made = backend.compile(built(*what), Options(), TARGET)
    close(run_ptx(made, [a, b, c, 32, 128], (1, 1, 1))[2], np.full((64, 64), 128.0))
    with pytest.raises(Fault, match="no tensor map is there"):
        run_ptx(made, [a, b, c, -16, 128], (1, 1, 1))


def counted(a, b, c, k, am):
    """No limits along k; the loop's count says how far it goes."""
    r = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for i in range(0, tl.cdiv(k, 64)):
        x = tl.load(a + r[:, None] * am + i * 64 + r[None, :])
        y = tl.load(b + (i * 64 + r[:, None]) * 64 + r[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + r[:, None] * 64 + r[None, :], total.to(tl.float16))


def test_counts_of_loops_say_what_coordinates_reach():
    module = lowered(counted, ("k", "am"), {})
    assert copied(module)["tma_load"] == {2}
    assert set(re.findall(r"gpu.tma_load .*?range_checked = (array<i64.*?>)", str(module))) == {
        "array<i64>"
    }
    a, b, c = (np.ones(s, np.float16) for s in ((64, 128), (128, 64), (64, 64)))
    close(run_on_copies(module, [a, b, c, 128, 128], (1, 1, 1))[2], np.full((64, 64), 128.0))


@pytest.mark.parametrize("size", [(0, 32, 64), (48, 0, 64), (48, 32, 0)])
def test_no_elements(size):
    """The host encodes extents of 1, and the kernel must not touch that one."""
    made = machine(batched, {"MASK": True, "INDEX": "plain"})
    arguments, _ = case(2, *size, gap=16)
    arguments[3:12] = [*size, *arguments[6:]]
    for at in (7, 9, 11):
        arguments[at] = max(16, arguments[at])
    found = run_ptx(made, arguments, (2, 1, 1))[2]
    wanted = np.full_like(arguments[2], -3)
    wanted[:, : size[0] * size[1]] = 0
    np.testing.assert_array_equal(found, wanted)


# ---- extents that are arguments --------------------------------------------------------------------


def described(a, b, c, m, n, k, LOOP: tl.constexpr):
    """Tensor descriptors of arrays whose sizes are arguments, in a persistent program (`LOOP`) or not."""
    across = tl.cdiv(n, 64)
    if LOOP:
        for number in tl.range(tl.program_id(0), tl.cdiv(m, 64) * across, LOOP):
            x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
            y = tl.make_tensor_descriptor(b, [k, n], [n, 1], [32, 64])
            z = tl.make_tensor_descriptor(c, [m, n], [n, 1], [64, 64])
            row, column = number // across * 64, number % across * 64
            total = tl.zeros((64, 64), tl.float32)
            for start in range(0, k, 32):
                total = tl.dot(x.load([row, start]), y.load([start, column]), total)
            z.store([row, column], total.to(tl.float16))
    else:
        number = tl.program_id(0)
        x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
        y = tl.make_tensor_descriptor(b, [k, n], [n, 1], [32, 64])
        z = tl.make_tensor_descriptor(c, [m, n], [n, 1], [64, 64])
        row, column = number // across * 64, number % across * 64
        total = tl.zeros((64, 64), tl.float32)
        for start in range(0, k, 32):
            total = tl.dot(x.load([row, start]), y.load([start, column]), total)
        z.store([row, column], total.to(tl.float16))


def epilogue_behind(a, b, c, m, n, k, LOOP: tl.constexpr):
    """A persistent program that counts the tiles that it stores on its own."""
    across = tl.cdiv(n, 64)
    x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
    y = tl.make_tensor_descriptor(b, [k, n], [n, 1], [32, 64])
    z = tl.make_tensor_descriptor(c, [m, n], [n, 1], [64, 64])
    behind = tl.program_id(0) - LOOP
    for number in tl.range(tl.program_id(0), tl.cdiv(m, 64) * across, LOOP):
        row, column = number // across * 64, number % across * 64
        total = tl.zeros((64, 64), tl.float32)
        for start in range(0, k, 32):
            total = tl.dot(x.load([row, start]), y.load([start, column]), total)
        behind += LOOP
        z.store([behind // across * 64, behind % across * 64], total.to(tl.float16))


def block_pointers(a, b, c, m, n, k, LOOP: tl.constexpr):
    across = tl.cdiv(n, 64)
    number = tl.program_id(0)
    row, column = number // across * 64, number % across * 64
    x = tl.make_block_ptr(a, (m, k), (k, 1), (row, 0), (64, 32), (1, 0))
    y = tl.make_block_ptr(b, (k, n), (n, 1), (0, column), (32, 64), (1, 0))
    total = tl.zeros((64, 64), tl.float32)
    for _ in range(0, k, 32):
        left = tl.load(x, boundary_check=(0, 1), padding_option="zero")
        right = tl.load(y, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(left, right, total)
        x = tl.advance(x, (0, 32))
        y = tl.advance(y, (32, 0))
    z = tl.make_block_ptr(c, (m, n), (n, 1), (row, column), (64, 64), (1, 0))
    tl.store(z, total.to(tl.float16), boundary_check=(0, 1))


SIZES = ("m", "n", "k")
FORMS = [(described, 0), (described, 2), (epilogue_behind, 2), (block_pointers, 0)]


@pytest.mark.parametrize("size", [(128, 64, 96), (72, 88, 40), (8, 200, 8)])
@pytest.mark.parametrize(("kernel", "loop"), FORMS)
def test_extents_known_at_run_time(kernel, loop, size):
    module = lowered(kernel, SIZES, {"LOOP": loop})
    assert copied(module) == {"tma_load": {2}, "tma_store": {2}}
    assert "gpu.async_copy" not in str(module) and "tile.store_view" not in str(module)
    m, n, k = size
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    tiles = -(-m // 64) * -(-n // 64)
    arguments = [a, b, c, m, n, k]
    close(run_on_copies(module, arguments, (2 if loop else tiles, 1, 1))[2], wanted)


@pytest.mark.parametrize(("kernel", "loop"), FORMS)
def test_the_machine_agrees_on_extents(kernel, loop):
    made = backend.compile(built(kernel, SIZES, {"LOOP": loop}), Options(num_warps=4), TARGET)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((72, 40), (40, 88)))
    c = np.full((72, 88), np.nan, np.float16)
    found = run_ptx(made, [a, b, c, 72, 88, 40], (2 if loop else 4, 1, 1))[2]
    close(found, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("size", [(0, 64, 32), (-5, 64, 32)])
def test_no_lines(size):
    """An array without elements, and one with fewer, which is the same: nothing is read or written."""
    made = backend.compile(built(described, SIZES, {"LOOP": 0}), Options(), TARGET)
    a, b, c = (np.ones(s, np.float16) for s in ((64, 32), (32, 64), (64, 64)))
    found = run_ptx(made, [a, b, c, *size], (1, 1, 1))[2]
    np.testing.assert_array_equal(found, c)


def described_batch(a, b, c, m, n, k, LOOP: tl.constexpr):
    """Descriptors of three dimensions, of which a block has one matrix; some programs are switched off."""
    count = 3
    x = tl.make_tensor_descriptor(a, [count, m, k], [m * k, k, 1], [1, 64, 32])
    y = tl.make_tensor_descriptor(b, [count, k, n], [k * n, n, 1], [1, 32, 64])
    z = tl.make_tensor_descriptor(c, [count, m, n], [m * n, n, 1], [1, 64, 64])
    i = tl.program_id(0) + LOOP
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, k, 32):
        left = x.load([i, 0, start]).reshape(64, 32)
        total = tl.dot(left, y.load([i, start, 0]).reshape(32, 64), total)
    z.store([i, 0, 0], total.to(tl.float16).reshape(1, 64, 64))


@pytest.mark.parametrize("shift", [0, 1])
def test_descriptors_of_batches(shift):
    """A block of one matrix is a box of it; matrices that are not there are zeros, and are not stored."""
    module = lowered(described_batch, SIZES, {"LOOP": shift})
    assert copied(module) == {"tma_load": {3}, "tma_store": {3}}
    (a, b, c, m, n, k, *_), wanted = case(3, 48, 32, 40)
    wanted = np.where(np.arange(3)[:, None] < shift, c.astype(np.float64), wanted)
    close(run_on_copies(module, [a, b, c, m, n, k], (3, 1, 1))[2], wanted)
    made = backend.compile(
        built(described_batch, SIZES, {"LOOP": shift}), Options(num_warps=4), TARGET
    )
    close(run_ptx(made, [a, b, c, m, n, k], (3, 1, 1))[2], wanted)


def conditional(a, b, c, m, n, k, LOOP: tl.constexpr):
    """A condition on the whole tile beside its limits."""
    r, i = tl.arange(0, 64), tl.program_id(0)
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, k, 32):
        rk = start + tl.arange(0, 32)
        yes = (start < 32) | (i == 0)
        x = tl.load(a + r[:, None] * k + rk, mask=yes & (r[:, None] < m), other=0.0)
        y = tl.load(b + rk[:, None] * n + r, mask=yes & (r < n) & (rk[:, None] < k), other=0.0)
        total = tl.dot(x, y, total)
    place = c + i * m * n + r[:, None] * n + r
    tl.store(place, total.to(tl.float16), mask=(r[:, None] < m) & (r < n) & (i != 1))


def test_conditions_on_whole_tiles():
    module = lowered(conditional, SIZES, {"LOOP": 0})
    assert copied(module)["tma_store"] == {3} and copied(module)["tma_load"] >= {2}
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((48, 64), (64, 32)))
    c = np.full((3, 48, 32), -3, np.float16)
    wanted = np.stack([a.astype(np.float64) @ b, c[1], a[:, :32].astype(np.float64) @ b[:32]])
    arguments = [a, b, c, 48, 32, 64]
    close(run_on_copies(module, arguments, (3, 1, 1))[2], wanted)
    made = backend.compile(built(conditional, SIZES, {"LOOP": 0}), Options(num_warps=4), TARGET)
    close(run_ptx(made, arguments, (3, 1, 1))[2], wanted)


# ---- chunks of 16 bytes: a box begins at one, and stores whole ones ---------------------------------


@pytest.mark.parametrize("width", [32, 27, 64])
@pytest.mark.parametrize(("first", "known"), [(16, True), (16, False), (7, False)])
def test_boxes_begin_with_a_chunk_and_store_whole_ones(first, known, width):
    """Else the hardware stops at an illegal instruction, or writes what is beside the array."""
    what = shifted.fn, ("first",), {"WIDTH": width}, () if known else ("first",)
    module = lowered(*what)
    ranks = {3} if width == 64 else {2, 3}  # a mask that is always true leaves no extent to know
    assert copied(module) == {
        "tma_load": ranks if known else set(), "tma_store": {2} if width % 8 == 0 else set()
    }  # fmt: skip
    rng = np.random.default_rng(first)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 96), (64, 64)))
    c = np.full((2, 64, 64), -3, np.float16)
    wanted = c.astype(np.float64)
    for i, k in enumerate((64, 32)):
        wanted[i, :, :width] = a[:, 2 * first :][:, :k].astype(np.float64) @ b[:k, :width]
    close(run_on_copies(module, [a, b, c, first], (2, 1, 1))[2], wanted)
    made = backend.compile(built(*what), Options(num_warps=4), TARGET)
    close(run_ptx(made, [a, b, c, first], (2, 1, 1))[2], wanted)


def rows_up_to_an_end(a, b, c, ends, an, bn, n):
    """Products over the rows of a group, which a table gives by their end and their number."""
    e = tl.program_id(0)
    end, count = tl.load(ends + e), tl.load(ends + 2 + e)
    r = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for first in range(end - count, end, 64):
        m = first + r
        rows = m.to(tl.int64)
        x = tl.load(a + rows[None, :] * an + r[:, None], (r < n)[:, None] & (m < end)[None, :], 0.0)
        y = tl.load(b + rows[:, None] * bn + r[None, :], (m < end)[:, None] & (r < n)[None, :], 0.0)
        total = tl.dot(x, y, total)
    tl.store(c + e * 4096 + r[:, None] * 64 + r[None, :], total)


def test_rows_up_to_an_end():
    """The end is no array's begin: rows before it have coordinates that are not below 0."""
    types = dict.fromkeys("abc", HALF) | {"ends": dtypes.pointer_type(dtypes.int32)}
    types |= dict.fromkeys(("an", "bn", "n"), dtypes.int32)
    module = build(KernelFunction(rows_up_to_an_end), types, dict.fromkeys(types, 16)).module
    made = backend.compile(module, Options(num_warps=4, num_stages=2), TARGET)
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-2, 3, (160, 64)).astype(np.float16) for _ in range(2))
    ends = np.array([70, 150, 70, 80], np.int32)
    found = run_ptx(made, [a, b, np.zeros((2, 64, 64), np.float16), ends, 64, 64, 48], (2, 1, 1))[2]
    wanted = np.zeros((2, 64, 64))
    for e, (begin, end) in enumerate([(0, 70), (70, 150)]):
        wanted[e, :48, :48] = a[begin:end, :48].T.astype(float) @ b[begin:end, :48].astype(float)
    close(found, wanted)
