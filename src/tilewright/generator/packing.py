"""Kernels that pack an operand for all programs of a matmul, and the loads of what they packed.

    panels_a[batch, tile of M, step of K, row, k]
    panels_b[batch, tile of N, step of K, panel, k // rows, column, k % rows]

Every program of the matmul then reads contiguous tiles, in the order in which the micro-kernel of a
register tile take them: the loops of Goto and van de Geijn ("Anatomy of high-performance matrix
multiplication", 2008) and BLIS, with packing as a separate phase. Elements of tiles beyond the matrix are zero,
so that the matmul needs no masks but those of the result.

`args` and `d` are those of `kernel.matmul`.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import language as tl
from tilewright.generator.contraction import ROW
from tilewright.generator.tiles import (
    counter,
    element_pointers,
    first_index,
    known_arguments,
    lanes,
    matrix,
    offset,
    tile_counts,
)
from tilewright.language.kernel_function import KernelFunction

#: rows (words, where rows are interleaved) that are copied at a time
_RUN_ROWS = 8


def pack(args: Any, d: Any, in_words: Any) -> None:
    """Pack operand "a" or "b", with as many programs as there are tiles.

    Where rows of B are contiguous, programs share rows, not tiles: they cut a few at a time from one end to the
    other. So memory is read in long runs, which processors fetch ahead, and not a panel's width at a time.

    Args:
        in_words: whether the rows that are interleaved lie side by side in memory, in whole words.
    """
    args = known_arguments(args, d)
    pid = tl.program_id(0)
    steps = tl.cdiv(args.K, d.config.block_k)
    down, across = tile_counts(None, args, d)
    if d.part == "pack_a":
        tile = pid // steps % down
        batch = batch_of_operand("a", pid // (steps * down), args, d)
        pack_a(batch, pid, tile, pid % steps, args, d)
    else:
        tile = pid // steps % across
        batch = batch_of_operand("b", pid // (steps * across), args, d)
        if d.contraction.b.order == ROW:
            pack_rows(batch, pid, tile, steps, across, args, d, in_words)
        else:
            groups = d.config.block_k // d.config.prepack.rows
            pack_panels(batch, pid, tile, pid % steps, 0, groups, args, d, in_words)


@KernelFunction
def batch_of_operand(name: Any, flat: Any, args: Any, d: Any) -> Any:
    """Batch indices from the number of the operand's matrix; those of axes it lacks do not matter."""
    varies = d.varies(name)
    batch = ()
    for i in tl.static_range(len(varies) - 1, -1, -1):
        index = flat
        if varies[i] and True in varies[:i]:
            size = getattr(args, f"batch{i}")
            index, flat = flat % size, flat // size
        batch = (index, *batch)
    return batch


@KernelFunction
def pack_a(batch: Any, pid: Any, tile: Any, step: Any, args: Any, d: Any) -> None:
    """A tile of A, row after row."""
    block_m, block_k = d.config.block_m, d.config.block_k
    rows, depth = lanes(tile, block_m, d), lanes(step, block_k, d)
    pointer, mask = element_pointers("a", batch, rows, depth, args, d)
    packed = tl.load(pointer, mask, 0).to(d.packed)
    down, across = tl.arange(0, block_m)[:, None], tl.arange(0, block_k)[None, :]
    place = args.panels_a + pid.to(tl.int64) * (block_m * block_k)
    tl.store(place + down * block_k + across, packed)


@KernelFunction
def pack_rows(
    batch: Any, pid: Any, tile: Any, steps: Any, across: Any, args: Any, d: Any, in_words: Any
) -> None:
    """The program's share of a step's rows of B through all tiles."""
    groups = d.config.block_k // d.config.prepack.rows
    step, first = pid % steps, pid - tile * steps
    count = math.gcd(groups, _RUN_ROWS)
    shares = groups // count
    start, stop = tile * shares // across, (tile + 1) * shares // across
    for rows in range(counter(start, d), counter(stop, d)):
        for cut in range(0, counter(across, d)):
            index, group = first + cut * steps, rows * count
            pack_panels(batch, index, cut, step, group, count, args, d, in_words)


