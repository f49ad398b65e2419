"""Layouts of global loads and stores: vector width, and the dimension that lanes follow (coalescing).

Where no dimension is known to be contiguous, the distance between neighbors along each is estimated, not proven:
`x // n` stands still, `x % n` moves as `x` does, a pitch that is known to be a multiple of 16 is taken to be larger
than another. Only the order of lanes depends on it, never which addresses are accessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.types import position_of
from tilewright.layouts import Layout
from tilewright.layouts.blocked import blocked
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.lane_groups import LaneGroups
from tilewright.passes.analysis.projection import source_dim
from tilewright.passes.analysis.remarks import Missed, Reason, no_contiguous_dim

WIDEST = 16
"""Bytes that one thread moves with one instruction."""

VECTOR = "gpu.vector_width"
"""On an access: how many neighbours it takes at once (`vectorize-accesses`); 1 without it."""
INDEX_RUNS = "gpu.index_runs"
"""On a structured access (dimension, size): its indices along that dimension count upwards in each aligned group of
that size, so that the elements of a group are neighbours (`assign-layouts`)."""
VECTOR_DIM = "gpu.vector_dim"
"""On a load or store through a tile of pointers: the dimension along which it takes neighbours."""
EQUAL = "gpu.equal_registers"
"""On an element-wise operation or a load (pairs of dimension and size): its result is equal in each aligned group of
these sizes, and computed once for it."""
COUNTING = "gpu.counting_registers"
"""On a remainder (dimension, size): its result counts upwards in each aligned group of that size."""
CHECKED = "gpu.check_alignment"
"""On a store (unit attribute): the addresses of its vectors are not known to be aligned. Code generation tests them,
and stores the elements of a misaligned vector one by one."""
SMALLEST_COPY = 4
"""Bytes that the narrowest asynchronous copy moves (PTX ISA, `cp.async`)."""

View = tile.View | gpu.AsyncCopyOp


def tile_of(op: Operation) -> Any:
    """The type of the tile that an access moves."""
    return (
        gpu.buffer_type(op.buffer).tile
        if isinstance(op, gpu.AsyncCopyOp)
        else tile.accessed(op).type
    )


def contiguous_dim(op: View) -> int | None:
    """The dimension along which neighbours are neighbours in memory."""
    kinds = tile.view_kinds(op)
    shape = tile.shape_of(tile_of(op))
    found = [
        d
        for d, stride in enumerate(op.strides)
        if kinds[d] in ("strided", "wrapped") and constant_int(stride) == 1 and shape[d] > 1
    ]
    if not found and (runs := index_runs(op)) is not None:
        return runs[0]
    return found[-1] if found else None


def index_runs(op: Operation) -> tuple[int, int] | None:
    """The dimension along which indices count upwards in groups, and the size of these; None without one."""
    given = op.attributes.get(INDEX_RUNS)
    if not isinstance(given, DenseArrayBase):
        return None
    dim, size = tile.ints(given)
    return dim, size


def vector_of(op: Operation) -> int:
    """Elements that an access takes at once."""
    given = op.attributes.get(VECTOR)
    return given.value.data if isinstance(given, IntegerAttr) else 1


@dataclass(frozen=True)
class VectorWidth:
    """Elements that one aligned access may take (a power of two), and what keeps it from 16 bytes."""

    elements: int
    missed: Missed | None = None
    checked: bool = False
    """Whether the address must be tested when the program runs."""


def run_length(op: View, known: Facts) -> int:
    """Elements along the contiguous dimension that one aligned access may take (a power of two).

    A copy takes or leaves all of them: it has one element where the mask varies.
    """
    return vector_width(op, known).elements


def narrow_run(op: View, known: Facts) -> int | None:
    """The run of an access to rows that are not known to be aligned to 16 bytes; None of others."""
    dim = contiguous_dim(op)
    if dim is None or tile.view_kinds(op)[dim] != "strided":
        return None
    run, size = run_length(op, known), tile.element_bytes(tile_of(op))
    return run if run < min(WIDEST // size, tile.shape_of(tile_of(op))[dim]) else None


def vector_width(op: View, known: Facts) -> VectorWidth:
    """How many elements along the contiguous dimension one aligned access may take, and why not more."""
    dim = contiguous_dim(op)
    if dim is None:
        return VectorWidth(1, no_contiguous_dim(op))
    size = tile.element_bytes(tile_of(op))
    shape = tile.shape_of(tile_of(op))
    align, missed = WIDEST, None
    for divisor, reason in _alignments(op, dim, shape, size, known):
        if divisor < align:
            align, missed = divisor, reason
    promised = op.attributes.get(tile.ROW_ALIGNMENT)
    if isinstance(promised, DenseArrayBase) and tile.ints(promised)[dim] > align:
        align, missed = tile.ints(promised)[dim], None
    if isinstance(op, gpu.AsyncCopyOp):
        same = size * LaneGroups(known).equal_run(op.mask, dim, max(1, align // size))
        if same < align:
            align, missed = same, Missed(Reason.RESIDUAL_MASK)
    checked = align < WIDEST and _has_unknown_base(op)
    run = WIDEST // size if checked else min(WIDEST, align) // size
    row = shape[dim] & -shape[dim]
    if row < run:
        return VectorWidth(max(1, row), Missed(Reason.NARROW_ROW, (shape[dim],)), checked)
    return VectorWidth(max(1, run), None if checked else missed, checked)


def _has_unknown_base(op: View) -> bool:
    """Whether a store is to an address that launches know nothing of, as it was loaded from memory.

    An argument that launches do not know to be aligned is none: they specialize on that. Such a pointer nearly
    always is, so that testing it pays.
    """
    return (
        isinstance(op, tile.StoreViewOp)
        and base_argument(op.base) is None
        and all(kind == "strided" for kind in tile.view_kinds(op))
    )


def _alignments(
    op: View, dim: int, shape: tuple[int, ...], size: int, known: Facts
) -> Iterator[tuple[int, Missed]]:
    """What the bytes between vectors are multiples of: for the base, and for each stride, start and extent."""
    base = known.divisor(op.base)
    if base < WIDEST:
        yield base, misaligned_base(op.base, size, known)
    starts, indices = iter(zip(op.starts, op.sizes, strict=True)), iter(op.indices)
    for d, (kind, stride) in enumerate(zip(tile.view_kinds(op), op.strides, strict=True)):
        start_size = next(starts) if kind == "wrapped" else None
        if kind == "indexed" and d == dim:
            index, (_, run) = next(indices), index_runs(op) or (dim, 1)
            yield run * size, Missed(Reason.ALIGNMENT, (index, WIDEST))
        elif kind == "indexed":
            index = next(indices)
            yield known.divisor(index) * size, Missed(Reason.ALIGNMENT, (index, WIDEST))
        elif (d != dim and shape[d] > 1) or (start_size is not None and d != dim):
            yield known.divisor(stride) * size, Missed(Reason.ALIGNMENT, (stride, WIDEST))
        elif start_size is not None:
            for value in start_size:
                yield known.divisor(value) * size, Missed(Reason.WRAPS, (value,))


def misaligned_base(pointer: SSAValue, size: int, known: Facts) -> Missed:
    """Which term of an address is not known to be a multiple of 16 bytes."""
    while isinstance(pointer.owner, tile.AddPtrOp):
        for value in _factors(pointer.owner.offset):
            if known.divisor(value) * size < WIDEST:
                return Missed(Reason.ALIGNMENT, (value, WIDEST))
        pointer = pointer.owner.pointer
    return Missed(Reason.ADDRESS_ALIGNMENT, (pointer, WIDEST))


def _factors(offset: SSAValue) -> list[SSAValue]:
    """The terms of a sum, from the value that they are extended from."""
    op = offset.owner
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        return [value for operand in op.operands for value in _factors(operand)]
    return _factors(op.operands[0]) if isinstance(op, arith.ExtSIOp | arith.ExtUIOp) else [offset]


def access_layout(op: Operation, known: Facts, warps: int, run: int | None = None) -> Layout:
    """The layout in which `op` is done with the fewest and widest memory transactions, or that with a given `run`
    of each thread along the contiguous dimension."""
    shape = tile.shape_of(tile_of(op))
    order = list(reversed(range(len(shape))))
    dim = contiguous_dim(op) if isinstance(op, View) else None
    if dim is not None and isinstance(op, View):
        order.remove(dim)
        order.insert(0, dim)
        run = run or run_length(op, known)
    elif len(shape) > 1:
        order = list(lane_order(op, known))
    run, share = run or 1, max(1, prod(shape) // (32 * warps))
    while run > share:
        run //= 2
    return blocked(shape, warps, run, tuple(order))


def default_layout(shape: tuple[int, ...], warps: int) -> Layout:
    """For tiles that no access decides on."""
    return blocked(shape, warps, max(1, min(4, prod(shape) // (32 * warps))))


_WRITES = (tile.Store, tile.Atomic, gpu.TmaStoreOp)


def may_clobber(above: Operation, pointers: list[SSAValue]) -> bool:
    """Whether an operation inside `above` may write memory of an argument that `pointers` lead into.

    Two arguments are assumed not to alias; a pointer that leads to no single argument may alias any.
    """
    roots = {base_argument(pointer) for pointer in pointers}
    for op in above.walk():
        if isinstance(op, _WRITES):
            written = base_argument(tile.pointer_of(op))
            if written is None or None in roots or written in roots:
                return True
    return False


def accesses_as_well(op: View, value: SSAValue, layout: Layout, best: Layout) -> bool:
    """Whether an access of `value` in a layout makes about as few transactions as in `best`."""
    dim = contiguous_dim(op)
    if dim is None:
        return not layout.replicated("lanes") or bool(best.replicated("lanes"))
    size = tile.element_bytes(value)
    run, row = _consecutive(layout, dim)
    best_run, best_row = _consecutive(best, dim)
    return run * size >= min(best_run * size, 4) and row * size >= min(best_row * size, 64)


def _consecutive(layout: Layout, dim: int) -> tuple[int, int]:
    """Consecutive elements along `dim` that a thread holds, and that a warp does."""
    vectors = list(layout.registers)
    length = 1

    def unit(n: int) -> tuple[int, ...]:
        return tuple(n if d == dim else 0 for d in range(layout.rank))

    while unit(length) in vectors:
        length *= 2
    run = length
    while unit(length) in layout.lanes:
        length *= 2
    return run, length


_PITCH, _LARGE_PITCH, _UNRELATED = 1 << 10, 1 << 16, 1 << 24
"""Distances, in elements: of an unknown factor, of one that is a multiple of 16, of values that were loaded."""
_KEEPS = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp, tile.HintOp)
_OF_LHS = (arith.RemSIOp, arith.RemUIOp, arith.AndIOp, *_KEEPS)
_LARGEST = ("arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "tile.select")


def lane_order(op: Operation, known: Facts) -> tuple[int, ...]:
    """The dimensions of an access of rank 2 or more, from the smallest distance to the largest.

    Dimensions along which the address does not change come last; equal ones in the order of row-major memory.
    """
    steps = _Steps(known)
    if isinstance(op, tile.View | gpu.AsyncCopyOp):
        indices = iter(op.indices)
        found = [
            steps.of(next(indices), 0) if kind == "indexed" else steps.scalar(stride)
            for kind, stride in zip(tile.view_kinds(op), op.strides, strict=True)
        ]
    else:
        pointer = cast(tile.LoadOp, op).pointer
        found = [steps.of(pointer, d) for d in range(len(tile.shape_of(pointer)))]
    order = reversed(range(len(found)))
    return tuple(sorted(order, key=lambda d: found[d] or 2 * _UNRELATED))


class _Steps:
    """Estimated distances between neighbours along the dimensions of tiles of offsets."""

    def __init__(self, known: Facts) -> None:
        self.known = known
        self._found: dict[tuple[SSAValue, int], int] = {}

    def scalar(self, value: SSAValue) -> int:
        """The size of a factor."""
        number = constant_int(value)
        if number is not None:
            return abs(number)
        return _LARGE_PITCH if self.known.divisor(value) % 16 == 0 else _PITCH

    def of(self, value: SSAValue, dim: int) -> int:
        key = (value, dim)
        if key not in self._found:
            self._found[key] = _UNRELATED  # a value that depends on itself
            self._found[key] = min(self._step(value, dim), _UNRELATED)
        return self._found[key]

    def _step(self, value: SSAValue, dim: int) -> int:
        if not tile.is_tile(value) or tile.shape_of(value)[dim] == 1:
            return 0
        op = value.owner
        if isinstance(op, Block):
            return self._carried(value, op, dim)
        if isinstance(op, _OF_LHS):
            return self.of(op.operands[0], dim)
        if op.name in _LARGEST:
            return max(self.of(v, dim) for v in op.operands[-2:])
        match op:
            case tile.ArangeOp():
                return 1
            case tile.SplatOp():
                return 0
            case tile.ExpandDimsOp() | tile.BroadcastOp() | tile.TransOp():
                source = source_dim(op, dim)
                return 0 if source is None else self.of(op.source, source)
            case arith.MuliOp():
                return self._product(op.lhs, op.rhs, dim)
            case arith.DivSIOp() | arith.DivUIOp():
                return self.of(op.lhs, dim) // max(1, self._size(op.rhs))
            case arith.ShLIOp():
                return self.of(op.lhs, dim) << min(24, constant_int(op.rhs) or 0)
            case arith.ShRSIOp() | arith.ShRUIOp():
                return self.of(op.lhs, dim) >> min(24, constant_int(op.rhs) or 0)
            case tile.AddPtrOp() | arith.AddiOp() | arith.SubiOp():
                return sum(self.of(v, dim) for v in op.operands)
        return _UNRELATED

    def _product(self, lhs: SSAValue, rhs: SSAValue, dim: int) -> int:
        left, right = self.of(lhs, dim), self.of(rhs, dim)
        if left and right:
            return _UNRELATED
        return (left or right) * self._size(lhs if right else rhs)

    def _size(self, value: SSAValue) -> int:
        """The size of a factor that may be a tile."""
        while isinstance(value.owner, (*_KEEPS, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp)):
            if isinstance(value.owner, tile.SplatOp):
                return self.scalar(value.owner.operands[0])
            value = value.owner.operands[0]
        number = constant_int(value)
        return abs(number) if number is not None else _PITCH

    def _carried(self, value: SSAValue, block: Block, dim: int) -> int:
        """Of what a loop carries: as before its first iteration."""
        loop = block.parent_op()
        if not isinstance(loop, scf.ForOp):
            return _UNRELATED
        return self.of(loop.iter_args[position_of(value) - 1], dim)


SECTOR_BYTES = 32
"""Of the caches, in which memory is read whatever part of them a thread wants."""


def has_sector_per_element(op: Operation, known: Facts) -> bool:
    """Whether each element of an access lies in a different sector: a strided vector."""
    if not isinstance(op, tile.View) or tile.view_kinds(op) != ("strided",):
        return False
    return known.divisor(op.strides[0]) * tile.element_bytes(tile.accessed(op)) >= SECTOR_BYTES
