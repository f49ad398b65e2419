"""Transfer functions of the fact analysis: the facts of a result as a function of the facts of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects import arith, scf
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import Promise, is_flagged
from tilewright.ir.types import position_of
from tilewright.ir.walk import incoming
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import transfer
from tilewright.passes.analysis.facts.lattice import (
    Fact,
    constant,
    join,
    meet,
    multiple,
    of_range,
    signed_range,
    top,
    trailing_zeros,
)

LOOP_INDEX = "tile.loop_index"
"""Attribute of `start + counter * step`, which `normalize-loops` computes for a loop's index: the bounds of the
index. The result does not wrap."""

Grid = tuple[int, int, int]

POINTER_BITS = 64


class Equation(NamedTuple):
    """`fact = compute(facts of operands)`; an operand without a fact yet is None."""

    operands: tuple[SSAValue, ...]
    compute: Callable[[Sequence[Fact | None]], Fact | None]


def width_of(value: SSAValue) -> int | None:
    """Bits of an integer, a pointer, or an element of a tile of these; None for other types."""
    element: Attribute = tile.element_of(value)
    if isinstance(element, IntegerType):
        return element.width.data
    return POINTER_BITS if isinstance(element, tile.PtrType | IndexType) else None


def equation(value: SSAValue, bits: int, promise: Promise, grid: Grid) -> Equation:
    """The equation of an integer or pointer of `bits` bits."""
    op = value.owner
    if isinstance(op, Block):
        return _block_argument(value, op, bits, promise)
    strict = _STRICT.get(type(op))
    if strict is not None:
        return _strict(op, strict, promise, grid)
    special = _SPECIAL.get(type(op))
    if special is not None:
        return special(op, value, bits, grid)
    return fixed(top(bits))


def fixed(fact: Fact) -> Equation:
    """The equation of a value that depends on no other."""
    return Equation((), lambda _: fact)


# ---- operations that need all their operands -----------------------------------------------------------

_EXACT = {arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp}
_DIVISIONS = {arith.DivSIOp, arith.RemSIOp}
_STRICT: dict[type[Operation], Callable[..., Fact]] = {
    arith.AddiOp: transfer.add,
    arith.SubiOp: transfer.sub,
    arith.MuliOp: transfer.mul,
    arith.ShLIOp: transfer.shift_left,
    arith.ShRSIOp: transfer.shift_right_signed,
    arith.ShRUIOp: transfer.shift_right_unsigned,
    arith.DivSIOp: transfer.divide_signed,
    arith.DivUIOp: transfer.divide_unsigned,
    arith.RemSIOp: transfer.remainder_signed,
    arith.RemUIOp: transfer.remainder_unsigned,
    arith.AndIOp: transfer.bit_and,
    arith.OrIOp: transfer.bit_or,
    arith.XOrIOp: transfer.bit_xor,
    arith.MinSIOp: transfer.minimum_signed,
    arith.MaxSIOp: transfer.maximum_signed,
    arith.MinUIOp: transfer.minimum_unsigned,
    arith.MaxUIOp: transfer.maximum_unsigned,
    math_dialect.AbsIOp: transfer.absolute,
}


def _remainder_of(op: arith.SubiOp) -> Operation | None:
    """The division `x / d` if `op` is `x - x / d * d`, a remainder in other words."""
    product = op.rhs.owner
    if isinstance(product, arith.MuliOp):
        for quotient, divisor in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            division = quotient.owner
            if isinstance(division, arith.DivSIOp | arith.DivUIOp) and (
                division.lhs is op.lhs and division.rhs is divisor
            ):
                return division
    return None


def _to_last_program(op: arith.SubiOp) -> tuple[int, bool] | None:
    """The axis along which `op` subtracts the number of programs from a program's index, or with True the index from the
    number."""
    ends: list[Operation | Block] = []
    for operand in op.operands:
        end = operand.owner
        while isinstance(end, arith.ExtSIOp | arith.ExtUIOp):
            end = end.input.owner
        ends.append(end)
    for swapped, (index, count) in enumerate((ends, ends[::-1])):
        if isinstance(index, tile.ProgramIdOp) and isinstance(count, tile.NumProgramsOp):
            axis = index.axis.value.data
            return (axis, bool(swapped)) if axis == count.axis.value.data else None
    return None


def _strict(op: Operation, function: Callable[..., Fact], promise: Promise, grid: Grid) -> Equation:
    more: tuple[bool, ...] = ()
    if isinstance(op, arith.SubiOp) and (found := _to_last_program(op)) is not None:
        (axis, swapped), bits = found, width_of(op.result) or 0
        low, high = (1, grid[axis]) if swapped else (-grid[axis], -1)
        return fixed(signed_range(bits, low, high))
    if isinstance(op, arith.SubiOp) and (division := _remainder_of(op)) is not None:
        signed = isinstance(division, arith.DivSIOp)
        function = transfer.remainder_signed if signed else transfer.remainder_unsigned
        more = (division in promise.divisions,) if signed else ()
        return _made_of(division.operands, lambda *facts: function(*facts, *more))
    if type(op) in _EXACT:
        more = (op in promise.no_wrap or is_flagged(op),)
    elif type(op) in _DIVISIONS:
        more = (op in promise.divisions,)
    index = op.attributes.get(LOOP_INDEX)

    def of_operands(*facts: Fact) -> Fact:
        fact = function(*facts, *more)
        if isinstance(index, DenseArrayBase):
            low, high = (int(v) for v in index.get_values())
            fact = meet(fact, signed_range(fact.bits, low, high))
        return fact

    return _made_of(op.operands, of_operands)


def _made_of(operands: Sequence[SSAValue], function: Callable[..., Fact]) -> Equation:
    """The equation of a value that has no fact while one of `operands` has none."""

    def compute(facts: Sequence[Fact | None]) -> Fact | None:
        return None if None in facts else function(*facts)

    return Equation(tuple(operands), compute)


# ---- other operations -------------------------------------------------------------------------------------


def _joined(operands: Sequence[SSAValue]) -> Equation:
    """The equation of a value that is one of `operands`."""

    def compute(facts: Sequence[Fact | None]) -> Fact | None:
        found: Fact | None = None
        for fact in facts:
            if fact is not None:
                found = fact if found is None else join(found, fact)
        return found

    return Equation(tuple(operands), compute)


def _constant(op: arith.ConstantOp, value: SSAValue, bits: int, grid: Grid) -> Equation:
    held = op.value
    if isinstance(held, IntegerAttr):
        return fixed(constant(held.value.data, bits))
    if isinstance(held, DenseIntOrFPElementsAttr):
        numbers = [constant(v, bits) for v in set(held.get_values()) if isinstance(v, int)]
        fact = numbers[0]
        for number in numbers[1:]:
            fact = join(fact, number)
        return fixed(fact)
    return fixed(top(bits))


_RESIZED: dict[type[Operation], Callable[[Fact, int], Fact]] = {
    arith.ExtSIOp: transfer.extend_signed,
    arith.ExtUIOp: transfer.extend_unsigned,
    arith.TruncIOp: transfer.truncate,
}


def _resize(op: Operation, value: SSAValue, bits: int, grid: Grid) -> Equation:
    return _made_of(op.operands, lambda fact: _RESIZED[type(op)](fact, bits))


def _index_cast(op: arith.IndexCastOp, value: SSAValue, bits: int, grid: Grid) -> Equation:
    if width_of(op.input) == bits:
        return _same(op, value, bits, grid)
    change = transfer.truncate if (width_of(op.input) or 0) > bits else transfer.extend_signed
    return _made_of((op.input,), lambda fact: change(fact, bits))


def _same(op: Operation, value: SSAValue, bits: int, grid: Grid) -> Equation:
    source = op.operands[0]
    return _joined([source]) if width_of(source) == bits else fixed(top(bits))


def _compare(op: tile.CmpIOp, value: SSAValue, bits: int, grid: Grid) -> Equation:
    if width_of(op.lhs) is None:
        return fixed(top(bits))
    predicate = op.predicate.data
    return _made_of((op.lhs, op.rhs), lambda a, b: transfer.compare(predicate, a, b))


def _hint(op: tile.HintOp, value: SSAValue, bits: int, grid: Grid) -> Equation:
    """`multiple_of` of a scalar or pointer. For a tile it constrains the first element of each run only."""
    if op.kind.data not in ("multiple_of", tile.ALIGNED) or tile.is_tile(value):
        return _same(op, value, bits, grid)
    zeros = max(trailing_zeros(int(v), bits) for v in op.values.get_values())
    return _made_of((op.source,), lambda fact: meet(fact, multiple(zeros, bits)))


def _advance(op: tile.AddPtrOp, value: SSAValue, bits: int, grid: Grid) -> Equation:
    """Addresses count bytes; an offset is sign-extended."""

    def moved(pointer: Fact, offset: Fact) -> Fact:
        return multiple(min(pointer.zeros, _byte_zeros(value, offset, bits), bits), bits)

    return _made_of((op.pointer, op.offset), moved)


def _region_result(op: Operation, value: SSAValue, bits: int, grid: Grid) -> Equation:
    """Results of `scf.for`, `scf.if` and `scf.while`."""
    if isinstance(op, scf.ForOp):
        return _carried(op, position_of(value), bits)
    return _joined(incoming(value) or ())


_PASSED_ON = (
    gpu.ConvertLayoutOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.ReshapeOp, tile.TransOp, tile.SplitOp,
    tile.GatherOp, tile.BitcastOp, tile.IntToPtrOp, tile.PtrToIntOp,
)  # fmt: skip
"""Operations whose result has elements of the first operand."""
_SPECIAL: dict[type[Operation], Callable[[Any, SSAValue, int, Grid], Equation]] = {
    arith.ConstantOp: _constant,
    **dict.fromkeys(_RESIZED, _resize),
    arith.IndexCastOp: _index_cast,
    tile.ArangeOp: lambda op, value, bits, grid: fixed(
        of_range(bits, op.start.value.data, op.end.value.data - 1)
    ),
    tile.ProgramIdOp: lambda op, value, bits, grid: fixed(
        signed_range(bits, 0, grid[op.axis.value.data] - 1)
    ),
    tile.NumProgramsOp: lambda op, value, bits, grid: fixed(
        signed_range(bits, 1, grid[op.axis.value.data])
    ),
    tile.CmpIOp: _compare,
    tile.HintOp: _hint,
    tile.AddPtrOp: _advance,
    **dict.fromkeys(
        (tile.SelectOp, tile.JoinOp, tile.CatOp), lambda op, *_: _joined(op.operands[-2:])
    ),
    **dict.fromkeys(_PASSED_ON, _same),
    **dict.fromkeys((scf.ForOp, scf.IfOp, scf.WhileOp), _region_result),
}


# ---- block arguments and loops -------------------------------------------------------------------------------


def _block_argument(value: SSAValue, block: Block, bits: int, promise: Promise) -> Equation:
    parent = block.parent_op()
    if not isinstance(value, BlockArgument):
        return fixed(top(bits))
    if isinstance(parent, FuncOp):
        return fixed(_parameter(parent, value.index, bits))
    if isinstance(parent, scf.ForOp):
        if value.index == 0:
            return _counter(parent, bits)
        return _carried(parent, value.index - 1, bits, promise)
    passed = incoming(value) if isinstance(parent, scf.WhileOp) else None
    return fixed(top(bits)) if passed is None else _joined(passed)


def _parameter(function: FuncOp, index: int, bits: int) -> Fact:
    attributes = function.arg_attrs.data[index].data if function.arg_attrs else {}
    given = attributes.get("tile.divisibility")
    fact = signed_range(bits, 0, top(bits).smax) if "tile.nonnegative" in attributes else top(bits)
    if not isinstance(given, IntegerAttr):
        return fact
    return meet(fact, multiple(trailing_zeros(given.value.data, bits), bits))


def _counter(loop: scf.ForOp, bits: int) -> Equation:
    """`lb, lb + step, …` below `ub`: the body does not run otherwise."""
    step = constant_int(loop.step)
    if step is None or step <= 0:
        return fixed(top(bits))

    def between(low: Fact, high: Fact) -> Fact:
        zeros = min(low.zeros, trailing_zeros(step, bits))
        return signed_range(bits, low.smin, high.smax - 1, zeros)

    return _made_of((loop.lb, loop.ub), between)


def _carried(loop: scf.ForOp, position: int, bits: int, promise: Promise | None = None) -> Equation:
    """Return the equation of a loop-carried value: in the body under a promise, or after the loop (None).

    In the body, the value is the sum of the previous iteration. If that sum is promised not to wrap because it
    forms an address, the value stays in range. The final sum, which no iteration uses, is not covered by the promise.
    """
    last = loop.body.block.last_op
    if last is None:
        return fixed(top(bits))
    init, following = loop.iter_args[position], last.operands[position]
    argument = loop.body.block.args[position + 1]
    amount = advanced_by(argument, following.owner)
    step = constant_int(loop.step)
    if amount is None or step is None or step <= 0 or width_of(init) != bits:
        return _joined([init, following])
    by, sign = amount
    pointer = isinstance(tile.element_of(argument), tile.PtrType)
    exact = promise is not None and (
        following.owner in promise.no_wrap or is_flagged(cast(Operation, following.owner))
    )

    def compute(facts: Sequence[Fact | None]) -> Fact | None:
        start, change, low, high = facts
        if start is None:
            return None
        if change is None or low is None or high is None:
            return start
        trips = max(0, -(-(high.smax - low.smin) // step) - (promise is not None))
        if pointer:
            return multiple(min(start.zeros, _byte_zeros(argument, change, bits)), bits)
        ends = (0, sign * change.smin * trips, sign * change.smax * trips)
        ranged = signed_range if exact else of_range
        zeros = min(start.zeros, change.zeros)
        return ranged(bits, start.smin + min(ends), start.smax + max(ends), zeros)

    return Equation((init, by, loop.lb, loop.ub), compute)


def advanced_by(argument: SSAValue, op: Operation | Block) -> tuple[SSAValue, int] | None:
    """Return the step added to a loop-carried value per iteration, and its sign."""
    if isinstance(op, arith.AddiOp):
        if op.lhs is argument:
            return op.rhs, 1
        if op.rhs is argument:
            return op.lhs, 1
    elif isinstance(op, arith.SubiOp) and op.lhs is argument:
        return op.rhs, -1
    elif isinstance(op, tile.AddPtrOp) and op.pointer is argument:
        return op.offset, 1
    return None


def _byte_zeros(pointer: SSAValue, offset: Fact, bits: int) -> int:
    """Return the known trailing zeros of an element offset in bytes."""
    kind = tile.element_of(pointer)
    size = tile.element_bytes(kind.pointee) if isinstance(kind, tile.PtrType) else 1
    return bits if offset.constant == 0 else offset.zeros + trailing_zeros(size, bits)
