"""Emit the operations of a fusion group for one chunk: the values of tiles at given coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.cpu.analysis.classify import (
    butterfly_mask,
    is_elementwise,
    is_virtual,
)
from tilewright.passes.cpu.nest import memory
from tilewright.passes.cpu.nest.coordinates import (
    Coordinate,
    Coordinates,
    NeedsScalar,
    broadcast,
    drop,
    key_of,
    lanes_at,
    permute,
    reshape,
)
from tilewright.passes.cpu.nest.emit import Emitter, Index


@dataclass(frozen=True)
class Facts:
    """Assumptions of one version of a loop nest."""

    full: frozenset[tuple[SSAValue, int]] = frozenset()
    """(limit, dimension of an access) pairs that mask no element of the accessed tile."""
    below: frozenset[tuple[SSAValue, Index, int]] = frozenset()
    """(limit, base, lanes) of coordinates all of whose lanes are below a limit, whichever dimension of an access is there."""
    unwrapped: frozenset[tuple[SSAValue, SSAValue]] = frozenset()
    """(start, size) pairs of wrapped dimensions that do not wrap inside the tile."""
    streams: Mapping[Operation, SSAValue] = field(default_factory=dict[Operation, SSAValue])
    """Stores that may bypass the caches, and whether they should (`streaming`)."""

    def masks_nothing(self, limit: SSAValue, dim: int, at: Coordinate) -> bool:
        """Whether a limit of an access along `dim` leaves all lanes at `at` live."""
        return (limit, dim) in self.full or (limit, at.base, at.lanes) in self.below

    def with_below(self, limits: Iterable[SSAValue], at: Coordinate) -> Facts:
        """These, and that all lanes at `at` are below `limits`."""
        new = frozenset((limit, at.base, at.lanes) for limit in limits)
        return replace(self, below=self.below | new) if new else self


class Body:
    """Emits values in one scope of a nest; nested scopes reuse values of enclosing scopes."""

    def __init__(
        self,
        emit: Emitter,
        facts: Facts,
        addresses: dict[SSAValue, SSAValue],
        outer: Body | None = None,
    ) -> None:
        self.emit = emit
        self.facts = facts
        self.addresses = addresses
        self.outer = outer
        self._tiles: dict[tuple[SSAValue, tuple[object, ...]], SSAValue] = {}
        self._scalars: dict[SSAValue, SSAValue] = {}

    def nested(self, emit: Emitter, facts: Facts | None = None) -> Body:
        return Body(emit, facts or self.facts, self.addresses, self)

    # ---- what is known ----

    def bind(self, value: SSAValue, at: Coordinates, result: SSAValue) -> None:
        self._tiles[value, key_of(at)] = result

    def address_of(self, buffer: SSAValue) -> SSAValue:
        """Pointer to the first element of a scratch buffer."""
        return self.addresses[buffer]

    def bind_scalar(self, value: SSAValue, result: SSAValue) -> None:
        self._scalars[value] = result

    def scalar(self, value: SSAValue) -> SSAValue:
        """Return the scalar that replaces `value` here (`value` itself if it is defined outside the group)."""
        scope: Body | None = self
        while scope is not None:
            if value in scope._scalars:
                return scope._scalars[value]
            scope = scope.outer
        return value

    def _known(self, value: SSAValue, key: tuple[object, ...]) -> SSAValue | None:
        scope: Body | None = self
        while scope is not None:
            if (found := scope._tiles.get((value, key))) is not None:
                return found
            scope = scope.outer
        return None

    # ---- values ----

    def at(self, value: SSAValue, at: Coordinates) -> SSAValue:
        """Return `value` at `at`: a vector of the chunk's lanes, or a scalar if it is uniform."""
        if not tile.is_tile(value):
            return self.scalar(value)
        key = key_of(at)
        known = self._known(value, key)
        if known is None:
            if isinstance(value.owner, Block):
                raise NeedsScalar(f"carried tile at other coordinates: {value}")
            with self.emit.located(value.owner):
                known = self._make(value.owner, value, at)
            self._tiles[value, key] = known
        return known

    def lanes(self, value: SSAValue, at: Coordinates) -> SSAValue:
        """Like `at`, but uniform values are splatted to the chunk's lanes."""
        return self.emit.splat(self.at(value, at), lanes_at(at))

    def _make(self, op: Operation, value: SSAValue, at: Coordinates) -> SSAValue:
        shape_maker = SHAPES.get(type(op))
        if shape_maker is not None:
            return shape_maker(self, op, value, at)
        if isinstance(op, cpu.ReadOp):
            return memory.read_buffer(self, op.buffer, at)
        if isinstance(op, tile.Load):
            return memory.load(self, op, at)
        if is_elementwise(op):
            return self._elementwise(op, at)
        raise NeedsScalar(f"{op.name} at a chunk")

    def _elementwise(self, op: Operation, at: Coordinates) -> SSAValue:
        operands = [self.at(v, at) for v in op.operands]
        lanes = max(cpu.lanes_of(v) for v in operands)
        if lanes > 1:
            operands = [self.emit.splat(v, lanes) for v in operands]
        kinds = [cpu.vector_of(tile.element_of(r), lanes) for r in op.results]
        copy = type(op).create(operands=operands, result_types=kinds, properties=op.properties)
        return self.emit.add(copy)

    # ---- operations in program order ----

    def run(self, ops: list[Operation], at: Coordinates) -> None:
        """Emit the operations of an element-wise block at `at`, in order; callers handle terminators."""
        for op in ops:
            if isinstance(op, scf.ForOp):
                self._for(op, at)
            elif isinstance(op, scf.IfOp):
                self._if(op, at)
            elif isinstance(op, scf.YieldOp | cpu.YieldOp):
                continue
            elif op.results and tile.is_tile(op.results[0]):
                if not is_virtual(op):
                    self.at(op.results[0], at)
            else:
                self._scalar_op(op)

    def _scalar_op(self, op: Operation) -> None:
        copy = op.clone()
        for i, operand in enumerate(copy.operands):
            copy.operands[i] = self.scalar(operand)
        self.emit.block.add_op(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            self.bind_scalar(old, new)

    def _for(self, op: scf.ForOp, at: Coordinates) -> None:
        carried = self._made(op.iter_args, at)
        block = Block(arg_types=[op.body.block.args[0].type, *(v.type for v in carried)])
        inner = self.nested(self.emit.inside(block))
        inner.bind_scalar(op.body.block.args[0], block.args[0])
        inner._bind_all(op.body.block.args[1:], block.args[1:], at)
        inner.run(list(op.body.block.ops), at)
        inner.emit.yield_values(inner._made(end_of(op.body.block).operands, at))
        new_op = scf.ForOp.create(
            operands=[self.scalar(v) for v in (op.lb, op.ub, op.step)] + carried,
            result_types=[v.type for v in carried],
            regions=[Region(block)],
            location=op.location,
        )
        self.emit.block.add_op(new_op)
        self._bind_all(op.results, new_op.results, at)

    def _if(self, op: scf.IfOp, at: Coordinates) -> None:
        lanes = lanes_at(at)
        kinds = [
            cpu.vector_of(tile.element_of(r), lanes) if tile.is_tile(r) else r.type
            for r in op.results
        ]
        blocks = []
        for region in op.regions:
            block = Block()
            inner = self.nested(self.emit.inside(block))
            if region.blocks:
                inner.run(list(region.block.ops), at)
                inner.emit.yield_values(inner._made(end_of(region.block).operands, at))
            else:
                inner.emit.yield_values([])
            blocks.append(block)
        new_op = scf.IfOp.create(
            operands=[self.scalar(op.cond)],
            result_types=kinds,
            regions=[Region(b) for b in blocks],
            location=op.location,
        )
        self.emit.block.add_op(new_op)
        self._bind_all(op.results, new_op.results, at)

    def _made(self, values: Sequence[SSAValue], at: Coordinates) -> list[SSAValue]:
        return [self.lanes(v, at) if tile.is_tile(v) else self.scalar(v) for v in values]

    def _bind_all(
        self, olds: Sequence[SSAValue], made: Sequence[SSAValue], at: Coordinates
    ) -> None:
        for old, new in zip(olds, made, strict=True):
            if tile.is_tile(old):
                self.bind(old, at, new)
            else:
                self.bind_scalar(old, new)


# ---- shape operations: the same value at other coordinates ----------------------------------------


def _splat(body: Body, op: tile.SplatOp, _: SSAValue, at: Coordinates) -> SSAValue:
    return body.scalar(op.source)


def _arange(body: Body, op: tile.ArangeOp, value: SSAValue, at: Coordinates) -> SSAValue:
    (c,) = at
    emit = body.emit
    kind = tile.element_of(value)
    base = emit.truncated(emit.plus(c.base, op.start.value.data), kind)
    if c.lanes == 1:
        return base
    return emit.make(cpu.IotaOp, [base], cpu.vector_of(kind, c.lanes))


def _broadcast(body: Body, op: tile.BroadcastOp, _: SSAValue, at: Coordinates) -> SSAValue:
    return body.at(op.source, broadcast(at, tile.shape_of(op.source)))


def _expand_dims(body: Body, op: tile.ExpandDimsOp, _: SSAValue, at: Coordinates) -> SSAValue:
    return body.at(op.source, drop(at, op.axis.value.data))


def _trans(body: Body, op: tile.TransOp, _: SSAValue, at: Coordinates) -> SSAValue:
    return body.at(op.source, permute(at, op.permutation))


def _reshape(body: Body, op: tile.ReshapeOp, value: SSAValue, at: Coordinates) -> SSAValue:
    source = reshape(body.emit, at, tile.shape_of(value), tile.shape_of(op.source))
    if source is None:
        raise NeedsScalar("a reshape tears the chunk apart")
    return body.at(op.source, source)


def _split(body: Body, op: tile.SplitOp, value: SSAValue, at: Coordinates) -> SSAValue:
    half = 0 if value is op.lhs else 1
    return body.at(op.source, (*at, Coordinate(half)))


def _hint(body: Body, op: tile.HintOp, _: SSAValue, at: Coordinates) -> SSAValue:
    return body.at(op.source, at)


def _join(body: Body, op: tile.JoinOp, _: SSAValue, at: Coordinates) -> SSAValue:
    *outer, last = at
    if lanes_at(at) > 1 and last.lanes > 1:
        raise NeedsScalar("a join interleaves")
    lhs, rhs = body.at(op.lhs, tuple(outer)), body.at(op.rhs, tuple(outer))
    if isinstance(last.base, int):
        return rhs if last.base else lhs
    return _choose(body, body.emit.compare("eq", last.base, 0), lhs, rhs)


def _cat(body: Body, op: tile.CatOp, _: SSAValue, at: Coordinates) -> SSAValue:
    axis = op.axis.value.data
    c = at[axis]
    if c.lanes > 1:
        raise NeedsScalar("a concatenation changes source inside a chunk")
    emit = body.emit
    first = tile.shape_of(op.lhs)[axis]
    second = tile.shape_of(op.rhs)[axis]
    in_first = emit.less(c.base, first)
    left = list(at)
    left[axis] = Coordinate(emit.smallest(c.base, first - 1))
    right = list(at)
    right[axis] = Coordinate(emit.smallest(emit.largest(emit.minus(c.base, first), 0), second - 1))
    return _choose(body, in_first, body.at(op.lhs, tuple(left)), body.at(op.rhs, tuple(right)))


def _gather(body: Body, op: tile.GatherOp, _: SSAValue, at: Coordinates) -> SSAValue:
    axis = op.axis.value.data
    if (mask := butterfly_mask(op)) is not None:
        return _butterfly(body, op.source, at, axis, mask)
    if lanes_at(at) > 1:
        raise NeedsScalar("a gather reads each lane on its own")
    index = body.at(op.index, at)
    if isinstance(index.type, IntegerType) and index.type != i64:
        index = body.emit.make(arith.ExtSIOp, [index], i64)
    source = list(at)
    source[axis] = Coordinate(index)
    return body.at(op.source, tuple(source))


def _butterfly(body: Body, source: SSAValue, at: Coordinates, axis: int, mask: int) -> SSAValue:
    """`source` at `i ^ mask` along `axis`: another chunk, whose base is a multiple of its lanes, with its lanes exchanged."""
    emit, c = body.emit, at[axis]
    within, beyond = mask % c.lanes, mask - mask % c.lanes
    place = list(at)
    if beyond:
        base = emit.value(c.base)
        place[axis] = Coordinate(emit.binary(arith.XOrIOp, base, emit.value(beyond)), c.lanes)
    value = body.at(source, tuple(place))
    if not within or cpu.lanes_of(value) == 1:
        return value
    return emit.make(cpu.ShuffleXorOp, [value], value.type, mask=IntegerAttr(within, i32))


def _choose(body: Body, condition: bool | SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    if isinstance(condition, bool):
        return a if condition else b
    lanes = max(cpu.lanes_of(a), cpu.lanes_of(b))
    emit = body.emit
    a, b = emit.splat(a, lanes), emit.splat(b, lanes)
    return emit.make(tile.SelectOp, [emit.splat(condition, lanes), a, b], a.type)


SHAPES: dict[type[Operation], Callable[[Body, Any, SSAValue, Coordinates], SSAValue]] = {
    tile.SplatOp: _splat,
    tile.ArangeOp: _arange,
    tile.BroadcastOp: _broadcast,
    tile.ExpandDimsOp: _expand_dims,
    tile.TransOp: _trans,
    tile.ReshapeOp: _reshape,
    tile.SplitOp: _split,
    tile.HintOp: _hint,
    tile.JoinOp: _join,
    tile.CatOp: _cat,
    tile.GatherOp: _gather,
}
