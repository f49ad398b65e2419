"""Loads, stores, block pointers, descriptors, atomics."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as tl
from tilewright import dtypes as t
from tilewright.errors import KernelTypeError
from tilewright.semantics import BlockPointer

M, N = 5, 7


@pytest.fixture
def matrix(place):
    data = np.arange(M * N, dtype=np.float32).reshape(M, N)
    return data, place(data, t.float32)


def test_masked_load_and_store(sem, place, show):
    pointer = place(np.arange(10, dtype=np.float32), t.float32)
    offsets = tl.arange(0, 16)
    mask = offsets < 10
    x = tl.load(pointer + offsets, mask=mask, other=-1)
    assert x.type == t.block_type(t.float32, (16,))
    assert show(x).tolist() == [*range(10), *[-1] * 6]
    tl.store(pointer + offsets + 20, x * 2, mask=mask)
    again = tl.load(pointer + 20 + offsets)
    assert show(again).tolist() == [*range(0, 20, 2), *[0] * 6]


def test_broadcast_mask_and_other(matrix, show):
    data, pointer = matrix
    rows, columns = tl.arange(0, 8), tl.arange(0, 8)
    tile = pointer + rows[:, None] * N + columns[None, :]
    x = tl.load(tile, mask=(rows < M)[:, None] & (columns < N)[None, :], other=9.0)
    expected = np.full((8, 8), 9.0)
    expected[:M, :N] = data
    np.testing.assert_array_equal(show(x), expected)
    row_mask = tl.load(tile, mask=rows[:, None] < 2, other=tl.arange(0, 8).to(tl.float32))
    np.testing.assert_array_equal(show(row_mask)[3], np.arange(8))


def test_pointers_broadcast_to_the_mask(matrix, show):
    """A row of pointers with a matrix of masks is a matrix (as in Triton)."""
    data, pointer = matrix
    rows, columns = tl.arange(0, 4), tl.arange(0, 8)
    mask = (rows[:, None] < 3) & (columns[None, :] < N)
    x = tl.load(pointer + columns[None, :], mask=mask, other=-1.0)
    expected = np.full((4, 8), -1.0)
    expected[:3, :N] = data[0]
    np.testing.assert_array_equal(show(x), expected)
    y = tl.load(pointer + columns, mask=columns < N, other=tl.zeros((4, 1), tl.float32))
    np.testing.assert_array_equal(show(y)[:, :N], np.broadcast_to(data[0], (4, N)))
    with pytest.raises(KernelTypeError, match="`mask` of shape"):
        tl.load(pointer + columns, mask=rows < 3)


def test_scalars(matrix, show):
    _, pointer = matrix
    x = tl.load(pointer + 3)
    assert x.type == t.float32 and show(x) == 3
    tl.store(pointer, 7)
    assert show(tl.load(pointer)) == 7
    assert show(tl.load(pointer, mask=False, other=2.5)) == 2.5


def test_store_converts(place, show):
    pointer = place(np.zeros(4, np.float16), t.float16)
    tl.store(pointer + tl.arange(0, 4), tl.arange(0, 4))
    assert show(tl.load(pointer + tl.arange(0, 4))).tolist() == [0, 1, 2, 3]
    flags = place(np.zeros(4, bool), t.int1, 512)
    tl.store(flags + tl.arange(0, 4), tl.arange(0, 4))
    assert show(tl.load(flags + tl.arange(0, 4))).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: tl.load(p + tl.arange(0, 8), mask=tl.arange(0, 4) < 2), r"`mask`.*\[4\].*\[8\]"),
        (lambda p: tl.load(p, mask=tl.arange(0, 4) < 2), "pointer is a scalar"),
        (lambda p: tl.load(p + tl.arange(0, 4), other=0.0), "without `mask`"),
        (lambda p: tl.load(tl.arange(0, 4)), r"needs a pointer.*i32\[4\]"),
        (
            lambda p: tl.store(p, tl.arange(0, 4)),
            r"`value` is fp32\[4\] but the pointer is a scalar",
        ),
        (lambda p: tl.load(p, cache_modifier=".xx"), "cache_modifier '.xx' is not supported"),
        (lambda p: tl.load(p, boundary_check=(0,)), "are for block pointers"),
        (lambda p: tl.load(p + tl.arange(0, 4), mask=1.5), "must be a condition"),
        (lambda p: tl.store(p + tl.zeros((4, 4), t.int32), tl.arange(0, 4)), "rank mismatch"),
        (
            lambda p: tl.store(p + tl.zeros((4, 4), t.int32), 1, tl.arange(0, 4) < 2),
            "rank mismatch",
        ),
        (
            lambda p: tl.make_tensor_descriptor(p, [8, 8], [8, 1], [4, 2]),
            r"at least 16 bytes .* \[4, 2\] has 8",
        ),
    ],
)
def test_errors(matrix, call, message):
    with pytest.raises(KernelTypeError, match=message):
        call(matrix[1])


def test_modifiers_reach_the_operation(sem, matrix):
    seen = {}
    original = sem.builder.op
    sem.builder.op = lambda name, ops, kind=None, **attributes: (
        seen.update(attributes) if name == "tile.load" else None,
        original(name, ops, kind, **attributes),
    )[1]
    tl.load(matrix[1], cache_modifier=".cg", eviction_policy="evict_first", volatile=True)
    assert seen == {"cache": "cg", "eviction": "evict_first", "volatile": True}


@pytest.mark.parametrize("offsets", [(0, 0), (4, 4), (-2, 0), (0, -3)])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_block_pointer(matrix, show, offsets, padding):
    data, pointer = matrix
    window = tl.make_block_ptr(pointer, (M, N), (N, 1), (0, 0), (4, 8), (1, 0))
    assert isinstance(window, BlockPointer)
    window = tl.advance(window, offsets)
    x = tl.load(window, boundary_check=(0, 1), padding_option=padding)
    fill = np.nan if padding == "nan" else 0.0
    expected = np.full((4, 8), fill)
    for i in range(4):
        for j in range(8):
            r, c = i + offsets[0], j + offsets[1]
            if 0 <= r < M and 0 <= c < N:
                expected[i, j] = data[r, c]
    np.testing.assert_array_equal(show(x), expected)


def test_block_pointer_store_and_one_checked_dimension(matrix, show):
    data, pointer = matrix
    window = tl.make_block_ptr(pointer, (M, N), (N, 1), (3, 0), (4, 4), (1, 0))
    tl.store(window, tl.full((4, 4), -1.0, tl.float32), boundary_check=(0,))
    full = show(tl.load(pointer + tl.arange(0, 64)))
    expected = data.copy()
    expected[3:, :4] = -1
    np.testing.assert_array_equal(full[: M * N], expected.ravel())
    with pytest.raises(KernelTypeError, match="take no mask"):
        tl.load(window, mask=True)
    with pytest.raises(KernelTypeError, match="offsets has 1 entries"):
        tl.advance(window, (1,))


def test_tensor_descriptor(matrix, show):
    data, pointer = matrix
    desc = tl.make_tensor_descriptor(pointer, [M, N], [N, 1], [4, 4])
    assert desc.dtype == t.float32 and desc.block_shape == (4, 4)
    x = desc.load([2, 4])
    expected = np.zeros((4, 4))
    expected[:3, :3] = data[2:, 4:]
    np.testing.assert_array_equal(show(x), expected)
    desc.store([2, 4], x + 100)
    np.testing.assert_array_equal(show(desc.load([2, 4]))[:3, :3], expected[:3, :3] + 100)
    assert show(tl.load(pointer + M * N)) == 0  # nothing was written past the end


def test_atomics(place, show):
    pointer = place(np.arange(4, dtype=np.int32), t.int32)
    lanes = tl.arange(0, 4)
    old = tl.atomic_add(pointer + lanes, 10, mask=lanes < 2)
    assert show(old).tolist()[:2] == [0, 1]
    assert show(tl.load(pointer + lanes)).tolist() == [10, 11, 2, 3]
    with pytest.raises(KernelTypeError, match="needs integers"):
        tl.atomic_and(place(np.zeros(1, np.float32), t.float32, 900), 1)
    with pytest.raises(KernelTypeError, match="sem 'strong' is not supported"):
        tl.atomic_add(pointer, 1, sem="strong")


def test_descriptor_atomics_and_infinite_other(matrix, place, show):
    desc = tl.make_tensor_descriptor(matrix[1], [M, N], [N, 1], [4, 8])
    counts = place(np.ones((4, 4), np.int32), t.int32, 4096)
    whole = tl.make_tensor_descriptor(counts, [4, 4], [4, 1], [2, 4])
    whole.atomic_add([3, 1], tl.full((2, 4), 5, tl.int32))
    lanes = tl.arange(0, 16)
    expected = np.ones((4, 4))
    expected[3, 1:] = 6
    np.testing.assert_array_equal(show(tl.load(counts + lanes)), expected.ravel())
    small = tl.make_tensor_descriptor(
        place(np.ones((4, 16), np.int8), t.int8, 8192), [4, 16], [16, 1], [2, 16]
    )
    with pytest.raises(
        KernelTypeError, match=r"atomic_add is not defined for elements of tl\.int8"
    ):
        small.atomic_add([0, 0], tl.full((2, 16), 1, tl.int8))
    with pytest.raises(
        KernelTypeError, match=r"atomic_xor is not defined for elements of tl\.float32"
    ):
        desc.atomic_xor([0, 0], tl.full((4, 8), 1.0, tl.float32))
    x = tl.load(counts + lanes, mask=lanes < 4, other=-float("inf"))
    assert show(x)[:4].tolist() == [1, 1, 1, 1] and desc.load([0, 0]).shape == (4, 8)
