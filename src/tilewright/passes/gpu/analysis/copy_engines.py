"""Two copy engines that bring operands into shared memory: `cp.async` by every thread, and TMA.

Both issue the copies of an iteration into a stage and later wait for a stage; `pipeline-loads` does the rest. `cp.async`
copies are counted in commit groups, TMA loads by one mbarrier per stage, whose phase changes each time the ring wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.ir.types import defining_op
from tilewright.ir.walk import innermost_loop
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.analysis.edit import Mapping, branch, erase, insert_before, start_of
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.gpu.analysis.accesses import may_clobber
from tilewright.passes.gpu.analysis.tma_order import fence_condition, match_on_device
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile, match_tma_tile
from tilewright.targets import Feature, TargetInfo

TMA = "TMA tile"
"""Name of this form of a copy in remarks."""
_ITERATIONS_OF_A_MAP = 8
"""Iterations for which no tensor map is made by a kernel again and again: a map goes to global memory and is waited for."""


class CpAsyncCopies:
    """`cp.async`: every thread copies its elements."""

    phases = False
    """Whether `wait` takes the phase of a stage."""

    def __init__(self, copies: list[gpu.AsyncCopyOp]) -> None:
        self._copies = copies
        self.operands = [v for c in copies for v in c.operands]
        """Values computed in the loop's body that the copies use."""

    def order(self, loop: scf.ForOp) -> bool:
        """Emit what orders the copies after earlier writes; return whether a barrier must follow."""
        return False

    def start(self, mapping: Mapping, slot: SSAValue, active: SSAValue, before: Operation) -> None:
        """Emit the copies of the iteration that `mapping` leads to, into stage `slot`, predicated by `active`."""
        for copy in self._copies:
            new = copy.clone(mapping)
            new.operands[len(new.operands) - 2] = slot
            new.operands[len(new.operands) - 1] = active
            insert_before(new, before)
        insert_before(gpu.AsyncCommitGroupOp.create(), before)

    def wait(self, slot: SSAValue, phase: SSAValue | None, ahead: int, before: Operation) -> None:
        """Emit the wait for stage `slot`, when copies of `ahead` later iterations have been issued."""
        pending = IntegerAttr(ahead - 1, i32)
        insert_before(gpu.AsyncWaitOp.create(properties={"pending": pending}), before)


class TmaCopies:
    """TMA: one elected thread issues loads of whole tiles. Members as of `CpAsyncCopies`."""

    phases = True

    def __init__(
        self, copies: list[gpu.AsyncCopyOp], tiles: list[TmaTile], stages: int, function: FuncOp
    ):
        self._copies, self._tiles, self._function = copies, tiles, function
        entry = start_of(function.body.block)
        self._places = [tile.place(copy) for copy, tile in zip(copies, tiles, strict=True)]
        self.operands = [v for place in self._places for v in place]
        self._maps = [tile.tensor_map(function) for tile in tiles]
        self._bytes = sum(gpu.shared_layout_of(c.buffer).bytes for c in copies)
        barriers = gpu.MbarrierInitOp.create(result_types=[gpu.MbarriersType(IntAttr(stages))])
        insert_before(barriers, entry)
        self.barriers = barriers.result

    def order(self, loop: scf.ForOp) -> bool:
        if all(tile.encoded_before is None for tile in self._tiles):
            return False
        condition = fence_condition(self._tiles, loop, Facts(), self._function)
        if constant_int(condition) == 0:
            return False
        insert_before(gpu.ProxyFenceOp.create(operands=[condition]), loop)
        return True

    def give_up(self) -> None:
        """Erase the mbarriers. Requires: no copy has been emitted."""
        erase(defining_op(self.barriers))

    def start(self, mapping: Mapping, slot: SSAValue, active: SSAValue, before: Operation) -> None:
        elect = gpu.ElectOp.create(result_types=[i1])
        both = arith.AndIOp(elect.result, active)
        places = [[mapping.get(v, v) for v in place] for place in self._places]
        loads = tma_loads(
            self._copies, self._tiles, self._maps, places, self.barriers, slot, self._bytes
        )
        for op in (elect, both, branch(both.result, loads)):
            insert_before(op, before)

    def wait(self, slot: SSAValue, phase: SSAValue | None, ahead: int, before: Operation) -> None:
        wait = gpu.MbarrierWaitOp.create(operands=[self.barriers, slot, cast(SSAValue, phase)])
        insert_before(wait, before)


