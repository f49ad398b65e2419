"""`widen-dots`: compute two iterations of a loop with narrow dots at once.

A dot of 32 columns reads the left operand from shared memory for every 32 columns: `wgmma` with N = 32 needs 192 bytes
per clock of the 128 that there are, with N = 64 just these. And a loop waits for its copies and its dots once per
iteration. Two iterations are one with tiles twice as wide if each tile of the loop is a block of columns (or of rows),
the next of which is that of the next iteration:

    for i in 0 … n:                          for i in 0 … n / 2:
      k = load columns 32 i … 32 i + 32        k = load columns 64 i … 64 i + 64
      p = exp2(dot(q, k))              ->      p = exp2(dot(q, k))
      sum = dot(p, kᵀ, sum)                    sum = dot(p, kᵀ, sum)
                                             if n is odd: the last iteration, as it was

Loads advance by their extent along that dimension, elementwise operations combine such tiles with each other and with
what is the same for all columns, one kind of dot has such a right operand and makes such a tile, and the other adds over
the columns: only its accumulators are carried. Loops with any other operation on tiles are left.

Off unless a kernel is compiled in the form that shares an SM by half of the registers (`runtime/compile_variants.py`):
where a producer warp copies, its loops keep their dots.

Requires: `select-mma`; operands of 16 bits and `wgmma`; registers for the accumulators of the wider dots.
Ensures: the same products are added, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import access_arithmetic
from tilewright.passes.analysis.edit import (
    Mapping,
    branch,
    end_of,
    replace_op,
    with_operands,
    yielded,
)
from tilewright.passes.analysis.effects import (
    defined_inside,
    erase_dead,
    is_pure,
    is_pure_elementwise,
)
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.analysis.facts import CUDA_GRID, Facts
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.projection import moved_dims
from tilewright.passes.analysis.symbolic import Symbolic
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.analysis.registers import registers_allowed
from tilewright.passes.gpu.select_mma import is_wgmma
from tilewright.targets import TargetInfo

WIDENED = "gpu.widened"
"""Attribute of a loop whose iterations do what two did: as far ahead as asked for are half as many."""
_BYTES = 2
"""Of an element of an operand."""
_SHARE = 0.8
"""Of the registers, for accumulators."""
_LANES = 32


@dataclass(frozen=True)
class WidenDots(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("select-mma", "normalize-loops")
    widest: int = 0
    """Columns up to which dots are widened."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()) if self.widest else ():
            if isinstance(op, scf.ForOp):
                axes = _Axes(op, self.widest)
                if axes.found() and _fits(op, axes, function):
                    _Widener(op, axes).run()
        if self.widest:
            erase_dead(function.body.block)


