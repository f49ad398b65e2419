"""Execute IR of every level on NumPy values; this defines the semantics of a kernel.

Programs run one after another, a program's operations in order, all lanes of one before any of the
next (aliasing rules, docs/gpu.md). Operations without regions are the functions of `registry`;
control flow, reductions, groups and scratch buffers are here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.address_arithmetic import NOTHING_PROMISED, address_arithmetic
from tilewright.dialects.irdl import irdl_definition
from tilewright.errors import DeviceAssertError, SourceLocation
from tilewright.interpreter import accesses, async_tma_stores, producer_warp, registry, vectors
from tilewright.interpreter.accesses import view_lanes
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.claims import ClaimChecker, has_claims
from tilewright.interpreter.memory import Checks, Memory, PointerValue
from tilewright.interpreter.offsets import divided, wrapped
from tilewright.interpreter.reductions import FollowedLanes, along_axis
from tilewright.interpreter.registry import kind_of, plain
from tilewright.interpreter.shared_memory import HANDLERS as SHARED_HANDLERS
from tilewright.interpreter.shared_memory import ProgramMemory
from tilewright.interpreter.undefined import Performed, unwritten_flags
from tilewright.ir.location import location_of
from tilewright.ir.types import language_type


def run_module(
    module: ModuleOp,
    arguments: Sequence[Any],
    grid: Sequence[int],
    *,
    checks: Checks | None = None,
    only: tuple[int, int, int] | None = None,
) -> None:
    """Run the one kernel of `module` for every program of `grid` on the caller's arrays, in place.

    With `only`, run that single program and undo its writes at the end.

    `arguments` are arrays and Python numbers in the order of the function's parameters. Raises
    OutOfBoundsError, DeviceAssertError and the errors of enabled `checks`, at the kernel's line.
    """
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    extents = (*grid, 1, 1, 1)[:3]
    memory = Memory(checks, undoable=only is not None)
    run = Executor(function, memory, (extents[0], extents[1], extents[2]))
    kinds = _parameter_types(function)
    names = _parameter_names(function, len(kinds))
    values = [
        _argument(memory, name, kind, value)
        for name, kind, value in zip(names, kinds, arguments, strict=True)
    ]
    with np.errstate(all="ignore"):
        try:
            run.launch(values, only)
        finally:
            memory.undo()


def array_attribute(function: func.FuncOp, name: str) -> ArrayAttr[Any]:
    return cast("ArrayAttr[Any]", function.attributes[name])


def _parameter_types(function: func.FuncOp) -> list[Any]:
    if "cpu.argument_types" in function.attributes:
        found: dict[int, Attribute] = {}
        for op in function.walk():
            if isinstance(op, cpu.ArgumentOp):
                found[op.index.value.data] = op.result.type
        count = len(array_attribute(function, "cpu.argument_types"))
        return [language_type(found[i]) if i in found else None for i in range(count)]
    return [language_type(a.type) for a in function.body.block.args]


def _parameter_names(function: func.FuncOp, count: int) -> list[str]:
    """The parameters' names in the source; scheduled functions do not keep them."""
    names = [f"argument {i}" for i in range(count)]
    if "cpu.argument_types" not in function.attributes and function.arg_attrs is not None:
        for i, entry in enumerate(function.arg_attrs.data):
            label = entry.data.get("tile.name")
            if isinstance(label, StringAttr):
                names[i] = label.data
    return names


def _argument(memory: Memory, name: str, kind: Any, value: Any) -> Any:
    if kind is None:
        return value
    if kind.is_ptr():
        flags = unwritten_flags(value) if memory.checks.unwritten else None
        return memory.register(name, value, flags)
    held = numpy_dtype(kind)
    if held.kind == "i":
        return np.int64(value).astype(held)
    return np.bool_(value) if held == np.bool_ else np.float64(value).astype(held)


@functools.cache
def _operand_names(kind: type[Operation]) -> tuple[str, ...]:
    """Names of an operation's operands in order, optional ones included."""
    definition = irdl_definition(kind)
    return tuple(name for name, _ in definition.operands)


