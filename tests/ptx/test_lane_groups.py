"""Gathers through quotients and remainders of a flat index: vector accesses, one division per group, right results.

Executed as PTX text, at sizes whose tails cut vectors and groups.
"""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def gated(x_ptr, y_ptr, out_ptr, n, width, B: tl.constexpr):
    """Rows of 2 * width: the first half times the second; plus one value per row."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // width, i % width
    at = row * (2 * width) + column
    mask = i < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    y = tl.load(x_ptr + at + width, mask=mask, other=0.0)
    z = tl.load(y_ptr + row, mask=mask, other=0.0)
    tl.store(out_ptr + i, x * y + z, mask=mask)


@tw.jit
def strided(a_ptr, out_ptr, n, s1, s0, t1, B: tl.constexpr):
    """flag_gems' way: a flat 64-bit index taken apart by sizes, put together with strides."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    flat = i.to(tl.int64)
    i1 = flat % s1
    i0 = (flat // s1) % s0
    a = tl.load(a_ptr + i0 * t1 + i1, mask=i < n, other=0)
    tl.store(out_ptr + i0 * s1 + i1, a * 2, mask=i < n)


@tw.jit
def constants(x_ptr, y_ptr, out_ptr, n, C: tl.constexpr, B: tl.constexpr):
    """Inductor's way: constant divisors."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    x = tl.load(x_ptr + i, mask)
    y = tl.load(y_ptr + i // C, mask)
    z = tl.load(y_ptr + i % C, mask)
    tl.store(out_ptr + i, x * y + z, mask)


def check(kernel, types, constant, arrays, scalars, expected, grid, count):
    """Compile for a GPU, run, compare; return the PTX."""
    made = kernel.compile(types, constant, target="sm_90a", num_warps=count)
    ends = run_ptx(made.artifact, [*arrays, *scalars], (grid, 1, 1))
    np.testing.assert_array_equal(ends[len(arrays) - 1], expected)
    return made.asm["ptx"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("warps", [1, 4])
def test_quotients_of_a_flat_index(known, warps):
    width, rows, block = 48, 21, 512
    n = width * rows
    random = np.random.default_rng(0)
    x = random.integers(-8, 8, (rows, 2 * width)).astype(np.float32)
    y = random.integers(-8, 8, rows).astype(np.float32)
    expected = x[:, :width] * x[:, width:] + y[:, None]
    suffix = ":16+" if known else "+"
    types = {
        "x_ptr": "*fp32:16",
        "y_ptr": "*fp32:16",
        "out_ptr": "*fp32:16",
        "n": f"i32{suffix}",
        "width": f"i32{suffix}",
    }
    text = check(
        gated,
        types,
        {"B": block},
        [x, y, np.zeros((rows, width), np.float32)],
        [n, width],
        expected,
        2,
        warps,
    )
    assert ("ld.global.v4" in text) is known
    assert "bar.sync" not in text


@pytest.mark.parametrize("known", [True, False])
def test_flat_index_taken_apart(known):
    s0, s1, t1 = 10, 32, 64
    random = np.random.default_rng(0)
    a = random.integers(-99, 99, (s0, t1)).astype(np.int32)
    out = np.zeros((s0, s1), np.int32)
    suffix = ":16+" if known else "+"
    types = {
        "a_ptr": "*i32:16",
        "out_ptr": "*i32:16",
        "n": f"i32{suffix}",
        "s1": f"i32{suffix}",
        "s0": "i32+",
        "t1": f"i32{suffix}",
    }
    text = check(strided, types, {"B": 256}, [a, out], [s0 * s1, s1, s0, t1], 2 * a[:, :s1], 2, 2)
    assert ("ld.global.v4" in text) is known
    assert ("st.global.v4" in text) is known


@pytest.mark.parametrize("size", [4, 6, 8, 1])
@pytest.mark.parametrize("n", [1000, 1024, 1023])
def test_constant_divisors(size, n):
    random = np.random.default_rng(0)
    x = random.integers(-8, 8, 1024).astype(np.float32)
    y = random.integers(-8, 8, 1024).astype(np.float32)
    i = np.arange(1024)
    expected = np.where(i < n, x * y[i // size] + y[i % size], 0).astype(np.float32)
    types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32+"}
    text = check(
        constants,
        types,
        {"B": 512, "C": size},
        [x, y, np.zeros(1024, np.float32)],
        [n],
        expected,
        2,
        4,
    )
    assert "bar.sync" not in text


@tw.jit
def embedding_backward(index_ptr, grad_ptr, out_ptr, C: tl.constexpr, B: tl.constexpr):
    """Inductor's way: rows of gradients added to rows that an index chooses."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row = tl.load(index_ptr + i // C)
    row = tl.where(row < 0, row + 8, row)
    tl.atomic_add(out_ptr + (i % C + C * row), tl.load(grad_ptr + i), sem="relaxed")


@pytest.mark.parametrize("width", [64, 62])
def test_rows_added_through_an_index(width):
    random = np.random.default_rng(0)
    index = random.integers(-8, 8, 16)
    grad = random.integers(-8, 8, (16, width)).astype(np.float32)
    expected = np.zeros((8, width), np.float32)
    np.add.at(expected, index, grad)
    types = {"index_ptr": "*i64:16", "grad_ptr": "*fp32:16", "out_ptr": "*fp32:16"}
    block = 128 if width == 64 else 32
    out = np.zeros((8, width), np.float32)
    text = check(
        embedding_backward,
        types,
        {"C": width, "B": block},
        [index, grad, out],
        [],
        expected,
        16 * width // block,
        1,
    )
    assert (
        "red.relaxed.gpu.global.add.v" in text or "red.global.add.v" in text or ".v4.f32" in text
    ) is (width == 64)


@tw.jit
def by_hand(x_ptr, out_ptr, n, a, b, R: tl.constexpr, B: tl.constexpr):
    """Remainders as differences, like flag_gems' pixel_unshuffle."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    plane = i // (a * b)
    rest = i - plane * (a * b)
    row = rest // b
    column = rest - row * b
    at = plane * (a * b) + (a - 1 - row) * b + column
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=i < n), mask=i < n)


def test_remainders_by_hand():
    x = np.arange(3 * 5 * 32, dtype=np.float32).reshape(3, 5, 32)
    types = {
        "x_ptr": "*fp32:16",
        "out_ptr": "*fp32:16",
        "n": "i32:16+",
        "a": "i32+",
        "b": "i32:16+",
    }
    text = check(
        by_hand, types, {"R": 2, "B": 256}, [x, np.zeros_like(x)], [x.size, 5, 32], x[:, ::-1], 2, 2
    )
    assert "ld.global.v4" in text


@tw.jit
def counted(x_ptr, mean_ptr, count_ptr, m, n, R: tl.constexpr, C: tl.constexpr):
    """flag_gems' batch norm in small: means of the places of a tile, and how many numbers each has seen."""
    mean, count = tl.zeros((R, C), tl.float32), tl.zeros((R, C), tl.int32)
    for i in range(0, tl.cdiv(m, R)):
        for j in range(0, tl.cdiv(n, C)):
            rows, columns = i * R + tl.arange(0, R), j * C + tl.arange(0, C)
            mask = (rows < m)[:, None] & (columns < n)[None, :]
            x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask)
            mean = tl.where(mask, mean + (x - mean) / (j + 1), mean)
            count += mask.to(tl.int32)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(mean_ptr + at, mean)
    tl.store(count_ptr + at, count)


