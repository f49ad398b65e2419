"""The kernel of a described matmul, in the kernel language.

    tile, split of K     from the program ids, grouped so that neighboring programs share operands in L2
    acc = 0
    for k in steps:      loads limited by M, N and K; out-of-bounds elements are zero
        acc = dot(a, b, acc)
    out = epilogue(acc)

`args` is a named tuple of the program's arguments (`Program.parameters`): matrices "a", "b", "out" and "c", the
epilogue's tensors "x0" …, the extents "M", "N" and "K", strides such as "a_m" and, along the first batch axis,
"a_b0". `d` is the `Program`, whose fields are compile-time constants. A batch is a tuple of indices.

Another form of this kernel, `sum_joined_rows`, reads several rows of K of a matrix-vector product as one.
"""

from __future__ import annotations

from typing import Any

from tilewright import language as tl
from tilewright.generator.epilogue import apply_epilogue
from tilewright.generator.packing import load_packed
from tilewright.generator.tiles import (
    counter,
    element_pointers,
    known_arguments,
    lanes,
    matrix,
    offset,
    split_batch,
    tile_counts,
)
from tilewright.language.kernel_function import KernelFunction

PARTIAL, TOTAL = "partial", "total"
#: partial results of a split product in flight at a time
_AHEAD = 8
#: rows of K up to which a vector's product is summed in every step
_FEW = 16


def matmul(args: Any, d: Any) -> None:
    """One program: a tile, or with `persistent` every so manyth tile (of an adjacent pair, with `tma_multicast`)."""
    args = known_arguments(args, d)
    pid = tl.program_id(0)
    if d.part == PARTIAL and d.config.rows_per_load > 1:
        sum_joined_rows(pid, args, d)
    elif d.multi_dim_grid:
        grid_tile(pid, args, d)
    elif not d.persistent:
        numbered_tile(pid, None, args, d)
    elif not d.config.tma_multicast:
        every_tile(pid, None, args, d)
    else:
        for block in tl.range(0, 2, parallel_iterations=True):
            every_tile(pid, block, args, d)


# ---- which tile --------------------------------------------------------------------------------


@KernelFunction
def every_tile(pid: Any, of_pair: Any, args: Any, d: Any) -> None:
    """A persistent program's tiles; of each pair of tiles the one that `of_pair` selects."""
    down, across = tile_counts(of_pair, args, d)
    total = down * across
    for i in tl.static_range(d.contraction.batch_rank):
        total = total * getattr(args, f"batch{i}")
    for tile in range(pid, counter(total, d), tl.num_programs(0)):
        numbered_tile(tile, of_pair, args, d)


