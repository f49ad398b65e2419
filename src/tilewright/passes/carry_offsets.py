"""`carry-offsets`: carry a scalar offset through control flow instead of a tile of offsets or pointers.

Kernels advance whole tiles of pointers or offsets in their loops, `a_ptrs += BLOCK_K * stride`. All
lanes move by the same amount, so the loop need only carry that amount; the tile is rebuilt from its
value before the loop. The rebuilt tile is affine in the carried scalar, which is what `raise-access`
understands, and a tile of 4096 pointers is no longer live around the loop.

    Change:
          func.func @k(%p: tensor<64x!tile.ptr<f32>>, %x: tensor<64xf32>, %n: i32) {
            %zero = arith.constant 0 : i32
            %one = arith.constant 1 : i32
            %step = arith.constant 64 : i32
        +   %start = arith.constant 0 : i64
        -   %r = scf.for %i = %zero to %n step %one iter_args(%q = %p) -> (tensor<64x!tile.ptr<f32>>) : i32 {
        +   %r = scf.for %i = %zero to %n step %one iter_args(%c = %start) -> (i64) : i32 {
        +     %moved = tile.splat %c : i64 to tensor<64xi64>
        +     %q = tile.addptr %p, %moved : tensor<64x!tile.ptr<f32>>, tensor<64xi64> to tensor<64x!tile.ptr<f32>>
              tile.store %q, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
        -     %steps = tile.splat %step : i32 to tensor<64xi32>
        -     %next = tile.addptr %q, %steps : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
        -     scf.yield %next : tensor<64x!tile.ptr<f32>>
        +     %wide = arith.constant 64 : i64
        +     %next = arith.addi %c, %wide : i64
        +     scf.yield %next : i64
            }
            func.return
          }

Relies on: nothing. Works from the inside out, through nested `scf.for`, `scf.while` that hand their
values through unchanged, and `scf.if` whose branches start from one tile.

Scalar pointers are treated alike, so that the base of an access can be traced to an argument.

Guarantees: results are bitwise the same, wrapping included, because what is carried has the width of
the tile's integers (i64 for pointers). Tiles moved by a tile (not a scalar) stay as they are. Sums of
unsigned integers are marked (`tile.wraps`), so that `raise-access` assumes nothing of them. Of signed ones the
language promises that the amount does not wrap if the tile forms an address (`docs/language.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.tile import WRAPS, PtrType, element_of, shape_of
from tilewright.passes.analysis.edit import (
    drop_block_args,
    end_of,
    kept_results,
    post_order,
    rebuild,
    rebuild_for,
    replace,
    without,
)
from tilewright.passes.analysis.effects import defined_inside, erase_dead
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.projection import Projector
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo


class CarryOffsets(FunctionPass):
    relevant_ops = ("scf.for", "scf.while", "scf.if")

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        changed = False
        for op in post_order(function):
            if isinstance(op, scf.ForOp):
                changed |= _split_for(op)
            elif isinstance(op, scf.WhileOp):
                changed |= _split_while(op)
            elif isinstance(op, scf.IfOp):
                changed |= _split_if(op)
        if changed:
            erase_dead(function.body.block)


# ---- recognising --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Move:
    """One step of a tile: `amount` (equal lanes) added to it, or subtracted."""

    amount: SSAValue
    negative: bool
    wraps: bool = False
    """Whether it is arithmetic of unsigned integers."""


def _carries_offsets(value: SSAValue) -> bool:
    """Whether `value` is a pointer, a tile of pointers, or a tile of integers wider than a bit."""
    element = element_of(value)
    whole = isinstance(element, IntegerType) and element.width.data > 1
    return isinstance(element, PtrType) or (whole and bool(shape_of(value)))


def _uniform(value: SSAValue) -> bool:
    projector = Projector()
    return not projector.varies(value) and projector.can_project(value, None)


def _step(value: SSAValue) -> tuple[SSAValue, list[_Move]] | None:
    """The tile that `value` is one move away from, if it is."""
    op = value.owner
    if isinstance(op, tile.HintOp):
        return op.source, []
    if isinstance(op, tile.AddPtrOp) and _uniform(op.offset):
        return op.pointer, [_Move(op.offset, False)]
    if not isinstance(op, arith.AddiOp | arith.SubiOp):
        return None
    wraps, negative = WRAPS in op.attributes, isinstance(op, arith.SubiOp)
    if _uniform(op.rhs):
        return op.lhs, [_Move(op.rhs, negative, wraps)]
    if not negative and _uniform(op.lhs):
        return op.rhs, [_Move(op.lhs, negative, wraps)]
    return None


def _chain(value: SSAValue) -> list[tuple[SSAValue, list[_Move]]]:
    """`value` and the tiles it comes from by moves, each with the moves from there to `value`."""
    chain: list[tuple[SSAValue, list[_Move]]] = [(value, [])]
    while (previous := _step(chain[-1][0])) is not None:
        chain.append((previous[0], [*previous[1], *chain[-1][1]]))
    return chain


def _moves(value: SSAValue, origin: SSAValue) -> list[_Move] | None:
    """The moves that lead from `origin` to `value`, or None."""
    return next((moves for root, moves in _chain(value) if root is origin), None)


# ---- rewriting ----------------------------------------------------------------------------------


def _amount_type(origin: SSAValue) -> IntegerType:
    """The type of the scalar that is carried for `origin`: its own width wraps as the tile did."""
    element = element_of(origin)
    return element if isinstance(element, IntegerType) else i64


def _may_wrap(origin: SSAValue, moves: Sequence[_Move]) -> bool:
    """Whether nothing is promised of the amount that a tile is moved by: of unsigned integers."""
    pointer = isinstance(element_of(origin), PtrType)
    return not pointer and any(move.wraps for move in moves)


def _marked(value: SSAValue, wraps: bool) -> SSAValue:
    """A sum that was just emitted, marked if it may wrap."""
    if wraps and isinstance(value.owner, arith.AddiOp | arith.SubiOp):
        value.owner.attributes[WRAPS] = UnitAttr()
    return value


def _total(
    moves: Sequence[_Move],
    kind: IntegerType,
    emitter: Emitter,
    start: SSAValue | None = None,
    wraps: bool = False,
) -> SSAValue:
    """The sum of `moves` as a scalar of type `kind`, on top of `start`."""
    total = emitter.constant(0, kind) if start is None and not moves else start
    projector = Projector()
    for move in moves:
        amount = emitter.resize(projector.project(move.amount, None, emitter), kind)
        if total is None and not move.negative:
            total = amount
            continue
        before = emitter.constant(0, kind) if total is None else total
        total = (emitter.sub if move.negative else emitter.add)(before, amount)
        if total not in (before, amount):
            _marked(total, wraps)
    if total is None:
        raise ValueError("no total")
    return total


def _moved(origin: SSAValue, amount: SSAValue, emitter: Emitter, wraps: bool = False) -> SSAValue:
    """`origin`, a scalar or tile, with the scalar `amount` added to every lane."""
    amounts = emitter.splat(amount, shape_of(origin))
    if isinstance(element_of(origin), PtrType):
        return emitter.advance(origin, amounts)
    return _marked(emitter.binary(arith.AddiOp, origin, amounts), wraps)


def _zeros(inits: Sequence[SSAValue], emitter: Emitter) -> list[SSAValue]:
    """The amounts carried into a loop."""
    return [emitter.constant(0, _amount_type(init)) for init in inits]


def _split_for(loop: scf.ForOp) -> bool:
    last = end_of(loop.body.block)
    block = loop.body.block
    found: dict[int, list[_Move]] = {}
    for position, init in enumerate(loop.iter_args):
        if _carries_offsets(init):
            moves = _moves(last.operands[position], block.args[position + 1])
            if moves is not None:
                found[position] = moves
    if not found:
        return False
    inits = list(loop.iter_args)
    places = list(found)
    nexts = []
    wrapping = {p: _may_wrap(inits[p], moves) for p, moves in found.items()}
    for position, moves in found.items():
        kind, wraps = _amount_type(inits[position]), wrapping[position]
        carried = block.insert_arg(kind, len(block.args))
        nexts.append(_total(moves, kind, Emitter(last), carried, wraps))
        start = Emitter.at_start(block, loop.location)
        old = block.args[position + 1]
        carried.name_hint = old.name_hint
        old.replace_all_uses_with(_moved(inits[position], carried, start, wraps))
    last.operands = [*without(last.operands, places), *nexts]
    drop_block_args(block, [p + 1 for p in places])
    origins = {p: inits[p] for p in places}
    zeros = _zeros(list(origins.values()), Emitter(loop))
    _finish(loop, rebuild_for(loop, [*without(inits, places), *zeros]), origins, wrapping)
    return True


def _split_while(loop: scf.WhileOp) -> bool:
    before, after = loop.before_region.block, loop.after_region.block
    condition, last = end_of(loop.before_region.block), end_of(loop.after_region.block)
    passed = condition.operands[1:]
    if len(passed) != len(loop.arguments):
        return False
    found: dict[int, list[_Move]] = {}
    for position, init in enumerate(loop.arguments):
        if _carries_offsets(init) and passed[position] is before.args[position]:
            moves = _moves(last.operands[position], after.args[position])
            if moves is not None:
                found[position] = moves
    if not found:
        return False
    inits, places = list(loop.arguments), list(found)
    nexts, sent = [], []
    wrapping = {p: _may_wrap(inits[p], moves) for p, moves in found.items()}
    for position, moves in found.items():
        kind, wraps = _amount_type(inits[position]), wrapping[position]
        sent.append(before.insert_arg(kind, len(before.args)))
        carried = after.insert_arg(kind, len(after.args))
        nexts.append(_total(moves, kind, Emitter(last), carried, wraps))
        for block, amount in ((before, sent[-1]), (after, carried)):
            start = Emitter.at_start(block, loop.location)
            tile_there = _moved(inits[position], amount, start, wraps)
            block.args[position].replace_all_uses_with(tile_there)
    kept = without(list(condition.operands)[1:], places)  # read again: uses have been replaced
    condition.operands = [condition.operands[0], *kept, *sent]
    last.operands = [*without(last.operands, places), *nexts]
    drop_block_args(before, places)
    drop_block_args(after, places)
    origins = {p: inits[p] for p in places}
    arguments = [*without(inits, places), *_zeros(list(origins.values()), Emitter(loop))]
    new = rebuild(loop, arguments, [v.type for v in arguments])
    _finish(loop, new, origins, wrapping)
    return True


def _split_if(op: scf.IfOp) -> bool:
    if not op.results or not op.false_region.blocks:
        return False
    ends = [end_of(op.true_region.block), end_of(op.false_region.block)]
    origins: dict[int, SSAValue] = {}
    moves: dict[int, tuple[list[_Move], list[_Move]]] = {}
    for position, result in enumerate(op.results):
        if _carries_offsets(result):
            common = _common_origin(ends[0].operands[position], ends[1].operands[position], op)
            if common is not None:
                origins[position], moves[position] = common
    if not origins:
        return False
    places = list(origins)
    wrapping = {p: any(_may_wrap(origins[p], side) for side in sides) for p, sides in moves.items()}
    for side, end in enumerate(ends):
        amounts = [
            _total(moves[p][side], _amount_type(origins[p]), Emitter(end), wraps=wrapping[p])
            for p in places
        ]
        end.operands = [*without(end.operands, places), *amounts]
    kinds = [_amount_type(origin) for origin in origins.values()]
    types = [*(v.type for v in without(op.results, places)), *kinds]
    new = rebuild(op, [op.cond], types)
    _finish(op, new, origins, wrapping)
    return True


def _common_origin(
    lhs: SSAValue, rhs: SSAValue, op: scf.IfOp
) -> tuple[SSAValue, tuple[list[_Move], list[_Move]]] | None:
    """The tile outside `op` that both values are moved from, and the moves of each."""
    for origin, moves in _chain(lhs):
        other = _moves(rhs, origin)
        if other is not None and not defined_inside(origin, op):
            return origin, (moves, other)
    return None


def _finish(
    old: Operation, new: Operation, origins: dict[int, SSAValue], wrapping: dict[int, bool]
) -> None:
    """Swap `old` for `new`, whose last results are the amounts that `origins` are moved by."""
    kept = len(new.results) - len(origins)
    results = kept_results(len(old.results), list(origins), list(new.results[:kept]))
    amounts = new.results[kept:]
    for (position, origin), amount in zip(origins.items(), amounts, strict=True):
        if old.results[position].first_use is not None:
            results[position] = _moved(origin, amount, Emitter(old), wrapping[position])
    replace(old, new, results)
