"""Address arithmetic: the guarantees that it has in the language (`docs/language.md`).

Passes take their assumptions from here, and so does the interpreter, which therefore checks exactly what they assume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, func, math, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.tile import WRAPS
from tilewright.ir.walk import ancestors, incoming

_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)
_DIVISIONS = (arith.DivSIOp, arith.RemSIOp)
#: operations that pass an integer on
MOVING = (
    tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.ReshapeOp, tile.TransOp, tile.HintOp,
    arith.ExtSIOp, arith.ExtUIOp, gpu.ConvertLayoutOp,
)  # fmt: skip
_ACCESSES = (
    tile.AddPtrOp, tile.LoadViewOp, tile.StoreViewOp, gpu.AsyncCopyOp, gpu.TmaLoadOp, gpu.TmaStoreOp,
)  # fmt: skip
NO_WRAP = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
"""Property `overflowFlags` of arithmetic that a pass assumes not to wrap, because it forms an address."""
_NARROWEST = 32
"""Bits of the narrowest integers of which something is promised."""


@dataclass(frozen=True)
class Promise:
    """Operations with guarantees of the language beyond their definition."""

    no_wrap: frozenset[Operation] = frozenset()
    """Signed sums, differences, products and left shifts that do not wrap."""
    divisions: frozenset[Operation] = frozenset()
    """Signed divisions and remainders whose divisor is greater than 0."""


NOTHING_PROMISED = Promise()


def address_arithmetic(function: func.FuncOp) -> Promise:
    """The arithmetic that forms the addresses of a function."""
    offsets: list[SSAValue] = []
    flagged: list[Operation] = []
    for op in function.walk():
        offsets += _offsets_of(op)
        if is_flagged(op):
            flagged.append(op)
    promise = promise_of(offsets)
    divisions = promise.divisions.union(_by_same_divisors(function, promise.divisions))
    return Promise(promise.no_wrap.union(flagged), divisions)


def _by_same_divisors(function: func.FuncOp, promised: frozenset[Operation]) -> Iterator[Operation]:
    """Divisions by a value that a promised one divides by, too, in the same block or in one around: they do not run
    without it."""
    blocks: dict[SSAValue, set[Block | None]] = {}
    for op in promised:
        blocks.setdefault(_moved(op.operands[1]), set()).add(op.parent)
    for op in function.walk() if blocks else ():
        found = blocks.get(_moved(op.rhs), set()) if isinstance(op, _DIVISIONS) else set()
        if op.parent in found or any(above.parent in found for above in ancestors(op)):
            yield op


def _moved(value: SSAValue) -> SSAValue:
    """What `value` is a copy of: of another shape, or extended with its sign."""
    while isinstance(value.owner, MOVING) and not isinstance(value.owner, arith.ExtUIOp):
        value = value.owner.operands[0]
    return value


def access_arithmetic(op: Operation) -> Promise:
    """The arithmetic that forms the addresses of one access."""
    offsets = _offsets_of(op)
    pointers = [v for v in op.operands if isinstance(tile.element_of(v), tile.PtrType)]
    seen: set[SSAValue] = set()
    while pointers:
        pointer = pointers.pop()
        if pointer in seen:
            continue
        seen.add(pointer)
        source = pointer.owner
        if isinstance(source, tile.AddPtrOp):
            offsets.append(source.offset)
            pointers.append(source.pointer)
        elif isinstance(source, MOVING):
            pointers.append(source.operands[0])
        elif isinstance(source, tile.SelectOp):
            pointers += [source.lhs, source.rhs]
        else:
            pointers += _passed_on(pointer)
    return promise_of(offsets)


def _offsets_of(op: Operation) -> list[SSAValue]:
    """Operands that are offsets, or from which an offset is computed by additions and multiplications."""
    if isinstance(op, _ACCESSES):
        if isinstance(op, tile.AddPtrOp):
            return [op.offset]
        if isinstance(op, (gpu.TmaLoadOp, gpu.TmaStoreOp)):
            return [*op.coords, *op.global_dims, *op.global_strides]
        return [*op.strides, *op.starts, *op.indices]
    return []


def promise_of(offsets: Iterable[SSAValue]) -> Promise:
    """The arithmetic that forms `offsets`.

    Followed backwards through signed `+ - * <<` of at least 32 bits, conversions to a wider type, operations
    that move elements, `tl.where`, signed minimum and maximum, values that loops carry, and the dividend of signed `//` and `%`: of `%` as
    part of the offset, of `//` (and of `tl.abs`) only to find the divisions within it. There is no guarantee for other operations
    (`& | ^ >>`, narrowing conversions, unsigned arithmetic).
    """
    no_wrap: set[Operation] = set()
    divisions: set[Operation] = set()
    seen: set[tuple[SSAValue, bool]] = set()
    pending = [(value, True) for value in offsets]
    while pending:
        value, summed = pending.pop()
        if (value, summed) in seen:
            continue
        seen.add((value, summed))
        op = value.owner
        if isinstance(op, _SUMS):
            promised = summed and is_promised(op)
            if promised:
                no_wrap.add(op)
            factors = op.operands[:1] if isinstance(op, arith.ShLIOp) else op.operands
            pending += [(v, promised) for v in factors]
        elif isinstance(op, _DIVISIONS):
            divisions.add(op)
            pending.append((op.lhs, summed and isinstance(op, arith.RemSIOp)))
        elif isinstance(op, MOVING):
            pending.append((op.operands[0], summed))
        elif isinstance(op, tile.SelectOp | arith.MinSIOp | arith.MaxSIOp):
            pending += [(op.lhs, summed), (op.rhs, summed)]
        elif isinstance(op, math.AbsIOp):
            pending.append((op.operand, False))
        else:
            pending += [(v, summed) for v in _passed_on(value)]
    return Promise(frozenset(no_wrap), frozenset(divisions))


def is_promised(op: Operation) -> bool:
    """Whether a sum, difference, product or left shift is signed and wide enough for the promise."""
    element = tile.element_of(op.results[0])
    wide = isinstance(element, IntegerType) and element.width.data >= _NARROWEST
    return wide and WRAPS not in op.attributes


def is_flagged(op: Operation) -> bool:
    """Whether a pass has written on an operation that it does not wrap."""
    return isinstance(op, _SUMS) and op.properties.get("overflowFlags") == NO_WRAP


def _passed_on(value: SSAValue) -> list[SSAValue]:
    """Values that `scf.for` and `scf.if` hand to `value`."""
    op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    return [] if isinstance(op, scf.WhileOp) else incoming(value) or []