class Executor:
    """Runs one function; also the context that operations see (`program`, `grid`, `memory`)."""

    def __init__(self, function: func.FuncOp, memory: Memory, grid: tuple[int, int, int]) -> None:
        self.function = function
        self.memory = memory
        self.grid = grid
        self.program: tuple[int, int, int] = (0, 0, 0)
        self.values: dict[SSAValue, Any] = {}
        self.buffers: dict[SSAValue, Any] = {}
        self.shared = ProgramMemory()
        self.arguments: list[Any] = []
        self.scratch: PointerValue | None = None
        self._current: Operation | None = None
        self._promise = address_arithmetic(function) if memory.checks.overflow else NOTHING_PROMISED
        self._lanes = FollowedLanes(self, memory.checks)
        self._static: dict[Operation, tuple[dict[str, Any], tuple[Any, ...]]] = {}
        self.claims = ClaimChecker(self)
        memory.observer = self._observe

    @property
    def current(self) -> Operation | None:
        """The running operation."""
        return self._current

    def at(self, op: Operation | None) -> None:
        """Go on where another part of the program has interrupted this one."""
        self._current = op

    @property
    def location(self) -> SourceLocation | None:
        """Location of the running operation in the kernel's source."""
        return None if self._current is None else location_of(self._current)

    def launch(self, arguments: list[Any], only: tuple[int, int, int] | None = None) -> None:
        """Run every program, or one."""
        block = self.function.body.block
        self.arguments = arguments
        if "cpu.argument_types" in self.function.attributes:
            count = self.grid[0] * self.grid[1] * self.grid[2]
            self.values.update(zip(block.args, (np.int64(0), np.int64(count)), strict=True))
            self.block(block)
            return
        programs = product(*(range(n) for n in reversed(self.grid)))
        for z, y, x in programs if only is None else [only[::-1]]:
            self.program = (x, y, z)
            self.buffers.clear()
            self.shared = ProgramMemory()
            self.claims.new_program()
            self._lanes.new_program()
            self.values = dict(zip(block.args, arguments, strict=True))
            try:
                self.block(block)
                producer_warp.finish(self)
            finally:
                producer_warp.give_up(self)
            self.shared.end(self)
            async_tma_stores.finish(self)

    def block(self, block: Block) -> list[Any]:
        """Run a block; the operands of its terminator."""
        for op in block.ops:
            if isinstance(op, _TERMINATORS):
                return [self.values[v] for v in op.operands]
            self.op(op)
        return []

    def _observe(self, access: Any, writes: bool, atomic: bool) -> None:
        """Memory is about to be accessed."""
        self.claims.access(access.pointers, access.mask, access.itemsize, writes, atomic)

    def op(self, op: Operation) -> None:
        self._current = op
        results = self.claims.execute(op, self._results) if has_claims(op) else self._results(op)
        for value, result in zip(op.results, results, strict=True):
            self.values[value] = result

    def _results(self, op: Operation) -> list[Any]:
        """Do an operation."""
        handler = _HANDLERS.get(type(op))
        if handler is not None:
            results = handler(self, op)
        else:
            attributes, kinds = self._known(op)
            operands = self.operands(op)
            results = registry.call(op.name, self, attributes, kinds, operands)
            self._lanes.look(Performed(op.name, attributes, kinds, operands, results))
            self._look_at_offset(op, operands, kinds, results)
        return results

    def _look_at_offset(
        self, op: Operation, operands: list[Any], kinds: tuple[Any, ...], results: Sequence[Any]
    ) -> None:
        """Check the language's guarantees for address arithmetic."""
        fault = None
        if op in self._promise.no_wrap:
            fault = wrapped(self, op.name, operands, kinds[0], results[0])
        elif op in self._promise.divisions:
            fault = divided(self, op.name, operands)
        if fault is not None:
            raise fault

    def along_axis(self, op: tile.ReduceOp | tile.ScanOp) -> list[Any]:
        """Reduce or scan by running the region of an operation."""
        block, inputs = op.combine.block, [self.values[v] for v in op.inputs]

        def combine(*values: Any) -> list[Any]:
            self.values.update(zip(block.args, values, strict=True))
            return self.block(block)

        axis, reverse = plain(op.axis), isinstance(op, tile.ScanOp) and plain(op.reverse)
        results = along_axis(op.name, inputs, axis, reverse, combine)
        self._lanes.look_along(op.name, inputs, results, axis, reverse)
        return results

    def operands(self, op: Operation) -> list[Any]:
        """The operands' values, None for absent optional ones."""
        values: list[Any] = []
        for name in _operand_names(type(op)):
            operand = getattr(op, name)
            if operand is None:
                values.append(None)
            elif isinstance(operand, SSAValue):
                values.append(self.values[operand])
            else:
                values.extend(self.values[v] for v in operand)
        return values

    def _known(self, op: Operation) -> tuple[dict[str, Any], tuple[Any, ...]]:
        found = self._static.get(op)
        if found is None:
            attributes = {k: plain(v) for k, v in (op.properties | op.attributes).items()}
            found = attributes, tuple(kind_of(r.type) for r in op.results)
            self._static[op] = found
        return found

    def value(self, value: SSAValue) -> Any:
        return self.values[value]

    def decides(self, value: Any) -> Any:
        """`value`, which control flow depends on."""
        return self._lanes.decides(value)


