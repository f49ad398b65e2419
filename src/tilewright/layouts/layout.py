"""`Layout`: which thread holds which element of a tile, in which of its registers.

A layout is a linear map over GF(2) (Linear Layouts, arXiv 2505.23819) from the bits of a hardware
index - register, lane (5 bits) and warp - to the coordinates of a power-of-two block, times a
`repeat`: the block is laid side by side an integer number of times along each dimension, and the
copies are further registers (a tile of 192 rows is 3 × 64), or belong to other groups of warps (12 warps
are 3 groups of 4). The coordinates of an element are the exclusive or of the basis vectors of all set
index bits, plus the offset of its copy.

Blocked layouts, the fragments of `mma` and `wgmma`, and layouts with a dimension dropped, added or
permuted are all values of this one type. A basis vector that is zero means that the bit holds a copy
of the same element (broadcasting).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

Vector = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A distributed layout of a tile of `shape` (elements a dimension).

    `registers`, `lanes`, `warps`: basis vectors, least significant bit first. `repeat`: copies of
    the block a dimension; `shape[d] = repeat[d] * block extent`, the extent a power of two.
    `groups`: how many times `2 ** len(warps)` warps there are; group g has copies g, g + groups, … of the
    block along dimension `along` (with -1, all groups have the same).
    """

    shape: Vector
    registers: tuple[Vector, ...]
    lanes: tuple[Vector, ...]
    warps: tuple[Vector, ...]
    repeat: Vector = ()
    groups: int = 1
    group_dim: int = -1

    # ---- size ----

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def repeats(self) -> Vector:
        """`repeat` with its default (1 everywhere) filled in."""
        return self.repeat or (1,) * self.rank

    @cached_property
    def block(self) -> Vector:
        """Extents of the linear part."""
        return tuple(s // r for s, r in zip(self.shape, self.repeats, strict=True))

    @property
    def own_repeats(self) -> Vector:
        """Copies of the block a dimension that one thread has."""
        return tuple(r // self._share(d) for d, r in enumerate(self.repeats))

    def _share(self, dim: int) -> int:
        """Number of groups that split the copies along `dim`."""
        return self.groups if dim == self.group_dim else 1

    @property
    def warp_count(self) -> int:
        return self.groups << len(self.warps)

    @property
    def registers_per_thread(self) -> int:
        size = 1 << len(self.registers)
        for r in self.own_repeats:
            size *= r
        return size

    def group_step(self, dim: int) -> int:
        """Stride of the warp group's index in the coordinate along `dim`."""
        return self.block[dim] if dim == self.group_dim else 0

    # ---- coordinates ----

    @cached_property
    def register_offsets(self) -> tuple[Vector, ...]:
        """Contribution of each register to its thread's coordinates (inside the block by exclusive or; of a copy, a
        multiple of the block's extent, by addition)."""
        inside = [
            _combine(self.registers, index, self.rank) for index in range(1 << len(self.registers))
        ]
        steps = tuple(e * self._share(d) for d, e in enumerate(self.block))
        copies = product(*(range(r) for r in self.own_repeats))
        return tuple(
            tuple(c * e + v for c, e, v in zip(copy, steps, vector, strict=True))
            for copy in copies
            for vector in inside
        )

    @cached_property
    def register_of(self) -> dict[Vector, int]:
        """The first register with a given offset."""
        found: dict[Vector, int] = {}
        for index, offset in enumerate(self.register_offsets):
            found.setdefault(offset, index)
        return found

    def coordinates(self, register: int, lane: int, warp: int) -> Vector:
        """Coordinates of the element in a register of a thread."""
        thread = self.thread_offset(lane, warp)
        copy = self.register_offsets[register]
        # blocks have extents of powers of two: the parts inside one are combined by exclusive or
        return tuple(
            (c & -e) + (t & -e) + ((c ^ t) & (e - 1))
            for c, t, e in zip(copy, thread, self.block, strict=True)
        )

    def thread_offset(self, lane: int, warp: int) -> Vector:
        """Contribution of lane and warp to the coordinates."""
        found = self._thread_offsets.get((lane, warp))
        if found is None:
            found = self._thread_offsets[lane, warp] = self._thread_offset(lane, warp)
        return found

    @cached_property
    def _thread_offsets(self) -> dict[tuple[int, int], Vector]:
        return {}

    def _thread_offset(self, lane: int, warp: int) -> Vector:
        a = _combine(self.lanes, lane, self.rank)
        b = _combine(self.warps, warp & (1 << len(self.warps)) - 1, self.rank)
        group = warp >> len(self.warps)
        return tuple(
            (x ^ y) + group * self.group_step(d) for d, (x, y) in enumerate(zip(a, b, strict=True))
        )

    def inside(self, offset: Vector) -> Vector:
        """The part of a register's offset that stays in one block."""
        return tuple(c % e for c, e in zip(offset, self.block, strict=True))

    @cached_property
    def has_disjoint_bits(self) -> bool:
        """Whether register and thread contributions have no bit in common, so that their sum (and
        with it an address) splits into a part of the thread and constants."""
        return all(
            not (_mask(self.registers, d) & _mask(self.lanes + self.warps, d))
            for d in range(self.rank)
        )

    def num_consecutive(self, dim: int, most: int) -> int:
        """Aligned run of consecutive elements along `dim` in a thread's registers, in order: a power of two up to
        `most`."""
        others = [v[dim] for v in (*self.lanes, *self.warps)]
        length = 1
        while 2 * length <= most:
            unit = tuple(length if d == dim else 0 for d in range(self.rank))
            if unit not in self.registers or any(o & length for o in others):
                break  # a thread's own bit would reverse the order
            length *= 2
        return length

    # ---- copies of one element ----

    @property
    def same_in_groups(self) -> bool:
        """Whether every group of warps holds the same elements."""
        return self.groups > 1 and self.group_dim < 0

    def replicated(self, kind: str) -> tuple[int, ...]:
        """Index bits of `kind` ("registers", "lanes" or "warps") along which elements repeat.

        A bit counts when its vector is in the span of those before it (registers, then lanes, then
        warps), so holding the counted bits at 0 leaves exactly one copy of each element.
        """
        return self._replicated[kind]

    @cached_property
    def _replicated(self) -> dict[str, tuple[int, ...]]:
        pivots: dict[int, int] = {}
        result = {}
        for kind in ("registers", "lanes", "warps"):
            redundant = []
            for bit, vector in enumerate(getattr(self, kind)):
                if not _insert(pivots, self._flat(vector)):
                    redundant.append(bit)
            result[kind] = tuple(redundant)
        return result

    def _flat(self, vector: Vector) -> int:
        """Block coordinates as one integer (row-major)."""
        value = 0
        for coordinate, extent in zip(vector, self.block, strict=True):
            value = value * extent + coordinate
        return value

    @cached_property
    def is_surjective(self) -> bool:
        """Whether some thread holds every element of the tile."""
        pivots: dict[int, int] = {}
        for vector in (*self.registers, *self.lanes, *self.warps):
            _insert(pivots, self._flat(vector))
        size = 1
        for extent in self.block:
            size *= extent
        return 1 << len(pivots) == size

    # ---- where an element is ----

    def holder(self, coordinates: Vector) -> tuple[int, int, int]:
        """(register, lane, warp) that hold an element: the inverse of `coordinates`.

        Deterministic for replicated elements. Raises ValueError for an element that no thread holds.
        """
        inside = tuple(c % e for c, e in zip(coordinates, self.block, strict=True))
        left, index = self._flat(inside), 0
        while left:
            found = self._pivots.get(left.bit_length() - 1)
            if found is None:
                raise ValueError(f"no thread has {coordinates} of {self}")
            left, index = left ^ found[0], index ^ found[1]
        bits = len(self.registers), len(self.lanes)
        register = index & (1 << bits[0]) - 1
        lane = index >> bits[0] & (1 << bits[1]) - 1
        copy = group = 0
        for d, (c, e, own) in enumerate(
            zip(coordinates, self.block, self.own_repeats, strict=True)
        ):
            number = c // e
            if d == self.group_dim:
                number, group = divmod(number, self.groups)
            copy = copy * own + number
        warp = group << len(self.warps) | index >> bits[0] + bits[1]
        return copy << bits[0] | register, lane, warp

    @cached_property
    def _pivots(self) -> dict[int, tuple[int, int]]:
        """Echelon basis of the reachable elements: leading bit → (element, index that maps to it)."""
        pivots: dict[int, tuple[int, int]] = {}
        for bit, vector in enumerate((*self.registers, *self.lanes, *self.warps)):
            value, index = self._flat(vector), 1 << bit
            while value and value.bit_length() - 1 in pivots:
                other = pivots[value.bit_length() - 1]
                value, index = value ^ other[0], index ^ other[1]
            if value:
                pivots[value.bit_length() - 1] = value, index
        return pivots

    # ---- other shapes ----

    def drop(self, axis: int) -> Layout:
        """The layout of a tile without `axis` (of a reduction's result): equal registers join."""
        return self._map(
            lambda v: v[:axis] + v[axis + 1 :],
            self.shape[:axis] + self.shape[axis + 1 :],
            self.repeats[:axis] + self.repeats[axis + 1 :],
            -1 if self.group_dim == axis else self.group_dim - (self.group_dim > axis),
        )

    def insert(self, axis: int) -> Layout:
        """The layout with a dimension of extent 1 added at `axis`."""
        return self._map(
            lambda v: (*v[:axis], 0, *v[axis:]),
            (*self.shape[:axis], 1, *self.shape[axis:]),
            (*self.repeats[:axis], 1, *self.repeats[axis:]),
            self.group_dim + (self.group_dim >= axis),
        )

    def with_registers(self, axis: int, extent: int) -> Layout:
        """The layout of a tile with `extent`, a power of two, for the 1 along `axis`: a thread holds them side by side."""
        shape = (*self.shape[:axis], extent, *self.shape[axis + 1 :])
        bits = (1 << i for i in range(extent.bit_length() - 1))
        along = tuple(tuple(b if d == axis else 0 for d in range(self.rank)) for b in bits)
        return replace(self, shape=shape, registers=(*along, *self.registers))

    def permute(self, order: Vector) -> Layout:
        """The layout of a tile with dimensions permuted: new dimension d is old `order[d]`."""
        return self._map(
            lambda v: tuple(v[d] for d in order),
            tuple(self.shape[d] for d in order),
            tuple(self.repeats[d] for d in order),
            tuple(order).index(self.group_dim) if self.group_dim >= 0 else -1,
        )

    def subtile(self, axis: int, extent: int) -> Layout | None:
        """The layout of a part of `extent` elements along `axis`, a power of two, of which the tile is made:
        every thread has as much of each part, in registers of its own. None where threads differ."""
        whole = self.block[axis] % extent or self.group_dim == axis
        others = any(v[axis] >= extent for v in (*self.lanes, *self.warps))
        apart = [v for v in self.registers if v[axis] >= extent]
        if whole or others or any(v[axis] % extent or sum(v) != v[axis] for v in apart):
            return None
        repeat = tuple(1 if d == axis else r for d, r in enumerate(self.repeats))
        return Layout(
            tuple(extent if d == axis else s for d, s in enumerate(self.shape)),
            tuple(v for v in self.registers if v[axis] < extent),
            self.lanes,
            self.warps,
            repeat if any(r != 1 for r in repeat) else (),
            self.groups,
            self.group_dim,
        )

    def flatten_axis(self, axis: int) -> Layout:
        """The layout with the extent of `axis` made 1 (the source of a broadcast along it)."""
        return self._map(
            lambda v: (*v[:axis], 0, *v[axis + 1 :]),
            (*self.shape[:axis], 1, *self.shape[axis + 1 :]),
            (*self.repeats[:axis], 1, *self.repeats[axis + 1 :]),
            -1 if self.group_dim == axis else self.group_dim,
        )

    def reshape(self, shape: Vector) -> Layout | None:
        """The layout under another shape (row-major); None if copies prevent it."""
        if any(r != 1 for r in self.repeats):
            return None

        def split(vector: Vector) -> Vector:
            flat, result = self._flat(vector), []
            for extent in reversed(shape):
                result.append(flat % extent)
                flat //= extent
            return tuple(reversed(result))

        return self._map(split, shape, (1,) * len(shape))

    def _map(
        self, change: Callable[[Vector], Vector], shape: Vector, repeat: Vector, along: int = -1
    ) -> Layout:
        registers = tuple(v for v in map(change, self.registers) if any(v))
        return Layout(
            shape,
            registers,
            tuple(map(change, self.lanes)),
            tuple(map(change, self.warps)),
            repeat if any(r != 1 for r in repeat) else (),
            self.groups,
            along,
        )

    # ---- text ----

    def __str__(self) -> str:
        parts = [
            f"{name}[{' '.join(','.join(map(str, v)) for v in vectors)}]"
            for name, vectors in (("r", self.registers), ("l", self.lanes), ("w", self.warps))
        ]
        if self.repeat:
            parts.append(f"x[{','.join(map(str, self.repeat))}]")
        if self.groups > 1:
            parts.append(f"g[{self.groups}{f' {self.group_dim}' if self.group_dim >= 0 else ''}]")
        return " ".join(["x".join(map(str, self.shape)), *parts])


_TEXT = re.compile(
    r"([\dx]+) r\[(.*?)\] l\[(.*?)\] w\[(.*?)\]"
    r"(?: x\[(.*?)\])?(?: g\[(\d+) ?(\d*)\])?"
)


@lru_cache(maxsize=4096)
def parse_layout(text: str) -> Layout:
    """The layout that `str` wrote. Raises ValueError for other text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a layout: {text!r}")
    shape, registers, lanes, warps, repeat, groups, along = match.groups()
    return Layout(
        tuple(map(int, shape.split("x"))),
        _vectors(registers),
        _vectors(lanes),
        _vectors(warps),
        tuple(map(int, repeat.split(","))) if repeat else (),
        int(groups or 1),
        int(along or -1),
    )


def _vectors(text: str) -> tuple[Vector, ...]:
    return tuple(tuple(map(int, part.split(","))) for part in text.split())


def _combine(basis: tuple[Vector, ...], index: int, rank: int) -> Vector:
    total = [0] * rank
    for bit, vector in enumerate(basis):
        if index >> bit & 1:
            total = [a ^ b for a, b in zip(total, vector, strict=True)]
    return tuple(total)


def _mask(vectors: tuple[Vector, ...], dim: int) -> int:
    mask = 0
    for vector in vectors:
        mask |= vector[dim]
    return mask


def _insert(pivots: dict[int, int], value: int) -> bool:
    """Add a vector to an echelon basis over GF(2); False when it is in the span already."""
    while value:
        top = value.bit_length() - 1
        if top not in pivots:
            pivots[top] = value
            return True
        value ^= pivots[top]
    return False