@KernelFunction
def pack_panels(
    batch: Any,
    index: Any,
    tile: Any,
    step: Any,
    group: Any,
    count: Any,
    args: Any,
    d: Any,
    in_words: Any,
) -> None:
    """`count` groups of rows of all panels of a tile of B from `group` on. `index`: of the packed tile."""
    block_n, width = d.config.block_n, d.config.prepack.columns
    groups = d.config.block_k // d.config.prepack.rows
    place = args.panels_b + index.to(tl.int64) * (groups * block_n)
    down, across = tl.arange(0, count)[:, None], tl.arange(0, width)[None, :]
    for panel in range(0, block_n // width):
        columns = first_index(tile, block_n, d) + panel * width + tl.arange(0, width)
        if d.config.prepack.rows > 1 and in_words:
            word = words_in_place(batch, columns, step, args, d)
        else:
            word = words_of_rows(batch, columns, step, group, count, args, d)
        start = place + panel * (groups * width) + group * width
        tl.store(start + down * width + across, word)


@KernelFunction
def words_of_rows(
    batch: Any, columns: Any, step: Any, group: Any, count: Any, args: Any, d: Any
) -> Any:
    """Elements of `count` rows of a panel from row `group` on; where rows are interleaved, as integers of several
    elements each."""
    rows = d.config.prepack.rows
    word = None
    for row in tl.static_range(rows):
        first = first_index(step, d.config.block_k, d) + group * rows + row
        loaded = every_row(batch, columns, first, rows, count, args, d).to(d.packed)
        if rows > 1:
            bits = loaded.to(d.packed_bits, bitcast=True).to(d.stored)
            loaded = bits if word is None else word | (bits << (8 * d.packed.itemsize * row))
        word = loaded
    return word


@KernelFunction
def words_in_place(batch: Any, columns: Any, step: Any, args: Any, d: Any) -> Any:
    """Rows of a panel from a matrix with contiguous columns: words as they are in memory."""
    rows, count = d.config.prepack.rows, d.config.block_k // d.config.prepack.rows
    words = matrix("b", d.varies("b"), batch, args).to(tl.pointer_type(d.stored))
    down, across = lanes(step, count, d)[:, None], columns[None, :]
    place = offset(across, args.b_n // rows, d) + down
    return tl.load(words + place, (down < args.K // rows) & (across < args.N), 0)


@KernelFunction
def every_row(
    batch: Any, columns: Any, first: Any, rows: Any, count: Any, args: Any, d: Any
) -> Any:
    """`count` times every `rows`-th row of B from row `first` on, zeros beyond the matrix."""
    index = tl.arange(0, count)
    pointer, _ = element_pointers("b", batch, first + index * rows, columns, args, d)
    left = tl.cdiv(args.K - first, rows)
    return tl.load(pointer, (index[:, None] < left) & (columns[None, :] < args.N), 0)


@KernelFunction
def load_packed(place: Any, batch: Any, k: Any, args: Any, d: Any) -> Any:
    """Packed tiles [block_m, block_k] and [block_k, block_n] of step k, for the result's tile at `place`."""
    m, n, depth = d.config.block_m, d.config.block_n, d.config.block_k
    rows, columns = d.config.prepack.rows, d.config.prepack.columns
    down, across = tile_counts(None, args, d)
    a = packed_tile("a", batch, place[0], down, k, ((m, depth), (depth, 1)), args, d)
    digits = (
        (depth // rows, rows * columns),
        (rows, 1),
        (n // columns, depth * columns),
        (columns, rows),
    )
    b = packed_tile("b", batch, place[1], across, k, digits, args, d)
    return tl.reshape(a, (m, depth)), tl.reshape(b, (depth, n))


@KernelFunction
def packed_tile(
    name: Any, batch: Any, tile: Any, tiles: Any, k: Any, digits: Any, args: Any, d: Any
) -> Any:
    """Elements of one packed tile. `digits`: (extent, stride) of each dimension."""
    varies, steps = d.varies(name), tl.cdiv(args.K, d.config.block_k)
    number = None
    for i in tl.static_range(len(varies)):
        if varies[i]:
            own = batch[i].to(tl.int64)
            number = own if number is None else number * getattr(args, f"batch{i}") + own
    tile = tile.to(tl.int64)
    tile = tile if number is None else number * tiles + tile
    size = math.prod([extent for extent, _ in digits])
    pointer = getattr(args, f"panels_{name}") + (tile * steps + k) * size
    kept = [digit for digit in digits if digit[0] > 1] or [(1, 1)]
    for axis in tl.static_range(len(kept)):
        index = tl.arange(0, kept[axis][0])
        for other in tl.static_range(len(kept)):
            if other != axis:
                index = tl.expand_dims(index, other)
        pointer += index * kept[axis][1]
    return tl.load(pointer)
