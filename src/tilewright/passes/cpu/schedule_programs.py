"""`schedule-programs`: make the kernel a loop over the programs that one thread was given.

Before:
    func.func @k(%x: !tile.ptr<f32>, %n: i32) { %p = tile.program_id 0 ; ... }

After:
    func.func @k(%first: i64, %last: i64) {
      %x = cpu.argument 0 ; %n = cpu.argument 1 ; ...grid...
      scf.for %program = %first to %last iter_args(%p = <%first % grid x>) { ... ; yield <%p + 1, or 0> }
    }

The ids of a program are counted up, not divided: a division by an extent of the grid takes as long as a hundred elements.

Programs of a grid are split over threads in contiguous ranges by the launcher (see the native kernel
ABI in docs/architecture.md); whatever does not depend on the program is outside the loop. A
`tile.assert` of a scalar becomes a `cpu.fault_if`, whose texts go to the function attribute
`cpu.asserts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import erase, insert_before, replace_values
from tilewright.passes.analysis.emit import Emitter as Inserter
from tilewright.passes.base import Pass
from tilewright.passes.cpu.nest.emit import Emitter
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class SchedulePrograms(Pass):
    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in list(module.body.block.ops):
            if (
                isinstance(function, func.FuncOp)
                and "cpu.argument_types" not in function.attributes
            ):
                _schedule(function)


def _schedule(function: func.FuncOp) -> None:
    old = function.body.block
    entry = Block(arg_types=[i64, i64])
    emit = Emitter(entry, function.location)
    first, last = entry.args
    arguments = [
        emit.make(cpu.ArgumentOp, (), arg.type, index=IntegerAttr(i, i64))
        for i, arg in enumerate(old.args)
    ]
    replace_values(old.args, arguments)
    grid = [
        emit.make(cpu.ArgumentOp, (), i64, index=IntegerAttr(len(arguments) + axis, i64))
        for axis in range(3)
    ]
    body, program, ids, _ = emit.loop(first, last, 1, _first_ids(emit, first, grid, _axes(old)))
    narrow = [body.truncated(value, i32) for value in ids]
    for op in list(old.ops):
        op.detach()
        if isinstance(op, func.ReturnOp):
            op.erase()
            continue
        body.block.add_op(op)
    body.yield_values(_next_ids(body, ids, grid))
    asserts: list[Attribute] = []
    for op in list(body.block.walk()):
        if isinstance(op, tile.PrintOp) and "programs" in op.attributes:
            continue
        _replace(op, narrow, grid, program, asserts)
    entry.add_op(func.ReturnOp())
    _rebuild(function, entry, asserts, [str(a.type) for a in old.args])


def _axes(block: Block) -> int:
    """How many axes of the grid a kernel uses, from the first on."""
    if any(isinstance(op, tile.PrintOp) for op in block.walk()):
        return 3
    used = (op.axis.value.data for op in block.walk() if isinstance(op, tile.ProgramIdOp))
    return max(used, default=-1) + 1


def _first_ids(emit: Emitter, program: SSAValue, grid: list[SSAValue], axes: int) -> list[SSAValue]:
    """Emit the ids of a program (i64) along the first axes, where a grid may be empty."""
    ids: list[SSAValue] = []
    for axis in range(axes):
        extent = emit.value(emit.largest(grid[axis], 1))
        ids.append(program if axis == 2 else emit.binary(arith.RemUIOp, program, extent))
        if axis + 1 < axes:
            program = emit.binary(arith.DivUIOp, program, extent)
    return ids


def _next_ids(emit: Emitter, ids: list[SSAValue], grid: list[SSAValue]) -> list[SSAValue]:
    """Emit the ids of the next program: each axis counts where all before it begin again."""
    found: list[SSAValue] = []
    begin_again: bool | SSAValue = True
    for axis, value in enumerate(ids):
        more = emit.plus(value, 1)
        over = emit.compare("eq", more, grid[axis])
        counted = more if axis == 2 else emit.select(over, 0, more)
        found.append(emit.value(emit.select(begin_again, counted, value)))
        begin_again = emit.both(begin_again, over)
    return found


def _replace(
    op: Operation,
    ids: list[SSAValue],
    grid: list[SSAValue],
    program: SSAValue,
    asserts: list[Attribute],
) -> None:
    if isinstance(op, tile.ProgramIdOp):
        op.result.replace_all_uses_with(ids[op.axis.value.data])
    elif isinstance(op, tile.NumProgramsOp):
        count = Inserter(op).make(arith.TruncIOp, [grid[op.axis.value.data]], i32)
        op.result.replace_all_uses_with(count)
    elif isinstance(op, tile.AssertOp):
        before = Inserter(op)
        failed = before.binary(arith.XOrIOp, op.condition, before.constant(-1, i1))
        site = {"site": IntegerAttr(len(asserts), i64)}
        before.insert_op(cpu.FaultIfOp.create(operands=[failed, program], properties=site))
        asserts.append(_site(op))
    elif isinstance(op, tile.PrintOp):
        insert_before(_with_program(op, ids), op)
    elif isinstance(op, tile.AssumeOp | tile.BarrierOp):
        pass
    else:
        return
    erase(op)


def _with_program(op: tile.PrintOp, ids: list[SSAValue]) -> tile.PrintOp:
    """Return a print whose first three operands are the program ids."""
    copy = tile.PrintOp.create(
        operands=[*ids, *op.operands],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        location=op.location,
    )
    copy.attributes.setdefault("coordinates", IntegerAttr(0, i32))
    copy.attributes["programs"] = IntegerAttr(3, i32)
    return copy


def _site(op: tile.AssertOp) -> Attribute:
    """[message, file, line, column] of an assertion."""
    file, line, column = "", 0, 0
    location: Attribute = op.location
    while not isinstance(location, FileLineColLoc):
        inner = getattr(location, "callee", None) or getattr(location, "location", None)
        if inner is None:
            break
        location = inner
    if isinstance(location, FileLineColLoc):
        file, line, column = location.filename.data, location.line.data, location.column.data
    return ArrayAttr([op.message, StringAttr(file), IntAttr(line), IntAttr(column)])


def _rebuild(
    function: func.FuncOp, entry: Block, asserts: list[Attribute], types: list[str]
) -> None:
    attributes = dict(function.attributes)
    attributes["cpu.argument_types"] = ArrayAttr([StringAttr(t) for t in types])
    attributes["cpu.asserts"] = ArrayAttr(asserts)
    new = func.FuncOp(function.sym_name.data, ((i64, i64), ()), Region(entry), visibility=None)
    new.attributes.update(attributes)
    new.location = function.location
    insert_before(new, function)
    function.detach()
