"""Compute values that are uniform along a dimension once, not for each element along it.

Tiles are as large as the kernel that is written says: `x * rsqrt(variance[column] + eps)` takes a root per element, if its
author loads a column's variance for every row. Divisions and functions of uniform operands are done on a tile with extent
1 there, which is broadcast.
"""

from __future__ import annotations

from itertools import takewhile
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.effects import erase_dead, has_effect
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.cpu.analysis.classify import is_elementwise, is_expensive
from tilewright.passes.cpu.analysis.hazards import writes_memory

_LEAST = 8
"""Elements of the smallest tile that is worth a separate loop."""

Dims = frozenset[int]


def narrow_uniform_values(function: FuncOp) -> None:
    """Rewrite expensive element-wise operations of a kernel, up to the first that writes to memory.

    After a write or a loop, a separate loop would keep the operations around it from sharing one.
    """
    before = takewhile(lambda op: not (writes_memory(op) or op.regions), function.body.block.ops)
    narrower = _Narrower()
    for op in reversed(list(before)):  # what they are computed from is narrowed with them
        if op.results and not op.results[0].uses:
            continue  # has been
        if is_expensive(op) and len(op.results) == 1 and tile.is_tile(op.results[0]):
            narrower.narrow(op)
    if narrower.found:
        erase_dead(function.body.block)


class _Narrower:
    def __init__(self) -> None:
        self.found = False
        """Whether an operation has been rewritten."""
        self._facts = Facts()
        self._known: dict[SSAValue, Dims] = {}
        self._narrow: dict[tuple[SSAValue, Dims], SSAValue] = {}

    def narrow(self, op: Operation) -> None:
        result = op.results[0]
        shape, dims = tile.shape_of(result), self._uniform(result)
        if not dims or prod(shape) // prod(shape[d] for d in dims) < _LEAST:
            return
        wide = Emitter(op).broadcast(self._narrowed(result, dims), shape)
        wide.name_hint = result.name_hint
        result.replace_all_uses_with(wide)
        erase(op)
        self.found = True

    def _uniform(self, value: SSAValue) -> Dims:
        """The dimensions of several elements along which a tile is uniform."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._uniform_result(value)
        return found

    def _uniform_result(self, value: SSAValue) -> Dims:
        op, shape = value.owner, tile.shape_of(value)
        every = frozenset(d for d, extent in enumerate(shape) if extent > 1)
        match op:
            case tile.SplatOp():
                return every
            case tile.BroadcastOp():
                source = tile.shape_of(op.source)
                return frozenset(d for d in every if source[d] == 1)
            case tile.LoadViewOp():
                return frozenset(d for d in every if self._is_uniform_load(op, d))
            case Operation() if is_elementwise(op) and not (has_effect(op) or op.regions):
                tiles = [v for v in op.operands if tile.is_tile(v)]
                return every.intersection(*map(self._uniform, tiles)) if tiles else frozenset()
            case _:
                return frozenset()

    def _is_uniform_load(self, op: tile.LoadViewOp, dim: int) -> bool:
        """Whether a load gives the same along `dim`: a limit has all or none of the elements."""
        if op.mask is not None or (op.other is not None and tile.is_tile(op.other)):
            return False
        if tile.view_kinds(op)[dim] != "strided" or constant_int(op.strides[dim]) != 0:
            return False
        limits = tile.view_limits(op)
        extent = tile.shape_of(op.result)[dim]
        return dim not in limits or self._facts.divisor(limits[dim]) % extent == 0

    def _narrowed(self, value: SSAValue, dims: Dims) -> SSAValue:
        """`value` with extent 1 along `dims`, along which it is uniform."""
        found = self._narrow.get((value, dims))
        if found is None:
            found = self._narrow[value, dims] = self._make_narrow(value, dims)
        return found

    def _make_narrow(self, value: SSAValue, dims: Dims) -> SSAValue:
        op = value.owner
        assert isinstance(op, Operation)
        shape = tuple(1 if d in dims else e for d, e in enumerate(tile.shape_of(value)))
        emitter = Emitter(op)
        match op:
            case tile.SplatOp():
                return emitter.splat(op.source, shape)
            case tile.BroadcastOp():
                return emitter.broadcast(op.source, shape)
            case _:
                small = {v: self._narrowed(v, dims) for v in _computed_from(op)}
                kind = tile.with_shape(tile.element_of(value), shape)
                copy = type(op).create(
                    operands=[small.get(v, v) for v in op.operands],
                    result_types=[kind],
                    properties=op.properties,
                    attributes=op.attributes,
                )
                return emitter.insert(copy)


def _computed_from(op: Operation) -> list[SSAValue]:
    """The tiles that an element-wise operation computes with."""
    return [] if isinstance(op, tile.LoadViewOp) else [v for v in op.operands if tile.is_tile(v)]
