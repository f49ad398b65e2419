"""Blocked layouts: each thread holds a run of consecutive elements; lanes and warps tile the rest."""

from __future__ import annotations

from functools import lru_cache

from tilewright.layouts.layout import Layout, Vector

LANE_BITS = 5


@lru_cache(maxsize=4096)
def blocked(shape: Vector, warps: int, run: int, order: Vector | None = None) -> Layout:
    """A layout of `shape` in which a thread holds `run` consecutive elements along `order[0]`.

    `order`: dimensions, the most contiguous first (default: last dimension first). Lanes follow
    along that dimension, then the next; then warps. Threads beyond the tile's extents hold replicas;
    elements beyond the threads are further registers. Requires: extents are powers of two times a repeat; of 12
    warps, three groups of 4 split the repeats of a dimension that has them.
    """
    rank = len(shape)
    order = order or tuple(reversed(range(rank)))
    repeat = tuple(s // (s & -s) for s in shape)
    left = [s & -s for s in shape]
    start = [1] * rank
    zero = (0,) * rank

    def take(dim: int) -> Vector:
        vector = tuple(start[d] if d == dim else 0 for d in range(rank))
        start[dim] *= 2
        left[dim] //= 2
        return vector

    def take_any() -> Vector:
        for dim in order:
            if left[dim] > 1:
                return take(dim)
        return zero

    registers = []
    while run > 1 and left[order[0]] > 1:
        registers.append(take(order[0]))
        run //= 2
    lanes = [take_any() for _ in range(LANE_BITS)]
    bases = [take_any() for _ in range((warps & -warps).bit_length() - 1)]
    for dim in order:
        while left[dim] > 1:
            registers.append(take(dim))
    many = repeat if max(repeat, default=1) > 1 else ()
    dealt = _dealt(repeat, warps, order)
    return Layout(shape, tuple(registers), tuple(lanes), tuple(bases), many, *dealt)


def _dealt(repeat: Vector, warps: int, order: Vector) -> tuple[int, int]:
    """Number of warp groups, each of a power of two of warps, and the dimension whose repeats they split (-1: none)."""
    groups = warps // (warps & -warps)
    fitting = (d for d in reversed(order) if groups > 1 and repeat[d] % groups == 0)
    return groups, next(fitting, -1)


@lru_cache(maxsize=4096)
def scan_of_columns_layout(shape: Vector, warps: int, run: int) -> Layout:
    """A layout of a matrix, with extents and `warps` powers of two, whose columns are scanned.

    A thread holds `run` consecutive elements along the rows. Lanes and then warps follow along the rows; the
    remaining ones along the columns, beyond the run of each thread.
    """
    rows, columns = (extent.bit_length() - 1 for extent in shape)
    wide = min(run.bit_length() - 1, columns)
    across = min(LANE_BITS, columns - wide)
    lanes_down = min(LANE_BITS - across, rows)
    warp_bits = warps.bit_length() - 1
    warps_across = min(warp_bits, columns - wide - across)
    warps_down = min(warp_bits - warps_across, rows - lanes_down)
    held = rows - lanes_down - warps_down

    def vectors(dim: int, first: int, count: int) -> list[Vector]:
        return [(1 << bit, 0) if dim == 0 else (0, 1 << bit) for bit in range(first, first + count)]

    def padded(found: list[Vector], count: int) -> tuple[Vector, ...]:
        return (*found, *[(0, 0)] * (count - len(found)))

    behind = wide + across + warps_across
    registers = vectors(1, 0, wide) + vectors(0, 0, held) + vectors(1, behind, columns - behind)
    lanes = vectors(1, wide, across) + vectors(0, held, lanes_down)
    bases = vectors(1, wide + across, warps_across) + vectors(0, held + lanes_down, warps_down)
    return Layout(shape, tuple(registers), padded(lanes, LANE_BITS), padded(bases, warp_bits))


@lru_cache(maxsize=4096)
def transposed_copy_layout(shape: Vector, warps: int, dim: int) -> Layout:
    """A layout of a matrix for copies of 4-byte elements into lines along `dim`, from memory that is
    contiguous along the other dimension.

    8 lanes along the other dimension read a sector of 32 bytes; 4 along `dim` write a 16-byte chunk
    of a row in shared memory. The swizzle permutes the chunks of the 8 rows, so that a warp touches every bank once.
    """
    return _taken(shape, warps, dim, (), (1, 1, 1, 0, 0), 0)


@lru_cache(maxsize=4096)
def smem_transpose_layout(shape: Vector, warps: int, dim: int) -> Layout:
    """A layout of a matrix of 4-byte elements that are read from lines of shared memory along the other
    dimension and written to lines along `dim`: a lane reads one word of each of 4 lines, 32 lanes side
    by side, and writes them as a 16-byte chunk.
    """
    return _taken(shape, warps, dim, (0, 0), (1, 1, 1, 1, 1), 1)


def _taken(
    shape: Vector,
    warps: int,
    dim: int,
    first: tuple[int, ...],
    lanes: tuple[int, ...],
    warp: int,
) -> Layout:
    """A layout of a matrix whose coordinate bits are assigned in order: to the first registers, lanes, warps and the
    remaining registers; 0 means the next bit along `dim`, 1 the next bit along the other dimension."""
    extents = [shape[dim] & -shape[dim], shape[1 - dim] & -shape[1 - dim]]
    repeat = tuple(s // (s & -s) for s in shape)
    start = [1, 1]

    def take(which: int) -> Vector:
        if start[which] >= extents[which]:
            which = 1 - which
        if start[which] >= extents[which]:
            return (0, 0)
        vector = [0, 0]
        vector[dim if which == 0 else 1 - dim] = start[which]
        start[which] *= 2
        return (vector[0], vector[1])

    registers = [take(which) for which in first]
    bits = tuple(take(which) for which in lanes)
    bases = tuple(take(warp) for _ in range((warps & -warps).bit_length() - 1))
    while start[0] < extents[0] or start[1] < extents[1]:
        registers.append(take(0))
    many, dealt = repeat if max(repeat) > 1 else (), _dealt(repeat, warps, (dim, 1 - dim))
    return Layout(shape, tuple(v for v in registers if any(v)), bits, bases, many, *dealt)


@lru_cache(maxsize=4096)
def reduced_access_layout(shape: Vector, warps: int, axis: int, dim: int, sizes: Vector) -> Layout:
    """A layout of a matrix that is reduced along `axis`, and accessed where it is contiguous along `dim`.

    `sizes`: elements of one access, of the row that neighbouring lanes access, and those that a thread should hold
    along the axis. Along the contiguous dimension a thread holds one access at a time, and lanes have half a row at least.
    """
    access, row, run = (size.bit_length() - 1 for size in sizes)
    bits = [(extent & -extent).bit_length() - 1 for extent in shape]
    access, warp_bits = min(access, bits[dim]), (warps & -warps).bit_length() - 1
    if axis == dim:
        half_a_row = min(row - 1, bits[dim]) - access
        across = max(0, min(LANE_BITS, max(bits[dim] - run, half_a_row)))
        beyond = bits[dim] - run - across
        lanes = (0,) * across + (1,) * (LANE_BITS - across)
        return _taken(shape, warps, dim, (0,) * access, lanes, 0 if beyond >= warp_bits else 1)
    across = max(0, min(LANE_BITS, bits[dim] - access, row - access))
    down = LANE_BITS - across
    warps_down = max(0, warp_bits - (bits[dim] - access - across))
    held = max(0, min(run, bits[axis] - down - warps_down))
    lanes = (0,) * across + (1,) * down
    return _taken(shape, warps, dim, (0,) * access + (1,) * held, lanes, 0)


@lru_cache(maxsize=4096)
def outer_product_layout(shape: Vector, warps: int, runs: tuple[bool, bool]) -> Layout:
    """An accumulator layout in which each thread holds a register tile as square as possible.

    `runs[d]`: whether a thread holds 4 consecutive elements along `d` (its operand is contiguous there, and
    loaded 4 at a time); otherwise its rows are strided and those of adjacent lanes consecutive. 4 lanes are
    along the rows and 8 along the columns, so that the loads of a warp touch every bank once.
    """
    extents = tuple(s & -s for s in shape)
    repeat = tuple(s // e for s, e in zip(shape, extents, strict=True))
    start = [1, 1]

    def take(dim: int) -> Vector:
        if start[dim] >= extents[dim]:
            dim = 1 - dim
        if start[dim] >= extents[dim]:
            return (0, 0)
        value = start[dim]
        start[dim] *= 2
        return (value, 0) if dim == 0 else (0, value)

    wide = tuple(4 if r and e >= 4 else 1 for r, e in zip(runs, extents, strict=True))

    def left(dim: int) -> int:
        """Accumulator elements per thread along a dimension."""
        return extents[dim] // start[dim] * wide[dim]

    registers = [take(d) for d in (1, 0) if wide[d] == 4 for _ in range(2)]
    lanes = tuple(take(d) for d in (0, 1, 1, 1, 0))
    bits = (warps & -warps).bit_length() - 1
    bases = tuple(take(0 if left(0) >= left(1) else 1) for _ in range(bits))
    while start[0] < extents[0] or start[1] < extents[1]:
        registers.append(take(1))
    many, dealt = repeat if max(repeat) > 1 else (), _dealt(repeat, warps, (1, 0))
    return Layout(shape, tuple(registers), lanes, bases, many, *dealt)