def tma_loads(
    copies: Sequence[gpu.AsyncCopyOp],
    tiles: Sequence[TmaTile],
    maps: Sequence[Sequence[SSAValue | Sequence[SSAValue]]],
    places: Sequence[Sequence[SSAValue]],
    barriers: SSAValue,
    stage: SSAValue,
    bytes_: int,
) -> list[Operation]:
    """The TMA loads of `copies` to a stage, for one thread, after the arrival that expects their bytes.

    `maps`: the operands of a load that describe each tensor map; `places`: the coordinates of each tile.
    """
    expect = gpu.MbarrierArriveExpectTxOp.create(
        operands=[barriers, stage], properties={"bytes": IntegerAttr(bytes_, i32)}
    )
    ops: list[Operation] = [expect]
    for copy, tile, tensor_map, place in zip(copies, tiles, maps, places, strict=True):
        load = gpu.TmaLoadOp.build(
            operands=[*tensor_map, place, copy.buffer, barriers, stage],
            properties={"range_checked": tile.range_checked},
        )
        load.location = copy.location
        ops.append(load)
    return ops


def choose(
    copies: list[gpu.AsyncCopyOp],
    stages: int,
    function: FuncOp,
    use_tma: bool,
    target: TargetInfo,
    loop: scf.ForOp | None = None,
) -> CpAsyncCopies | TmaCopies:
    """Return TMA copies if the target has TMA and every copy is a TMA tile, else `cp.async` copies.

    TMA reads through the async proxy, which does not observe the program order of ordinary stores: nothing that the copies
    read may be written by the kernel, unless they are ordered (`order`). That is done in a `loop` where copies are
    from addresses that are no kernel arguments; the program makes their tensor maps.
    """
    able = use_tma and target.has(Feature.TMA)
    named = [base_argument(copy.base) is not None for copy in copies]
    ordered = loop is not None and not all(named)
    if not able or (not ordered and may_clobber(function, [copy.base for copy in copies])):
        reason = Reason.CLOBBERED if able else Reason.NO_TMA
        for copy in copies:
            report_missed(copy, TMA, Missed(reason))
        return CpAsyncCopies(copies)
    known = Facts()
    found = [match_tma_tile(copy, known) for copy in copies]
    if ordered:
        found = [
            match_on_device(copy, known, loop, function) if isinstance(tile, Missed) else tile
            for copy, tile in zip(copies, found, strict=True)
        ]
    tiles = [tile for tile in found if isinstance(tile, TmaTile)]
    for copy, tile in zip(copies, found, strict=True):
        if len(tiles) < len(copies):
            missed = tile if isinstance(tile, Missed) else Missed(Reason.OTHER_COPY)
            report_missed(copy, TMA, missed)
        elif isinstance(tile, TmaTile) and tile.guards:
            report_missed(copy, TMA, Missed(Reason.RANGE_CHECK, (str(tile.guards),)))
    if len(tiles) < len(copies):
        return CpAsyncCopies(copies)
    if loop is not None and any(_is_made_often(tile, loop) for tile in tiles):
        for copy in copies:
            report_missed(copy, TMA, Missed(Reason.MADE_OFTEN, (str(constant_int(loop.ub)),)))
        return CpAsyncCopies(copies)
    return TmaCopies(copies, tiles, stages, function)


def _is_made_often(tile: TmaTile, loop: scf.ForOp) -> bool:
    """Whether a loop around `loop` makes a tensor map anew for few iterations of it: in the time that takes, threads copy
    more than those read."""
    before, last = tile.encoded_before, constant_int(loop.ub)
    if before is None or innermost_loop(before) is None:
        return False
    return last is not None and last <= _ITERATIONS_OF_A_MAP
