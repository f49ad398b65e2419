"""`cache-in-shared`: cache strips that several loops load in shared memory.

`strip-mine-tiles` loops over a tile that exceeds the registers several times, and each loop loads it again. An
SM has about as much shared memory as registers; strips that fit are loaded from global memory once::

    for i in 0 … 6:                       for i in 0 … 6:
      x = load chunk i                      x = load chunk i
      most = max(most, x)                   keep x in stage i
    …                              ->       most = max(most, x)
    for i in 0 … 6:                       …
      x = load chunk i                    for i in 0 … 6:
      sum = sum + exp(x - m)                x = stage i
                                            sum = sum + exp(x - m)

Each thread reads only elements that it wrote itself, so no barrier is needed. Loads of one strip in different
layouts are unchanged, and so are kernels that need shared memory for other operations (conversions, reductions,
scans, dots). Requires `strip-mine-tiles`, which marks the loads and has proven that no store clobbers them, and
`assign-layouts`. Runs after `licm` and before `partition-loops`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, TensorType, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts.shared import LINEAR, SharedLayout
from tilewright.passes.analysis.edit import insert_before, outermost_in, replace_op, start_of
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.shared_allocation import max_scratch_bytes
from tilewright.passes.gpu.analysis.strips import KEPT
from tilewright.targets import TargetInfo

_OTHERS = (
    gpu.LocalAllocOp, tile.DotOp, tile.ScanOp, tile.HistogramOp,
    tile.Atomic,
)  # fmt: skip
"""Operations that allocate shared memory themselves."""


class CacheInShared(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("strip-mine-tiles", "assign-layouts")

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        marked: dict[int, list[_Marked]] = {}
        for op in list(function.walk()):
            if KEPT in op.attributes:
                found = _Marked.of(op)
                marked.setdefault(found.load, []).append(found)
        kept = sum(loads[0].bytes for loads in marked.values())
        room = target.shared_bytes
        others = any(isinstance(op, _OTHERS) or tile.moves_lanes(op) for op in function.walk())
        if kept + max_scratch_bytes(function) <= room and not others:
            for loads in marked.values():
                _keep(loads, function)


@dataclass(frozen=True)
class _Marked:
    """A load, and the chunks that it loads: `first`, and `step` more in each iteration."""

    op: Any
    load: int
    first: int
    step: int
    count: int
    """Chunks that are to be kept."""

    @staticmethod
    def of(op: Operation) -> _Marked:
        load, first, step, count = tile.ints(cast(DenseArrayBase, op.attributes.pop(KEPT)))
        return _Marked(op, load, first, step, count)

    @property
    def chunks(self) -> frozenset[int]:
        """The marked loads of the loop; empty if other passes have changed it."""
        if not self.step:
            return frozenset((self.first,))
        loop = self.op.parent_op()
        if not isinstance(loop, scf.ForOp) or not is_normalized(loop):
            return frozenset()
        trips = constant_int(loop.ub) or 0
        return frozenset(self.first + self.step * i for i in range(trips))

    @property
    def bytes(self) -> int:
        """Of all chunks that are to be kept."""
        return self.count * tile.bytes_of(self.op.results[0])

    @property
    def around(self) -> Block:
        """The block in which all the chunks are gone through."""
        loop = self.op.parent_op() if self.step else self.op
        return loop.parent

    def stage(self, e: Emitter) -> SSAValue:
        """i32: where the chunk is kept."""
        if not self.step:
            return e.constant(self.first, i32)
        counter = self.op.parent.args[0]
        counter = e.insert(arith.TruncIOp(counter, i32)) if counter.type != i32 else counter
        first = e.constant(self.first, i32)
        return e.sub(first, counter) if self.step < 0 else e.add(counter, first)


def _keep(loads: list[_Marked], function: FuncOp) -> None:
    """Store the strips of the first loop's loads, which cover the tile, for the later loops."""
    types = {load.op.results[0].type for load in loads}
    written: frozenset[int] = frozenset()
    writers: list[_Marked] = []
    for load in loads:
        chunks = load.chunks
        if not chunks or (written & chunks):
            break
        writers.append(load)
        written |= chunks
    readers = loads[len(writers) :]
    whole = written == frozenset(range(loads[0].count))
    known = all(reader.chunks and reader.chunks <= written for reader in readers)
    if len(types) != 1 or not readers or not whole or not known:
        return
    buffer = _buffer(loads[0], function)
    for load in writers:
        _write(load, buffer)
    around = writers[0].around
    for first in (readers[0], *([writers[0]] if around is not function.body.block else [])):
        before = outermost_in(
            around, first.op
        )  # inside a loop other warps may still read the cached strips
        insert_before(gpu.BarrierOp.create(location=before.location), before)
    for load in readers:
        _read(load, buffer)


def _buffer(load: _Marked, function: FuncOp) -> SSAValue:
    """Shared memory for all chunks, a stage each, in lines along the dimension that threads have most of."""
    kind = load.op.results[0].type
    layout = gpu.layout_of(load.op.results[0])
    rows, columns = (1, *tile.shape_of(kind))[-2:]
    dim = 1
    if len(tile.shape_of(kind)) == 2 and layout is not None:
        dim = int(layout.num_consecutive(1, 16) >= layout.num_consecutive(0, 16))
    size = tile.element_bytes(kind.element_type)
    place = SharedLayout(rows, columns, size, dim, LINEAR)
    held = TensorType(kind.element_type, [rows, columns])
    shared = gpu.SharedType(held, StringAttr(str(place)), IntAttr(load.count))
    alloc = gpu.LocalAllocOp.create(result_types=[shared])
    insert_before(alloc, start_of(function.body.block))
    alloc.result.name_hint = "kept"
    return alloc.result


def _as_matrix(kind: Any) -> Any:
    """The type of a row, for a buffer."""
    layout = gpu.layout_of(kind)
    shape = tile.shape_of(kind)
    if len(shape) == 2 or layout is None:
        return kind
    return gpu.laid_out(kind.element_type, layout.insert(0))


def _write(load: _Marked, buffer: SSAValue) -> None:
    value = load.op.results[0]
    after = load.op.next_op
    e = Emitter(after, load.op.location)
    kind = _as_matrix(value.type)
    stage = load.stage(e)
    if kind != value.type:
        value = e.make(tile.ReshapeOp, [value], kind)
    e.insert_op(gpu.LocalStoreOp.create(operands=[value, buffer, stage]))


def _read(load: _Marked, buffer: SSAValue) -> None:
    old = load.op.results[0]
    e = Emitter(load.op)
    kind = _as_matrix(old.type)
    value = e.make(gpu.LocalLoadOp, [buffer, load.stage(e)], kind)
    if kind != old.type:
        value = e.make(tile.ReshapeOp, [value], old.type)
    replace_op(load.op, [value])
