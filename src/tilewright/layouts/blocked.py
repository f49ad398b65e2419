"""Blocked layouts: each thread holds a run of consecutive elements; lanes and warps tile the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

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
    order = order or tuple(reversed(range(len(shape))))
    bits = _Bits(shape)
    registers = []
    while run > 1 and bits.left[order[0]] > 1:
        registers.append(bits.take(order[0]))
        run //= 2
    lanes = [bits.take(*order) for _ in range(LANE_BITS)]
    bases = [bits.take(*order) for _ in range(_bits_of(warps))]
    return bits.layout(registers, lanes, bases, warps, order)


def _bits_of(warps: int) -> int:
    """Bits of a warp's index in its group: the largest power of two that divides the number of warps."""
    return (warps & -warps).bit_length() - 1


class _Bits:
    """The bits of a tile's coordinates, which registers, lanes and warps take one after another."""

    def __init__(self, shape: Vector) -> None:
        self._shape = shape
        self._next = [1] * len(shape)
        self.left = [extent & -extent for extent in shape]
        """Elements along each dimension that the bits not taken yet tell apart."""

    def take(self, *dims: int) -> Vector:
        """The next bit along the first of these dimensions that has one; zero if none has."""
        found = next((d for d in dims if self.left[d] > 1), -1)
        vector = tuple(start if d == found else 0 for d, start in enumerate(self._next))
        if found >= 0:
            self._next[found] *= 2
            self.left[found] //= 2
        return vector

    def layout(
        self,
        registers: list[Vector],
        lanes: Sequence[Vector],
        bases: Sequence[Vector],
        warps: int,
        order: Vector,
    ) -> Layout:
        """The layout with these bits of registers, lanes and warps; further registers have the rest, by `order`.

        Of several groups of warps, each of a power of two, those split a dimension's repeats, the last of `order` first.
        """
        while max(self.left, default=1) > 1:
            registers.append(self.take(*order))
        repeat = tuple(extent // (extent & -extent) for extent in self._shape)
        many = repeat if max(repeat, default=1) > 1 else ()
        groups = warps // (warps & -warps)
        fitting = (d for d in reversed(order) if groups > 1 and repeat[d] % groups == 0)
        given = tuple(registers), tuple(lanes), tuple(bases), many, groups, next(fitting, -1)
        return Layout(self._shape, *given)


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

    bits = _Bits(shape)

    def vectors(count: int, along_rows: int, along_columns: int) -> list[Vector]:
        dims = [(1,)] * along_rows + [(0,)] * along_columns
        return [bits.take(*d) for d in (*dims, *[()] * (count - len(dims)))]

    registers = vectors(0, wide, held)
    lanes = vectors(LANE_BITS, across, lanes_down)
    bases = vectors(warp_bits, warps_across, warps_down)
    return bits.layout(registers, lanes, bases, warps, (1, 0))


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
    bits = _Bits(shape)
    orders = (dim, 1 - dim), (1 - dim, dim)
    registers = [v for v in [bits.take(*orders[which]) for which in first] if any(v)]
    vectors = [bits.take(*orders[which]) for which in lanes]
    bases = [bits.take(*orders[warp]) for _ in range(_bits_of(warps))]
    return bits.layout(registers, vectors, bases, warps, orders[0])


@lru_cache(maxsize=4096)
def reduced_access_layout(shape: Vector, warps: int, axis: int, dim: int, sizes: Vector) -> Layout:
    """A layout of a matrix that is reduced along `axis`, and accessed where it is contiguous along `dim`.

    `sizes`: elements of one access, of the row that neighbouring lanes access, and those that a thread should hold
    along the axis. Along the contiguous dimension a thread holds one access at a time, and lanes have half a row at least.
    """
    access, row, run = (size.bit_length() - 1 for size in sizes)
    bits = [(extent & -extent).bit_length() - 1 for extent in shape]
    access, warp_bits = min(access, bits[dim]), _bits_of(warps)
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

    `runs[d]`: whether a thread holds consecutive elements along `d`, 4 if it has so many (its operand is contiguous
    there, and loaded 4 at a time); otherwise its rows are strided and those of adjacent lanes consecutive. 4 lanes are
    along the rows and 8 along the columns, so that the loads of a warp touch every bank once.
    """
    bits = _Bits(shape)
    share = prod(bits.left) // (warps << LANE_BITS)
    run = 1 << min(2, _bits_of(max(1, share)))
    wide = tuple(run if r and e >= run else 1 for r, e in zip(runs, bits.left, strict=True))

    def left(dim: int) -> int:
        """Accumulator elements per thread along a dimension."""
        return bits.left[dim] * wide[dim]

    registers = [bits.take(d, 1 - d) for d in (1, 0) for _ in range(_bits_of(wide[d]))]
    lanes = [bits.take(d, 1 - d) for d in (0, 1, 1, 1, 0)]
    dims = lambda: (0, 1) if left(0) >= left(1) else (1, 0)  # noqa: E731
    bases = [bits.take(*dims()) for _ in range(_bits_of(warps))]
    return bits.layout(registers, lanes, bases, warps, (1, 0))
