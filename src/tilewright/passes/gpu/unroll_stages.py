"""`unroll-stages`: run as many iterations of a pipelined loop at once as it has stages, each with a stage of its own.

Which stage an iteration reads is then a constant: addresses of buffers and mbarriers, and the descriptors of MMAs, are those
of the loop, and what counts stages is gone: a tenth of the instructions of attention's loops over tiles of 64 x 64.

    for i, stage = 0:                        for j in 0 … n / 2:
      wait for stage                           wait for stage 0; multiply stage 0; copies -> stage 1
      multiply stage                 ->        wait for stage 1; multiply stage 1; copies -> stage 0
      copies -> (stage + 1) % 2              if n is odd:
      stage = (stage + 1) % 2                  wait for stage 0; multiply stage 0; copies -> stage 1

Takes loops of several MMAs with `wgmma`, which are short, and carry numbers that count 0, 1, … S - 1, 0, 1 … from a constant.
MMAs in flight at the end of an iteration stay so inside of the loop, and are complete behind it.

Off unless a kernel is compiled in the form that shares an SM by half of the registers (`runtime/compile_variants.py`):
addresses of all stages take registers, and where those do not suffice the kernel is compiled without.

Runs after the passes that schedule loops and look at what they carry. Ensures: the same operations in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import has_loops
from tilewright.passes.analysis.edit import (
    NO_UNROLL,
    Mapping,
    branch,
    end_of,
    initial,
    insert_before,
    replace_op,
    yielded,
)
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.analysis.registers import registers_allowed
from tilewright.passes.gpu.pipeline_loads import completed
from tilewright.passes.gpu.scheduling.shifts import registers
from tilewright.targets import TargetInfo

_FEWEST_DOTS = 2
_SHARE = 0.5
"""Of the registers, for the accumulators of a loop: addresses of all stages take more than those of one."""


@dataclass(frozen=True)
class UnrollStages(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("normalize-loops",)
    most_stages: int = 0
    """Stages of loops that are unrolled."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()):
            if isinstance(op, scf.ForOp) and _is_short(op) and _has_registers(op, function):
                stages, counters = _ring_counters(op)
                if 1 < stages <= self.most_stages:
                    _Unroller(op, stages, counters).run()
        erase_dead(function.body.block)


def _is_short(loop: scf.ForOp) -> bool:
    """Whether a loop counts in ones, and its body has several MMAs and no other loops."""
    ops = list(loop.body.block.ops)
    dots = sum(isinstance(op, gpu.WgmmaOp) for op in ops)
    return constant_int(loop.step) == 1 and dots >= _FEWEST_DOTS and not has_loops(loop)


def _has_registers(loop: scf.ForOp, function: FuncOp) -> bool:
    """Whether the accumulators of a loop leave registers for addresses."""
    dots = [op for op in loop.body.block.ops if isinstance(op, gpu.WgmmaOp)]
    held = sum(registers(dot.result) for dot in dots)
    return held <= _SHARE * registers_allowed(loop, warps_of(function))


def _ring_counters(loop: scf.ForOp) -> tuple[int, dict[BlockArgument, int]]:
    """The number of stages and where the numbers that count them begin; 0 and none if there are none, or several rings."""
    found: dict[BlockArgument, int] = {}
    sizes: set[int] = set()
    for argument in loop.body.block.args[1:]:
        start = constant_int(initial(argument))
        size = _ring_size(argument, yielded(argument))
        if start is not None and size is not None and 0 <= start < size:
            found[argument] = start
            sizes.add(size)
    if len(sizes) != 1:
        return 0, {}
    size = sizes.pop()
    for argument in loop.body.block.args[1:]:  # the stage of the iteration before
        start, following = constant_int(initial(argument)), yielded(argument)
        if start is None or not isinstance(following, BlockArgument):
            continue
        if found.get(following) == (start + 1) % size:
            found[argument] = start
    return size, found