@dataclass
class _Axes:
    """Along which dimension each tile of a loop is one of the blocks that its iterations compute."""

    loop: scf.ForOp
    widest: int
    of: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    over_blocks: list[tile.DotOp] = field(default_factory=list[tile.DotOp])
    """Dots over all blocks, which only add to what the loop carries."""

    def found(self) -> bool:
        """Find the axes; whether the loop is one of such tiles."""
        loop = self.loop
        if not is_normalized(loop):
            return False
        body = loop.body.block
        wide = [op for op in body.ops if isinstance(op, tile.DotOp)]
        if not wide or not all(self._visit(op) for op in body.ops if op is not end_of(body)):
            return False
        ends = {op.result for op in self.over_blocks}
        carried = (v for v in end_of(body).operands if tile.is_tile(v))
        return (
            bool(self.over_blocks)
            and len(self.over_blocks) < len(wide)
            and all(v in ends for v in carried)
        )

    def _visit(self, op: Operation) -> bool:
        if not tile.has_tiles(op):
            return is_pure(op) and not op.regions
        if op.regions:
            return False
        axis = self._axis(op)
        if axis is not None:
            self.of.update(dict.fromkeys(op.results, axis))
        return axis is not None or op in self.over_blocks

    def _axis(self, op: Operation) -> int | None:
        """The axis of the result of an operation; None if it has none."""
        match op:
            case tile.LoadViewOp():
                return self._of_load(op)
            case tile.DotOp():
                return self._of_dot(op)
            case tile.TransOp() | tile.ExpandDimsOp() | tile.BroadcastOp():
                axis, moved = self.of.get(op.source), moved_dims(op) or {}
                return None if axis is None else moved[axis]
            case _ if is_pure_elementwise(op):
                return self._of_elementwise(op)
            case _:
                return None

    def _of_elementwise(self, op: Operation) -> int | None:
        tiles = [v for v in op.operands if tile.is_tile(v)]
        axes = {self.of[v] for v in tiles if v in self.of}
        if len(axes) != 1 or not all(tile.is_tile(v) for v in op.operands):
            return None
        axis = axes.pop()
        same = all(v in self.of or self._is_alike(v, axis) for v in tiles)
        return axis if same else None

    def _is_alike(self, value: SSAValue, axis: int) -> bool:
        """Whether a tile from before the loop has the same elements all along an axis."""
        op = value.owner
        if defined_inside(value, self.loop):
            return False
        if isinstance(op, tile.SplatOp):
            return True
        return isinstance(op, tile.BroadcastOp) and tile.shape_of(op.source)[axis] == 1

    def _of_dot(self, op: tile.DotOp) -> int | None:
        lhs, rhs = self.of.get(op.lhs), self.of.get(op.rhs)
        if len(tile.shape_of(op.result)) != 2 or not is_wgmma(op) or op.max_num_imprecise_acc:
            return None
        if any(tile.element_bytes(v) != _BYTES for v in (op.lhs, op.rhs)):
            return None
        if lhs is None and rhs == 1 and not defined_inside(op.lhs, self.loop):
            narrow = tile.shape_of(op.result)[1] <= self.widest
            return 1 if narrow and self._is_alike(op.acc, 1) else None
        if (lhs, rhs) == (1, 0) and self._is_carried(op):
            self.over_blocks.append(op)
        return None

    def _is_carried(self, op: tile.DotOp) -> bool:
        """Whether a dot adds to a value that the loop carries, and which nothing else uses."""
        acc, body = op.acc, self.loop.body.block
        if not isinstance(acc, BlockArgument) or acc.owner is not body or acc.index == 0:
            return False
        uses = [*acc.uses, *op.result.uses]
        return len(uses) == 2 and yielded(acc) is op.result

    def _of_load(self, op: tile.LoadViewOp) -> int | None:
        """The dimension along which the load of the next iteration follows."""
        kinds = tile.view_kinds(op)
        if op.mask is not None or any(kind != "strided" for kind in kinds):
            return None
        others = [*op.strides, *([] if op.other is None else [op.other])]
        if any(defined_inside(v, self.loop) or tile.is_tile(v) for v in others):
            return None
        symbols = Symbolic(Facts(access_arithmetic(op), CUDA_GRID))
        advance = symbols.advance_per_iteration(op.base, self.loop)
        for axis, (extent, stride) in enumerate(
            zip(tile.shape_of(op.result), op.strides, strict=True)
        ):
            if advance == Polynomial.constant(extent) * symbols.of(stride):
                return axis if self._limits_follow(op, axis, extent, symbols) else None
        return None

    def _limits_follow(
        self, op: tile.LoadViewOp, axis: int, extent: int, symbols: Symbolic
    ) -> bool:
        """Whether each iteration's limit along the axis is lower by the extent, and others stay."""
        for d, limit in tile.view_limits(op).items():
            change = symbols.change_per_iteration(symbols.of(limit), self.loop)
            if change is None or change.number != (-extent if d == axis else 0):
                return False
        return True


def _fits(loop: scf.ForOp, axes: _Axes, function: FuncOp) -> bool:
    """Whether registers hold the accumulators of the wider dots in addition to what the loop carries."""
    warps = warps_of(function)
    dots = [op for op in loop.body.block.ops if isinstance(op, tile.DotOp)]
    elements = sum(
        prod(tile.shape_of(op.result)) * (1 if op in axes.over_blocks else 2) for op in dots
    )
    return elements <= _SHARE * registers_allowed(loop, warps) * _LANES * warps