@pytest.mark.parametrize("m", [4, 7])
@pytest.mark.parametrize("n", [256, 272, 16])
def test_counts_are_carried_once_for_a_vector(m, n):
    """A loop carries one count for 4 neighbours; full tiles have no comparison of columns."""
    types = dict.fromkeys(("x_ptr", "mean_ptr"), "*fp32:16") | {"count_ptr": "*i32:16"}
    types |= {"m": "i32+", "n": "i32:16+"}
    made = counted.compile(types, {"R": 4, "C": 128}, target="sm_90a", num_warps=1)
    counts = [line for line in made.asm["gpu"].splitlines() if "%count" in line and "addi" in line]
    assert any("gpu.equal_registers = array<i64: 1, 4>" in line for line in counts)
    x = np.random.default_rng(n).normal(size=(m, n)).astype(np.float32)
    empty = np.zeros((4, 128), np.float32), np.zeros((4, 128), np.int32)
    found = run_ptx(made.artifact, [x, *empty, m, n], (1, 1, 1))
    mean, count = (np.zeros((4, 128)) for _ in range(2))
    for i in range(0, m, 4):
        for j in range(0, n, 128):
            part = x[i : i + 4, j : j + 128]
            here = np.s_[: part.shape[0], : part.shape[1]]
            mean[here] += (part - mean[here]) / (j // 128 + 1)
            count[here] += 1
    np.testing.assert_array_equal(found[2], count)
    np.testing.assert_allclose(found[1], mean, atol=1e-5)


@tw.jit
def wrapped(x_ptr, out_ptr, start_ptr, n, B: tl.constexpr, RUN: tl.constexpr, STEP: tl.constexpr):
    """Columns that wrap around at n, from a start whose sign is not known: `tl.dot` kernels of whole tiles."""
    i = tl.arange(0, B)
    at = (tl.load(start_ptr + tl.program_id(0)) * B + i) % n
    if RUN > 1:
        at = tl.max_contiguous(tl.multiple_of(at, STEP), RUN)
    tl.store(out_ptr + tl.program_id(0) * B + i, tl.load(x_ptr + at) + 1)


@pytest.mark.parametrize(
    ("run", "step", "wide"),
    [(1, 1, 1), (256, 256, 4), (2, 2, 2), (256, 2, 2), (256, 1, 1), (3, 16, 1)],
)
def test_promised_runs_are_loaded_at_once(run, step, wide):
    """Of a remainder that wraps within the promised run of 256, at a multiple of 16."""
    n, block = 400, 256
    x, start = np.arange(n, dtype=np.float32), np.array([0, 1, 3], np.int32)
    at = (start[:, None] * block + np.arange(block)) % n
    types = dict.fromkeys(("x_ptr", "out_ptr"), "*fp32:16") | {"start_ptr": "*i32", "n": "i32:16+"}
    constants = {"B": block, "RUN": run, "STEP": step}
    arrays = [x, np.zeros((3, block), np.float32), start]
    made = wrapped.compile(types, constants, target="sm_90a", num_warps=1)
    found = run_ptx(made.artifact, [*arrays, n], (3, 1, 1))[1]
    np.testing.assert_array_equal(found, x[at] + 1)
    loads = [line for line in made.asm["ptx"].splitlines() if "ld.global" in line]
    assert len(loads) == 1 + block // 32 // wide


@tw.jit
def shortest(x_ptr, out_ptr, n, k, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + i * n + j, (i < n) & (j < n), other=float("inf"))
    column = tl.load(x_ptr + i * n + k + j * 0, i < n, other=float("inf"))
    row = tl.load(x_ptr + k * n + i * 0 + j, j < n, other=float("inf"))
    tl.store(out_ptr + i * n + j, tl.minimum(x, column + row), (i < n) & (j < n))


def test_repeated_rows_and_columns_are_loaded_once():
    """A thread has 8 elements: of 8 rows and one column, as the rows are not known to be aligned."""
    n, k = 13, 4
    x = np.random.default_rng(n).random((n, n)).astype(np.float32)
    expected = np.minimum(x, x[:, k : k + 1] + x[k])
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32", "k": "i32"}
    ptx = check(shortest, types, {"B": 16}, [x, np.zeros_like(x)], [n, k], expected, 1, 1)
    assert ptx.count("ld.global") == 8 + 8 + 1