@KernelFunction
def numbered_tile(tile: Any, of_pair: Any, args: Any, d: Any) -> None:
    """The tile of a number: batches one after another, in each down a group of rows, then to the next column."""
    down, across = tile_counts(of_pair, args, d)
    tile, batch = split_batch(tile, down, across, args, d)
    vertical = d.config.multicast_operand == "b"
    group = d.group_m if of_pair is None or not vertical else max(1, d.group_m // 2)
    if group == 1:
        row, column = tile // across, tile % across
    else:
        in_group = group * across
        first = tile // in_group * group
        rows = min(down - first, group)
        row, column = first + tile % rows, tile % in_group // rows
    if of_pair is not None and vertical:
        row = row * 2 + of_pair
    elif of_pair is not None:
        column = column * 2 + of_pair
    compute_tile(row, column, batch, args, d)


@KernelFunction
def grid_tile(pid: Any, args: Any, d: Any) -> None:
    """The tile of a place in a multi-dimensional grid (`Program.grid`)."""
    across = tl.program_id(1)
    if d.contraction.batch_rank:
        compute_tile(pid, across, (tl.program_id(2),), args, d)
    elif d.config.group_m == 1:
        compute_tile(across, pid, (), args, d)
    else:
        compute_tile(pid + tl.program_id(2) * d.config.group_m, across, (), args, d)


# ---- one tile ----------------------------------------------------------------------------------


@KernelFunction
def compute_tile(row: Any, column: Any, batch: Any, args: Any, d: Any) -> None:
    """The tile at a row and a column. Persistent programs load the epilogue's scalars and vectors before the main loop,
    to hide their latency."""
    rows = lanes(row, d.tile[0], d)
    columns = lanes(column, d.tile[1], d)
    extras = d.contraction.extras
    tiles = [
        load_extra(i, batch, rows, columns, args, d)
        if d.persistent and extras[i].axes != "mn"
        else None
        for i in range(len(extras))
    ]
    acc = accumulated((row, column), batch, rows, columns, args, d)
    if d.part == PARTIAL:
        pointer, mask = partial_result(tl.program_id(1), 0, batch, rows, columns, args, d)
        tl.store(pointer, acc, mask)
    else:
        addend = None
        if d.contraction.addend is not None:
            pointer, mask = element_pointers("c", batch, rows, columns, args, d)
            addend = tl.load(pointer, mask)
        tiles = [
            load_extra(i, batch, rows, columns, args, d) if tile is None else tile
            for i, tile in enumerate(tiles)
        ]
        pointer, mask = element_pointers("out", batch, rows, columns, args, d)
        tl.store(pointer, apply_epilogue(acc, addend, tiles, args, d.contraction), mask)


@KernelFunction
def accumulated(place: Any, batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    """The accumulator of a tile after the main loop."""
    if d.part == TOTAL:
        return sum_of_parts(batch, rows, columns, args, d)
    if d.config.form == "listing1":
        return accumulated_in_memory(batch, rows, columns, args, d)
    if d.config.form == "gemv":
        if d.config.block_k <= _FEW:
            return accumulated_by_rows(batch, rows, columns, args, d)
        return accumulated_by_elements(batch, rows, columns, args, d)
    first, last = steps_of_k(args, d)
    acc = tl.zeros(d.tile, d.contraction.accumulator_type)
    for k in range(first, last):
        if d.config.prepack is not None:
            a, b = load_packed(place, batch, k, args, d)
        else:
            a, b = load_operands(batch, rows, columns, k, args, d)
        acc = tl.dot(a, b, acc, input_precision=d.contraction.precision)
    return acc


@KernelFunction
def steps_of_k(args: Any, d: Any) -> Any:
    """First and last step of the k loop."""
    steps = counter(tl.cdiv(args.K, d.config.block_k), d)
    if d.multi_dim_grid:
        tl.assume(steps > 0)  # guaranteed by the launch: K > 0
    if d.part != PARTIAL:
        return 0, steps
    share = tl.cdiv(steps, d.config.split_k)
    first = tl.program_id(1) * share
    return first, min(first + share, steps)


@KernelFunction
def load_operands(batch: Any, rows: Any, columns: Any, k: Any, args: Any, d: Any) -> Any:
    """Slices of A and B for step k."""
    depth = lanes(k, d.config.block_k, d)
    pointer, mask = element_pointers("a", batch, rows, depth, args, d)
    a = tl.load(pointer, mask, 0)
    pointer, mask = element_pointers("b", batch, depth, columns, args, d)
    return a, tl.load(pointer, mask, 0)


@KernelFunction
def accumulated_in_memory(batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    """The main loop with the accumulator loaded from and stored to the output at every step (listing 1 of arXiv
    2108.13191)."""
    kind, stored = d.contraction.accumulator_type, d.contraction.out.dtype
    first, last = steps_of_k(args, d)
    pointer, mask = element_pointers("out", batch, rows, columns, args, d)
    tl.store(pointer, tl.zeros(d.tile, kind).to(stored), mask)
    for k in range(first, last):
        acc = tl.load(pointer, mask, 0).to(kind)
        a, b = load_operands(batch, rows, columns, k, args, d)
        acc = tl.dot(a, b, acc, input_precision=d.contraction.precision)
        tl.store(pointer, acc.to(stored), mask)
    return tl.load(pointer, mask, 0).to(kind)


@KernelFunction
def accumulated_by_elements(batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    """A matrix-vector product: element-wise accumulation, reduced once at the end."""
    kind, deep = d.contraction.accumulator_type, d.config.block_k
    first, last = steps_of_k(args, d)
    of_matrix = d.tile[1] == 1
    acc = tl.zeros((d.tile[0], deep) if of_matrix else (deep, d.tile[1]), kind)
    for k in range(first, last):
        a, b = load_operands(batch, rows, columns, k, args, d)
        a, b = a.to(kind), b.to(kind)
        # [m, k] times [k, 1] as [1, k]; [1, k] as [k, 1] times [k, n]
        acc += a * tl.trans(b) if of_matrix else tl.trans(a) * b
    return tl.sum(acc, 1 if of_matrix else 0, keep_dims=True, dtype=kind)


@KernelFunction
def accumulated_by_rows(batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    """A matrix-vector product with the accumulator as a row, to which the sum of a few rows of products is added per
    step."""
    kind = d.contraction.accumulator_type
    first, last = steps_of_k(args, d)
    acc = tl.zeros((1, max(d.tile)), kind)
    for k in range(first, last):
        a, b = load_operands(batch, rows, columns, k, args, d)
        # [1, k] as [k, 1] times [k, n]; [m, k] as [k, m] times [k, 1]
        a, b = tl.trans(a).to(kind), b.to(kind)
        acc += tl.sum(a * b, 0, keep_dims=True, dtype=kind)
    return tl.trans(acc) if d.tile[1] == 1 else acc


@KernelFunction
def sum_of_parts(batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    """The sum of partial results in order; some are loaded in advance."""
    joined, parts = d.config.rows_per_load, d.config.parts
    acc = None
    for first in tl.static_range(0, parts, _AHEAD):
        loaded = [
            load_part(part // joined, part % joined, batch, rows, columns, args, d)
            for part in range(first, min(first + _AHEAD, parts))
        ]
        for tile in loaded:
            acc = tile if acc is None else acc + tile
    return acc


# ---- memory ------------------------------------------------------------------------------------


@KernelFunction
def load_extra(i: Any, batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    """A tensor of the epilogue as a tile that broadcasts to the result's."""
    axes, name = d.contraction.extras[i].axes, f"x{i}"
    if axes == "mn":
        pointer, mask = element_pointers(name, batch, rows, columns, args, d)
        return tl.load(pointer, mask, 0)
    pointer = matrix(name, d.varies(name), batch, args)
    if not axes:
        return tl.load(pointer)
    index = rows if axes == "m" else columns
    pointer += offset(index, getattr(args, f"{name}_{axes}"), d)
    vector = tl.load(pointer, index < getattr(args, axes.upper()), 0)
    return vector[:, None] if axes == "m" else vector[None, :]


@KernelFunction
def plane(part: Any, row: Any, batch: Any, args: Any, d: Any) -> Any:
    """Index of a matrix in the workspace `[split_k, batch…, joined rows, M, N]`."""
    index = tl.cast(part, tl.int64)
    for i in tl.static_range(len(batch)):
        index = index * getattr(args, f"batch{i}") + batch[i]
    return index * d.config.rows_per_load + row if d.config.rows_per_load > 1 else index


@KernelFunction
def partial_result(
    part: Any, row: Any, batch: Any, rows: Any, columns: Any, args: Any, d: Any
) -> Any:
    """Pointers into the workspace, and the mask. `row`: index among joined rows."""
    pointer = args.work + plane(part, row, batch, args, d) * args.M * args.N
    down, across = rows[:, None], columns[None, :]
    mask = (down < args.M) & (across < args.N)
    return pointer + offset(down, args.N, d) + across, mask


@KernelFunction
def load_part(part: Any, row: Any, batch: Any, rows: Any, columns: Any, args: Any, d: Any) -> Any:
    pointer, mask = partial_result(part, row, batch, rows, columns, args, d)
    return tl.load(pointer, mask, 0)


# ---- joined rows -------------------------------------------------------------------------------


@KernelFunction
def sum_joined_rows(pid: Any, args: Any, d: Any) -> None:
    """A vector times a matrix across whose rows K lies, several of them read as one: writes partial sums.

    Rows of an odd number of elements begin anywhere: no access to them is wider than an element. g rows that follow
    each other without gaps are one row of `g · extent` elements, a multiple of what wide accesses need:

        [K, N] is [K / g, g · N];      sums[p · N + n] = Σ_q x[g · q + p] · matrix[q, p · N + n]

    These are g parts of the result, one after another, which the program that adds up parts of K adds up, too. A
    tile has columns of two of the joined rows at most (it is no wider than a row), so a step takes two slices of the
    vector.
    """
    joined, deep, wide = d.config.rows_per_load, d.config.block_k, max(d.tile)
    kind = d.contraction.accumulator_type
    extent = args.N if d.tile[0] == 1 else args.M
    width, rows = extent * joined, args.K // joined
    tile, batch = split_batch(pid, 1, tl.cdiv(width, wide), args, d)
    start = tile * wide
    columns = start + tl.arange(0, wide)
    row = start // extent
    in_next_row = columns[None, :] >= (row + 1) * extent
    part = tl.program_id(1)
    steps = tl.cdiv(rows, deep)
    share = tl.cdiv(steps, d.config.split_k)
    acc = tl.zeros((deep, wide), kind)
    for k in range(part * share, min(part * share + share, steps)):
        depth = k * deep + tl.arange(0, deep)
        later = slice_of_vector(batch, depth, row + 1, rows, args, d)
        x = tl.where(in_next_row, later, slice_of_vector(batch, depth, row, rows, args, d))
        name = "b" if d.tile[0] == 1 else "a"
        pointer = matrix(name, d.varies(name), batch, args) + offset(depth[:, None], width, d)
        mask = (depth[:, None] < rows) & (columns[None, :] < width)
        acc = tl.load(pointer + columns[None, :], mask, 0).to(kind) * x + acc
    pointer = args.work + plane(part, 0, batch, args, d) * extent + columns
    tl.store(pointer, tl.sum(acc, 0, dtype=kind), columns < width)


@KernelFunction
def slice_of_vector(batch: Any, depth: Any, row: Any, rows: Any, args: Any, d: Any) -> Any:
    """The vector's elements for one of the joined rows, as a column in the accumulator type."""
    name = "a" if d.tile[0] == 1 else "b"
    stride, joined = getattr(args, f"{name}_k"), d.config.rows_per_load
    pointer = matrix(name, d.varies(name), batch, args) + offset(row, stride, d)
    pointer += offset(depth * joined, stride, d)
    found = tl.load(pointer, (depth < rows) & (row < joined), 0)
    return found.to(d.contraction.accumulator_type)[:, None]