@dataclass(frozen=True)
class _Widener:
    """Rewrites one loop."""

    loop: scf.ForOp
    axes: _Axes

    def run(self) -> None:
        loop, e = self.loop, Emitter(self.loop)
        kind = loop.ub.type
        trips = constant_int(loop.ub)
        two = e.constant(2, kind)
        half = (
            e.constant(trips // 2, kind)
            if trips is not None
            else e.binary(arith.DivSIOp, loop.ub, two)
        )
        wide = self._widened(e, half, two)
        if Facts(grid=CUDA_GRID).of(loop.ub).zeros:
            replace_op(loop, wide.results)  # the number of iterations is even
            return
        self._leave_last(Emitter(loop), e.mul(half, two), wide)

    def _widened(self, e: Emitter, trips: SSAValue, two: SSAValue) -> scf.ForOp:
        """The loop of two iterations at once."""
        loop, body = self.loop, self.loop.body.block
        attributes = {**loop.attributes, WIDENED: UnitAttr()}
        new, inner = e.loop(
            [loop.lb, trips, loop.step], list(loop.iter_args), attributes, body.args
        )
        counter = inner.mul(new.body.block.args[0], two)
        mapping: Mapping = dict(zip(body.args[1:], new.body.block.args[1:], strict=True))
        mapping[body.args[0]] = counter
        for op in body.ops:
            if op is not end_of(body):
                self._widen(op, mapping, inner)
        ends = list(end_of(body).operands)
        first = [mapping.get(v, v) for v in ends]
        again: Mapping = dict(zip(body.args[1:], first, strict=True))
        again[body.args[0]] = inner.add(counter, loop.step)
        for op in body.ops:
            if op is not end_of(body) and not tile.has_tiles(op):
                inner.clone(op, again)
        inner.anchor.operands = [
            one if tile.is_tile(v) else self._advanced(i, new, inner) or again.get(v, v)
            for i, (v, one) in enumerate(zip(ends, first, strict=True))
        ]
        return new

    def _advanced(self, position: int, wide: scf.ForOp, inner: Emitter) -> SSAValue | None:
        """A carried scalar after two iterations, as one sum where it grows by the same amount in each; None for others."""
        body = self.loop.body.block
        following = end_of(body).operands[position]
        op, kind = following.owner, following.type
        if not isinstance(op, arith.AddiOp) or not isinstance(kind, IntegerType):
            return None
        if op.lhs is not body.args[position + 1] or defined_inside(op.rhs, self.loop):
            return None
        before = Emitter(wide)
        twice = before.mul(op.rhs, before.constant(2, kind))
        return inner.insert(with_operands(op, [wide.body.block.args[position + 1], twice], [kind]))

    def _widen(self, op: Operation, mapping: Mapping, e: Emitter) -> None:
        """A copy of an operation for twice as many columns."""
        axis = next((self.axes.of[v] for v in op.results if v in self.axes.of), None)
        if axis is None:
            e.clone(op, mapping)
            return
        operands = [
            mapping[v] if v in mapping else self._stretched(v, axis, op, e) for v in op.operands
        ]
        copy = e.insert_op(with_operands(op, operands, [_twice(v, axis) for v in op.results]))
        copy.location = op.location
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            mapping[old] = new

    def _stretched(self, value: SSAValue, axis: int, user: Operation, e: Emitter) -> SSAValue:
        """A value from before the loop for twice as many columns."""
        op = value.owner
        if isinstance(user, tile.DotOp) and value is not user.acc:
            return value
        if not tile.is_tile(value) or not isinstance(op, tile.SplatOp | tile.BroadcastOp):
            return value
        if user.results and tile.shape_of(value) != tile.shape_of(user.results[0]):
            return value
        return e.insert(with_operands(op, list(op.operands), [_twice(value, axis)]))

    def _leave_last(self, e: Emitter, done: SSAValue, wide: scf.ForOp) -> None:
        """Replace the loop by the last iteration of an odd number."""
        loop, body = self.loop, self.loop.body.block
        kind = loop.ub.type
        odd = e.compare("eq", e.binary(arith.AndIOp, loop.ub, e.constant(1, kind)), loop.step)
        mapping: Mapping = dict(zip(body.args, [done, *wide.results], strict=True))
        rest = branch(odd, [], wide.results, (), wide.results)
        e.insert_op(rest)
        end = end_of(rest.true_region.block)
        end.operands = Emitter(end).clone_body(body, mapping)
        replace_op(loop, rest.results)


def _twice(value: SSAValue, axis: int) -> Attribute:
    """The type of a tile that is twice as long along an axis."""
    shape = list(tile.shape_of(value))
    shape[axis] *= 2
    return tile.with_shape(tile.element_of(value), shape)