def _ring_size(argument: BlockArgument, following: SSAValue) -> int | None:
    """S, if `following` is `argument + 1`, or 0 where that is S."""
    select = following.owner
    if not isinstance(select, tile.SelectOp) or constant_int(select.lhs) != 0:
        return None
    plus, test = select.rhs.owner, select.condition.owner
    if (
        not isinstance(plus, arith.AddiOp)
        or plus.lhs is not argument
        or constant_int(plus.rhs) != 1
    ):
        return None
    if (
        not isinstance(test, tile.CmpIOp)
        or test.predicate.data != "eq"
        or test.lhs is not select.rhs
    ):
        return None
    return constant_int(test.rhs)


@dataclass(frozen=True)
class _Unroller:
    """Rewrites one loop."""

    loop: scf.ForOp
    stages: int
    counters: dict[BlockArgument, int]

    def run(self) -> None:
        loop, e = self.loop, Emitter(self.loop)
        kind = loop.lb.type
        zero, stages = e.constant(0, kind), e.constant(self.stages, kind)
        trips = e.binary(arith.MaxSIOp, e.binary(arith.SubiOp, loop.ub, loop.lb), zero)
        rounds = e.binary(arith.DivUIOp, trips, stages)
        done = e.add(loop.lb, e.mul(rounds, stages))
        main, inner = e.loop(
            [zero, rounds, loop.step], list(loop.iter_args),
            {**loop.attributes, NO_UNROLL: UnitAttr()}, loop.body.block.args,
        )  # fmt: skip
        first: SSAValue = main.body.block.args[0]
        carried: list[SSAValue] = list(main.body.block.args[1:])
        first = inner.add(loop.lb, inner.mul(first, stages))
        for i in range(self.stages):
            at = inner.add(first, inner.constant(i, kind)) if i else first
            carried = self._iteration(i, at, carried, inner)
        inner.anchor.operands = carried
        results = self._completed(main, e)
        for i in range(self.stages - 1):
            results = self._left(i, done, results, e)
        for result, new in zip(loop.results, results, strict=True):
            for use in list(result.uses):
                if isinstance(use.operation, gpu.WgmmaWaitOp):
                    replace_op(use.operation, [new])
        replace_op(loop, results)

    def _iteration(
        self, stage: int, counter: SSAValue, carried: list[SSAValue], e: Emitter
    ) -> list[SSAValue]:
        """One iteration, in the round's place `stage`; what it carries to the next."""
        body = self.loop.body.block
        mapping: Mapping = dict(zip(body.args, [counter, *carried], strict=True))
        for argument, start in self.counters.items():
            mapping[argument] = e.constant((start + stage) % self.stages, i32)
        return e.clone_body(body, mapping)

    def _completed(self, main: scf.ForOp, e: Emitter) -> list[SSAValue]:
        """The results of the loop, with no MMA in flight: waited for where it has run."""
        if not self._in_flight():
            return list(main.results)
        runs = e.compare("slt", main.lb, main.ub)
        main.detach()
        results, waits = self._waited(list(main.results))
        op = branch(runs, [main, *waits], results, (), list(main.iter_args))
        e.insert_op(op)
        return list(op.results)

    def _left(
        self, stage: int, done: SSAValue, state: list[SSAValue], e: Emitter
    ) -> list[SSAValue]:
        """One of the iterations that are left, if there is one."""
        at = e.add(done, e.constant(stage, done.type)) if stage else done
        op = branch(e.compare("slt", at, self.loop.ub), [], state, (), state)
        e.insert_op(op)
        end = end_of(op.regions[0].block)
        after = self._iteration(stage, at, state, Emitter(end))
        results, waits = self._waited(after)
        for wait in waits:
            insert_before(wait, end)
        end.operands = results
        return list(op.results)

    def _in_flight(self) -> list[int]:
        """Positions of the carried accumulators that an iteration does not wait for."""
        ends = end_of(self.loop.body.block).operands
        return [i for i, v in enumerate(ends) if isinstance(v.owner, gpu.WgmmaOp)]

    def _waited(self, values: list[SSAValue]) -> tuple[list[SSAValue], list[Operation]]:
        """What is carried behind the loop, and the waits for MMAs in flight."""
        waits: list[Operation] = []
        for position in self._in_flight():
            wait = completed(values[position])
            waits.append(wait)
            values[position] = wait.result
        return values, waits
