"""Plan strip mining of a block: the operations that can run on a strip of rows, grouped into loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import ancestors, closure, sources
from tilewright.passes.analysis.edit import block_of, end_of, used_in
from tilewright.passes.analysis.effects import (
    defined_inside,
    has_effect,
    is_pure,
    is_pure_elementwise,
    is_terminator,
    is_volatile,
)
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.gpu.analysis.strips import cannot_clobber, may_interleave


class Plan:
    """The operations of a block to strip-mine; `known` is False if some of them cannot be.

    A value is *rowed* if strips of it are computed: it has the rows of the large tiles. Operands may be
    defined in this block or in enclosing blocks; the latter are rematerialized per strip. A loop that only
    carries rowed tiles (`loops`) is interchanged with the strip loop and counts as one operation.
    """

    def __init__(
        self,
        block: Block,
        place: Mapping[Operation, int],
        sizes: tuple[int, int, int],
        loops: frozenset[Operation] = frozenset(),
    ) -> None:
        """`place`: position of each operation in the function. `sizes`: elements above which a tile is large,
        elements per strip, and elements per strip of tiles of rank 2 and more."""
        limit, chunk, chunk_of_rows = sizes
        self.block, self.place, self.loops = block, place, loops
        self.rows = 0
        """Rows of the large tiles."""
        self.chunk = chunk
        """Rows per strip."""
        self.rowed: set[SSAValue] = set()
        self.made: set[SSAValue] = set()
        """Large tiles, and rowed values computed from them."""
        self.known = True
        """Whether every operation on large tiles can be strip-mined."""
        self.flat = 0
        """Elements of a flattened large tile, whose strips are flattened strips; 0 if tiles have rank 1."""
        large = self._large(limit)
        if not self.known or not large:
            return
        inner = max(prod(tile.shape_of(v)[1:]) for v in large)
        if inner > 1:
            self.chunk = max(1, chunk_of_rows // inner)
        self.known = self.rows % self.chunk == 0 and self.rows != self.chunk
        self.flat = self.rows * inner if inner > 1 else 0
        self.made |= large
        self._take_all(self.block)

    def _large(self, limit: int) -> set[SSAValue]:
        """Tiles of the highest rank with more than `limit` elements and more than one row.

        Requires equal numbers of rows; otherwise `known` becomes False.
        """
        large = {
            v
            for op in ops_of(self.block, self.loops)
            for v in (*op.operands, *op.results)
            if number_of_elements(v) > limit
        }
        rank = max((len(tile.shape_of(v)) for v in large), default=0)
        large = {v for v in large if len(tile.shape_of(v)) == rank and rows_of(v) > 1}
        rows = {rows_of(v) for v in large}
        self.known = len(rows) == 1
        self.rows = rows.pop() if self.known else 0
        return large

    # ---- operations to strip-mine ----

    def touches(self, op: Operation) -> bool:
        """Whether an operation defines or uses a strip-mined value."""
        if op in self.loops:
            return any(self.touches(inner) for inner in op.regions[0].block.ops)
        return any(v in self.made for v in (*op.operands, *op.results))

    def _take_all(self, block: Block) -> None:
        for op in block.ops:
            if not self.known:
                return
            if op in self.loops and self.touches(op):
                self._take_loop(cast(scf.ForOp, op))
            elif self.touches(op) and not (op.parent is not self.block and is_terminator(op)):
                self._take(op)
                self.made.update(() if is_sum_of_rows(op) else op.results)

    def _take(self, op: Operation) -> None:
        """Mark an operation, and the definitions of its row operands, as strip-mined."""
        pending = [op]
        while pending:
            current = pending.pop()
            sources = self.sources(current)
            if sources is None:
                self.known = False
                return
            if not is_sum_of_rows(current):
                self.rowed.update(current.results)
            for value in sources:
                if value in self.rowed:
                    continue
                if not isinstance(value.owner, Operation):
                    self.known = False
                    return
                pending.append(value.owner)

    def _take_loop(self, loop: scf.ForOp) -> None:
        """Mark a loop that carries rowed tiles. Requires pure, row-wise operations on them."""
        body, end = loop.body.block, end_of(loop.body.block)
        carried = list(zip(loop.iter_args, body.args[1:], end.operands, loop.results, strict=True))
        for init, arg, _, result in carried:
            if rows_of(arg) == self.rows:
                self.rowed.update((arg, result))
                self.made.update((arg, result))
                if isinstance(init.owner, Operation) and init not in self.rowed:
                    self._take(init.owner)
                self.known = self.known and init in self.rowed
        self._take_all(body)
        for op in body.ops:
            rowed = self.touches(op)
            may_be = isinstance(op, tile.Load) and not is_volatile(op)
            if rowed and is_sum_of_rows(op):
                self.known = False
            elif (op in self.loops and rowed) or op is end:
                continue
            elif not (may_be or is_pure(op)) or isinstance(op, tile.DotOp):
                self.known = False
        for _, arg, yielded, result in carried:
            if arg in self.rowed:
                if isinstance(yielded.owner, Operation) and yielded not in self.rowed:
                    self._take(yielded.owner)
                self.known = self.known and yielded in self.rowed
            elif yielded in self.made or result.first_use is not None:
                self.known = False

    def sources(self, op: Operation) -> list[SSAValue] | None:
        """The operands of which a strip of `op` uses the same strip; None if `op` cannot be strip-mined."""
        results = () if is_sum_of_rows(op) else op.results
        if any(rows_of(v) != self.rows and not self._is_flat(v) for v in results):
            return None
        tiles = [v for v in op.operands if tile.is_tile(v)]
        match op:
            case tile.LoadViewOp() | tile.StoreViewOp():
                return self._of_view(op, tiles)
            case tile.LoadOp() if is_volatile(op):
                return None
            case tile.SplatOp():
                return []
            case tile.ArangeOp():
                return [] if rows_of(op.result) == self.rows else None
            case tile.ReshapeOp():
                return tiles if rows_of(op.source) == self.rows else None
            case tile.BroadcastOp():
                return tiles if rows_of(op.source) == self.rows else []
            case tile.ExpandDimsOp():
                return tiles if op.axis.value.data > 0 else None
            case tile.ReduceOp():
                region = op.combine.block.ops
                simple = all(is_pure_elementwise(o) or isinstance(o, tile.YieldOp) for o in region)
                return tiles if simple or not is_sum_of_rows(op) else None
            case tile.ScanOp():
                return tiles if op.axis.value.data > 0 else None
            case tile.LoadOp() | tile.StoreOp():
                pass
            case _ if not is_pure_elementwise(op):
                return None
        is_of_strip = self._is_flat if any(map(self._is_flat, results)) else self._has_rows
        return tiles if all(map(is_of_strip, tiles)) else None

    def _has_rows(self, value: SSAValue) -> bool:
        return rows_of(value) == self.rows

    def _is_flat(self, value: SSAValue) -> bool:
        """Whether a value has the shape of a flattened large tile."""
        return self.flat > 0 and tile.shape_of(value) == (self.flat,)

    def strip_shape(self, value: SSAValue) -> tuple[int, ...]:
        """The shape of a strip of `value`."""
        if self._is_flat(value):
            return (self.flat // self.rows * self.chunk,)
        return (self.chunk, *tile.shape_of(value)[1:])

    def _of_view(self, op: Any, tiles: list[SSAValue]) -> list[SSAValue] | None:
        first = tile.view_kinds(op)[0]
        accessed = tile.accessed(op)
        if first == "wrapped" or rows_of(accessed) != self.rows:
            return None
        wide = prod(tile.shape_of(accessed)) > self.rows
        if wide and first == "strided" and constant_int(op.strides[0]) == 1:
            return None  # contiguous elements would fall into different strips
        columns = op.indices[first == "indexed" :]
        if any(tile.shape_of(v) == (self.rows,) for v in columns):
            return None
        return [v for v in tiles if v not in columns]

    def needs(self, op: Operation) -> list[SSAValue]:
        """The rowed operands of an operation that are defined outside of it."""
        return [v for v in used_by(op) if v in self.rowed and not defined_inside(v, op)]

    def whole_of(self, op: Operation) -> list[SSAValue]:
        """The operands of an operation, defined outside of it, that it uses as a whole."""
        rowed = self.sources(op) if op not in self.loops else None
        chunked = self.needs(op) if rowed is None else rowed
        return [v for v in used_by(op) if v not in chunked and not defined_inside(v, op)]

    # ---- grouping into loops ----

    def groups(self) -> list[Group]:
        """The groups of operations, one per strip loop; empty if the block cannot be strip-mined."""
        if not self.known or not self.rows:
            return []
        found: list[Group] = []
        group, last, is_across = Group(self), None, False
        for op in self.block.ops:
            large = self.touches(op)
            sink = large and (isinstance(op, tile.Store) or is_sum_of_rows(op))
            if sink and last is not None and not group.sinks and last.takes(op, is_across):
                last.sinks.append(op)
                continue
            outside = not large and self._outside(op)
            if group.sinks and (outside or ((sink or not large) and group.feeds(op))):
                group.before = op
                found.append(group)
                group, last, is_across = Group(self), group, False
            is_across |= outside
            if sink:
                group.sinks.append(op)
        return found if all(g.is_legal() for g in found) else []

    @staticmethod
    def _outside(op: Operation) -> bool:
        """Whether an operation without large tiles is a barrier to reordering."""
        return is_terminator(op) or not is_pure(op) or bool(op.regions)

    def is_needed_whole(self, planned: Mapping[Block, Plan]) -> bool:
        """Whether a nested block uses a strip-mined value of this block as a whole, unless the value is free to
        rematerialize or the nested block strip-mines it itself."""
        return any(
            not self._is_free(value)
            for value in self.made
            if isinstance(value.owner, Operation) and value.owner.parent is self.block
            for use in value.uses
            if (parent := use.operation.parent) is not self.block
            and (parent is None or parent not in planned or value not in planned[parent].rowed)
            and not self.in_loops(use.operation)
        )

    def _is_free(self, value: SSAValue) -> bool:
        """Whether a tile depends only on counters and scalars, none of them the result of a reduction here: such a scalar is
        computed where its loop ends, which may be below the tile."""

        def inside(value: SSAValue) -> bool:
            return isinstance(value.owner, Operation) and value.owner.parent is self.block

        def stays(value: SSAValue) -> bool:
            return not tile.is_tile(value) and not isinstance(value.owner, tile.ReduceOp)

        values = closure([value], lambda v: sources(v) if inside(v) and not stays(v) else ())
        owners = [v.owner for v in values if inside(v) and not stays(v)]
        return all(is_pure(op) and not op.regions for op in owners if isinstance(op, Operation))

    def in_loops(self, op: Operation) -> bool:
        """Whether an operation is within one of `loops`."""
        return any(above in self.loops for above in ancestors(op))


def ops_of(block: Block, loops: frozenset[Operation]) -> Iterator[Operation]:
    """Operations of a block, including the bodies of nested `loops`."""
    for op in block.ops:
        yield op
        if op in loops:
            yield from ops_of(op.regions[0].block, loops)


def used_by(op: Operation) -> list[SSAValue]:
    """Operands of an operation and, for loops, of its body."""
    return used_in(op) if isinstance(op, scf.ForOp) else list(op.operands)


def is_sum_of_rows(op: Operation) -> bool:
    """Whether an operation reduces the first dimension."""
    return isinstance(op, tile.ReduceOp) and op.axis.value.data == 0


def rows_of(value: SSAValue) -> int:
    """The first extent of a tile; 0 for scalars."""
    shape = tile.shape_of(value)
    return shape[0] if shape else 0


def number_of_elements(value: SSAValue) -> int:
    return prod(tile.shape_of(value)) if tile.is_tile(value) else 0


# ---- one loop ---------------------------------------------------------------------------------------------


class Group:
    """Stores and reductions that share a strip loop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sinks: list[Operation] = []
        """Stores and reductions."""
        self.before: Operation | None = None
        """The operation before which the loop is inserted."""

    def feeds(self, op: Operation) -> bool:
        """Whether `op`, or its strip-mined slice, uses a reduction of this loop."""
        return any(v.owner in self.sinks for needed in self._slice([op]) for v in used_by(needed))

    def takes(self, op: Operation, is_across: bool) -> bool:
        """Whether a store or reduction below the loop can join it: all its operands are defined above the loop.
        `is_across`: operations with effects are in between; then only a reduction of what is loaded above the
        loop can."""
        place = self.plan.place
        start = place[self.before] if self.before is not None else 0
        ops = self._slice([op])
        late = (inner for each in ops for inner in each.walk() if place[inner] > start)
        if is_across and any(isinstance(each, (tile.Load, tile.Store)) for each in late):
            return False
        needed = [v for each in ops for v in self.plan.whole_of(each)]
        return not self.feeds(op) and all(
            place.get(v.owner, 0) < start for v in needed if isinstance(v.owner, Operation)
        )

    def slice(self) -> list[Operation]:
        """The backward slice of the sinks over strip-mined values, in program order."""
        return sorted(self._slice(self.sinks), key=self.plan.place.__getitem__)

    def _slice(self, ends: Sequence[Operation]) -> set[Operation]:
        def definitions(op: Operation) -> list[Operation]:
            return [v.owner for v in self.plan.needs(op) if isinstance(v.owner, Operation)]

        return set(closure(ends, definitions))

    # ---- order in memory ----

    def is_legal(self) -> bool:
        """Whether the loop preserves the order of conflicting accesses."""
        ops = self.slice()
        loads = [op for outer in ops for op in outer.walk() if isinstance(op, tile.Load)]
        stores = [op for op in ops if isinstance(op, tile.Store)]
        return all(self._stays_true(load, stores) for load in loads) and all(
            may_interleave(a, b) for i, a in enumerate(stores) for b in (*stores[:i], *loads)
        )

    def _stays_true(self, load: Operation, own: Sequence[Operation]) -> bool:
        """Whether no store between a load and the loop clobbers the load; for a load in an enclosing block,
        none in the common ancestor either, which may be a loop."""
        place = self.plan.place
        end = place[self.before] if self.before is not None else 0
        block = block_of(load)
        around = block.find_ancestor_op_in_block(self.before) if self.before is not None else None
        inside = around is None  # a loop of this block
        again = set(around.walk()) if around is not None and around is not self.before else set()
        first = around is self.before or inside
        for op, at in place.items():
            between = place[load] < at < end or op in again
            if not between or (first and op in own):
                continue
            if isinstance(op, tile.Store):
                if not cannot_clobber(load, op):
                    return False
            elif isinstance(op, scf.ForOp | scf.IfOp):
                continue  # nested operations are visited separately
            elif not isinstance(op, (tile.Load, tile.AssumeOp)) and has_effect(op):
                return False
        return True
