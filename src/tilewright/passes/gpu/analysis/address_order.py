"""Which dimension of an access neighbouring lanes follow, where no dimension is known to be contiguous.

The distance between neighbours along a dimension is estimated, not proven: `x // n` stands still, `x % n` moves as
`x` does, a pitch that is known to be a multiple of 16 is taken to be larger than another. Only the order of lanes
depends on it, never which addresses are accessed.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import position_of
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts

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
    if isinstance(op, tile.LoadViewOp | tile.StoreViewOp | gpu.AsyncCopyOp):
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
            case tile.ExpandDimsOp():
                axis = op.axis.value.data
                return 0 if dim == axis else self.of(op.source, dim - (dim > axis))
            case tile.BroadcastOp():
                return self.of(op.source, dim)
            case tile.TransOp():
                return self.of(op.source, tuple(op.permutation)[dim])
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
        return self.of(loop.iter_args[position_of(value, block.args) - 1], dim)
