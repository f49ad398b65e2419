"""Epilogue subtiles: compute a slice of a tile where it is stored, with its element-wise operations on the slice alone."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import insert_before, with_operands
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter


class Parts:
    """Parts, `extent` elements along dimension `dim`, of a tile that nothing but `user` needs the whole of; each
    is made before `place` when it is asked for."""

    def __init__(self, dim: int, extent: int, user: Operation, place: Operation) -> None:
        self.dim, self.extent, self.user, self.place = dim, extent, user, place
        self._made: dict[tuple[SSAValue, int], SSAValue] = {}
        self._followed: dict[SSAValue, bool] = {}

    def of(self, value: SSAValue, number: int) -> SSAValue:
        """Part `number` of `value`, a tile that threads have in registers, or one that is broadcast to it."""
        if not tile.is_tile(value) or tile.shape_of(value)[self.dim] == 1:
            return value
        key = (value, number)
        if key not in self._made:
            self._made[key] = self._make(value, number)
        return self._made[key]

    def sources(self, value: SSAValue) -> set[SSAValue]:
        """Tiles that threads have whole in registers while parts of `value` are made, one after another."""
        if not tile.is_tile(value) or 1 in tile.shape_of(value):
            return set()
        op = value.owner
        if isinstance(op, Block) or not self._follows(value):
            return {value}
        return {source for operand in op.operands for source in self.sources(operand)}

    def _make(self, value: SSAValue, number: int) -> SSAValue:
        op = value.owner
        if isinstance(op, Block) or not self._follows(value):
            return self._cut(value, number)
        operands = [self.of(v, number) for v in op.operands]
        copy = with_operands(op, operands, [self._type(value)])
        insert_before(copy, self.place)
        return copy.results[0]

    def _follows(self, value: SSAValue) -> bool:
        """Whether a tile is made for this alone, element by element, in the block: then so are its parts."""
        if value not in self._followed:
            self._followed[value] = self._is_followed(value)
        return self._followed[value]

    def _is_followed(self, value: SSAValue) -> bool:
        op = value.owner
        if isinstance(op, Block) or op.regions or len(op.results) != 1:
            return False
        if isinstance(op, tile.SplatOp):
            return True
        lane_wise = isinstance(op, tile.BroadcastOp) or is_pure_elementwise(op)
        rank = len(tile.shape_of(value))
        same = all(len(tile.shape_of(v)) == rank for v in op.operands if tile.is_tile(v))
        here = op.parent is self.place.parent
        return lane_wise and same and here and self._only_followed(value)

    def _only_followed(self, value: SSAValue) -> bool:
        """Whether nothing but operations of which parts are made uses the whole."""
        users = [use.operation for use in value.uses]
        return all(
            user is self.user
            or isinstance(user, gpu.ExtractSliceOp)
            or (len(user.results) == 1 and self._follows(user.results[0]))
            for user in users
        )

    def _cut(self, value: SSAValue, number: int) -> SSAValue:
        start = [
            number * self.extent if d == self.dim else 0 for d in range(len(tile.shape_of(value)))
        ]
        begin = DenseArrayBase.from_list(i64, start)
        return Emitter(self.place).make(gpu.ExtractSliceOp, [value], self._type(value), start=begin)

    def _type(self, value: SSAValue) -> Any:
        layout: Any = gpu.layout_of(value)
        return gpu.laid_out(tile.element_of(value), layout.subtile(self.dim, self.extent))