# ---- control flow -----------------------------------------------------------------------------------

_TERMINATORS = (
    scf.YieldOp, tile.YieldOp, func.ReturnOp, cpu.YieldOp, scf.ConditionOp,
)  # fmt: skip


def _for(run: Executor, op: scf.ForOp) -> list[Any]:
    start, end, step = (int(run.decides(run.value(v))) for v in (op.lb, op.ub, op.step))
    carried = [run.value(v) for v in op.iter_args]
    block = op.body.block
    kind = np.asarray(run.value(op.lb)).dtype.type
    claimed = has_claims(op)
    for index in range(start, end, step) if step else ():
        run.values[block.args[0]] = kind(index)
        run.values.update(zip(block.args[1:], carried, strict=True))
        if claimed:
            run.claims.iterate(op)
        carried = run.block(block)
    return carried


def _if(run: Executor, op: scf.IfOp) -> list[Any]:
    region = op.true_region if run.decides(run.value(op.cond)) else op.false_region
    return run.block(region.block) if region.blocks else []


def _while(run: Executor, op: scf.WhileOp) -> list[Any]:
    carried = [run.value(v) for v in op.arguments]
    before, after = op.before_region.block, op.after_region.block
    while True:
        run.values.update(zip(before.args, carried, strict=True))
        condition, *passed = run.block(before)
        if not run.decides(condition):
            return passed
        run.values.update(zip(after.args, passed, strict=True))
        carried = run.block(after)


# ---- structured accesses ------------------------------------------------------------------------------


def _load_view(run: Executor, op: tile.LoadViewOp) -> list[Any]:
    shape = tile.shape_of(op.result)
    pointers, mask = view_lanes(run, op, shape)
    other = None if op.other is None else run.value(op.other)
    kind = numpy_dtype(kind_of(op.result.type))
    return [run.memory.load(pointers, mask, other, kind, run)]


def _store_view(run: Executor, op: tile.StoreViewOp) -> list[Any]:
    pointers, mask = view_lanes(run, op, tile.shape_of(op.value))
    run.memory.store(pointers, run.value(op.value), mask, run)
    return []


# ---- launches and output -----------------------------------------------------------------------


def _fault_if(run: Executor, op: cpu.FaultIfOp) -> list[Any]:
    if run.value(op.condition):
        number = int(run.value(op.program))
        x, y, _ = run.grid
        program = (number % x, number // x % y, number // (x * y))
        site = array_attribute(run.function, "cpu.asserts").data[plain(op.site)]
        raise DeviceAssertError(
            f"device_assert failed in program {program}: {plain(site.data[0])}",
            location=run.location,
        )
    return []


def _argument_slot(run: Executor, op: cpu.ArgumentOp) -> list[Any]:
    index = plain(op.index)
    if index >= len(run.arguments):
        return [np.int64(run.grid[index - len(run.arguments)])]
    return [run.arguments[index]]


def _print(run: Executor, op: tile.PrintOp) -> list[Any]:
    attributes, kinds = run._known(op)
    values = [run.value(v) for v in op.arguments]
    if "programs" in attributes:
        x, y, z = map(int, values[:3])
        run.program = (x, y, z)
        values = values[3 + attributes.get("coordinates", 0) :]
    registry.call(op.name, run, attributes, kinds, values)
    return []


_HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    cpu.FusionGroupOp: lambda run, op: run.block(op.body.block),
    tile.ReduceOp: Executor.along_axis,
    tile.ScanOp: Executor.along_axis,
    tile.LoadViewOp: _load_view,
    tile.StoreViewOp: _store_view,
    cpu.FaultIfOp: _fault_if,
    cpu.ArgumentOp: _argument_slot,
    tile.PrintOp: _print,
    tile.ClaimOp: lambda run, op: run.claims.claim(op),
    **vectors.HANDLERS,
    **SHARED_HANDLERS,
    **async_tma_stores.HANDLERS,
    **producer_warp.HANDLERS,
    **accesses.HANDLERS,
}


def handled_names() -> tuple[str, ...]:
    """The operations executed here; `registry.names()` are the rest."""
    return tuple(kind.name for kind in (*_HANDLERS, *_TERMINATORS))
