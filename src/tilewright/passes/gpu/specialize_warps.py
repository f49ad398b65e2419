"""`specialize-warps`: a warp of its own copies boxes, the others multiply.

In a pipelined loop whose warps do both, each product waits until somebody has started the next copies.
Here a further warp runs ahead through the iterations and starts the copies of each as soon as its stage
is free, and the program's warps do nothing but wait for stages, multiply, and give stages back. Two rows
of memory barriers, one of each a stage, take the place of the barrier that all threads meet at:

    for i:                            warp of its own:            the program:
      copy -> buffer                    for i:                      for i:
      commit, wait 0, barrier     ->      wait until stage i % S      wait for stage i % S
      multiply, wait 0, barrier           is given back               multiply it; wait for product i-1
                                          copies of iteration i       give the stage of i-1 back
                                                                    wait 0

Relies on `promote-shared`; what it does not take `pipeline-loads` does: loops inside others, loops whose
copies are no boxes, programs that do anything but computing before the loop (the further warp computes
that as well), and sums so large that the registers of one more warp are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, StringAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import end_of, erase, insert_before, start_of
from tilewright.passes.analysis.effects import erase_dead, is_pure
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.around import Carried
from tilewright.passes.gpu.analysis.blocks import blocks_of
from tilewright.passes.gpu.analysis.transports import BoxCopies, choose
from tilewright.passes.gpu.assign_layouts import warps_of
from tilewright.passes.gpu.pipeline_loads import (
    PipelineLoads,
    Pipeliner,
    constant,
    find_pattern,
    select,
    stages_of,
    widen,
)

_MOST_SUMS = 128
"""Registers of sums a thread that leave the others enough when there is one more warp."""
_MOST_WARPS = 12


@dataclass(frozen=True)
class SpecializeWarps(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "specialize-warps"
    requires: ClassVar[tuple[str, ...]] = ("promote-shared", "pipeline-loads")

    def apply(self, module: ModuleOp, target: Any) -> None:
        for function in module.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks and blocks_of(function) == 1:
                _specialize(function, target)
                erase_dead(function.body.block)


def _specialize(function: FuncOp, target: Any) -> None:
    """The first loop that suits; before it the program must only compute."""
    warps, stages = warps_of(function), stages_of(function)
    if warps % 4 or warps > _MOST_WARPS or stages < 2:
        return
    for op in function.body.block.ops:
        if isinstance(op, scf.ForOp):
            pattern = find_pattern(op)
            if pattern is not None and not pattern.turns:
                sums = prod(tile.shape_of(pattern.multiply.result)) // (32 * warps)
                if sums <= _MOST_SUMS:
                    _Specializer(op, pattern, function, stages, PipelineLoads(), target).run()
            return
        if not is_pure(op) and not isinstance(op, gpu.AllocOp | tile.AssumeOp):
            return


class _Specializer(Pipeliner):
    """Two loops in the place of one: of the warp that copies, and of the others."""

    def run(self) -> None:
        step = constant_int(self.loop.step)
        if self.at_once or self.stages < 2 or step is None or step < 1:
            return
        if self._slice([v for c in self.pattern.copies for v in c.operands]) is None:
            return
        transport = choose(self.pattern.copies, self.stages, self.function, True, self.target)
        if not isinstance(transport, BoxCopies):
            return
        sliced = self._slice(transport.operands)
        if sliced is None:
            transport.give_up()
            return
        self.transport, self.late, self.lag = transport, True, 1
        self.ops, self.carried = sliced
        for copy in self.pattern.copies:
            widen(copy.buffer, self.stages)
        free = gpu.BarriersOp.create(
            result_types=[gpu.BarriersType(IntAttr(self.stages))],
            properties={"warps": IntegerAttr(warps_of(self.function), i32)},
        )
        insert_before(free, transport.barriers.owner)  # type: ignore[arg-type]
        self.state = Carried([], [constant(0, self.loop), constant(0, self.loop)])
        self._produce(free.result)
        self._consume(free.result)

    def _produce(self, free: SSAValue) -> None:
        """The loop of the warp that copies."""
        loop = self.loop
        inits = [loop.iter_args[arg.index - 1] for arg in self.carried]
        first = [constant(0, loop), constant(1, loop)]  # the stages are free to begin with
        yes = arith.ConstantOp(IntegerAttr(1, i1))
        insert_before(yes, loop)
        inside = Block(
            arg_types=[loop.body.block.args[0].type, *(v.type for v in (*inits, *first))]
        )
        counter, *scalars, slot, phase = inside.args
        end = scf.YieldOp.create()
        inside.add_op(end)
        insert_before(gpu.TmaWaitOp.create(operands=[free, slot, phase]), end)
        state = {self.body.args[0]: counter, **dict(zip(self.carried, scalars, strict=True))}
        mapping = self._advance(state, end)  # type: ignore[arg-type]
        self.transport.start(mapping, slot, yes.result, end)
        following = self._next(mapping, end)
        yields = [following[arg] for arg in self.carried]
        yields += self._stage_after(slot, phase, end)
        inside.add_op(scf.YieldOp.create(operands=yields))
        erase(end)
        copies = scf.ForOp.create(
            operands=[loop.lb, loop.ub, loop.step, *inits, *first],
            result_types=[v.type for v in (*inits, *first)],
            regions=[Region(inside)],
            location=loop.location,
        )
        role = Block([copies])
        insert_before(gpu.ProduceOp.create(regions=[Region(role)], location=loop.location), loop)

    def _stage_after(self, slot: SSAValue, phase: SSAValue, before: Operation) -> list[SSAValue]:
        """The next stage, and its phase, which changes when the stages start again."""
        zero, one, count = (constant(n, before) for n in (0, 1, self.stages))
        plus, other = arith.AddiOp(slot, one), arith.XOrIOp(phase, one)
        wrap = _compare("eq", plus.result, count)
        stage = select(wrap.result, zero, plus.result)
        turned = select(wrap.result, other.result, phase)
        for op in (plus, other, wrap, stage, turned):
            insert_before(op, before)
        return [stage.result, turned.result]

    def _consume(self, free: SSAValue) -> None:
        """The loop of the others."""
        loop, body, pattern = self.loop, self.body, self.pattern
        inits = [constant(0, loop), *self.state.values]
        before, slot, phase = (body.insert_arg(v.type, len(body.args)) for v in inits)
        barrier = pattern.multiply.prev_op
        while not isinstance(barrier, gpu.BarrierOp):
            barrier = barrier.prev_op if barrier is not None else None
        self.transport.wait(slot, phase, self.ahead, start_of(body))
        for op in (barrier, *pattern.copies, pattern.commit, pattern.wait):
            erase(op)
        pattern.multiply.operands[1] = pattern.multiply.operands[3] = slot
        pattern.done.properties["pending"] = IntegerAttr(1, i32)
        later = _compare("ne", body.args[0], loop.lb)
        arrive = gpu.ArriveOp.create(operands=[free, before, later.result])
        for op in (later, arrive):
            insert_before(op, pattern.last_barrier)
        erase(pattern.last_barrier)
        end = end_of(body)
        yields = [*end.operands, slot, *self._stage_after(slot, phase, end)]
        body.insert_op_before(scf.YieldOp.create(operands=yields), end)
        erase(end)
        self._replace_loop(inits)


def _compare(predicate: str, a: SSAValue, b: SSAValue) -> tile.CmpIOp:
    return tile.CmpIOp.create(
        operands=[a, b], result_types=[i1], properties={"predicate": StringAttr(predicate)}
    )
