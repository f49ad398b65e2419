"""`CpuBackend`: tile IR in, native object code and a launch plan out."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from llvmlite import binding
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation

from tilewright.backends.base import AccessSite, Argument, Artifact, AssertSite, LaunchPlan, Options
from tilewright.backends.cpu.codegen import emit_module
from tilewright.backends.cpu.fault_lines import InstructionPlaces, location_at
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.backends.cpu.target import current_target, machine
from tilewright.backends.lowering import LoweringBackend
from tilewright.dialects import tile
from tilewright.errors import SourceLocation
from tilewright.ir.location import internal_errors
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.base import Pass, functions_of
from tilewright.passes.cpu.analysis.classify import is_virtual
from tilewright.passes.cpu.check_bounds import ACCESSES, add_extents
from tilewright.targets import TargetInfo

#: passes that let micro-kernels, which are not checked, read arrays, or read and write them once more
_UNCHECKED = ("elide-packing", "reuse-output-buffer")


_SERIAL = "cpu.serial"
"""Attribute of functions whose programs run on one thread."""


class CpuBackend(LoweringBackend):
    """The CPU back end; its last level of IR is that of vectors."""

    name = level = "cpu"
    refuses = {
        "tile.inline_asm": (
            "tl.inline_asm_elementwise holds PTX, which only NVIDIA GPUs run",
            "write the operation with tl functions (tl.extra.libdevice has most of C's math)",
        )
    }

    def target(self) -> TargetInfo:
        return current_target()

    def passes(self) -> tuple[Pass, ...]:
        return cpu_passes()

    def cost(self, module: ModuleOp) -> float:
        return program_cost(module)

    def lower(self, module: ModuleOp, options: Options, target: TargetInfo) -> None:
        """Run the pipeline; with `check`, on a kernel that knows the extents of its arrays."""
        if options.check:
            add_extents(module)
            # their accesses are micro-kernels' own, or twice as many
            options = replace(options, disable=(*options.disable, *_UNCHECKED))
        for function in functions_of(module):
            if _has_exclusive_atomics(function):
                function.attributes[_SERIAL] = UnitAttr()
        super().lower(module, options, target)

    def assemble(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        arguments: tuple[Argument, ...],
        cost: float = 0.0,
    ) -> Artifact:
        """Machine code from the vector level."""
        with internal_errors("to write LLVM IR"):
            entry, llvm_module = emit_module(module, target, options.enable_fp_fusion)
            text = str(llvm_module)
        with internal_errors("to make machine code"):
            parsed = binding.parse_assembly(text)
            parsed.verify()
            object_code = machine(target).emit_object(parsed)
        function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
        scratch: Any = function.attributes["cpu.scratch_bytes"]
        plan = LaunchPlan(
            name=entry,
            arguments=arguments,
            scratch_bytes=scratch.value.data,
            program_cost=cost,
            asserts=_assert_sites(function),
            prints=any(isinstance(op, tile.PrintOp) for op in module.walk()),
            serial=_SERIAL in function.attributes,
            cooperative=options.launch_cooperative_grid,
            checked=bool(options.check),
            accesses=_access_sites(function),
        )
        return Artifact(entry, object_code, plan, {"llvm": text})

    def location_at(
        self, module: ModuleOp, options: Options, target: TargetInfo, code: bytes, offset: int
    ) -> SourceLocation | None:
        """Where in the kernel the instruction `offset` bytes after its entry comes from; None if that is unknown.

        `module` is the tile IR (consumed) of the object `code`.
        """
        self.lower(module, options, target)
        places: list[InstructionPlaces] = []
        entry, llvm_module = emit_module(module, target, options.enable_fp_fusion, places)
        return location_at(str(llvm_module), places[0].places, target, entry, code, offset)


def _has_exclusive_atomics(function: func.FuncOp) -> bool:
    return any(
        isinstance(op, tile.AtomicRMWOp) and op.sem.data == tile.EXCLUSIVE for op in function.walk()
    )


def _assert_sites(function: func.FuncOp) -> tuple[AssertSite, ...]:
    sites = []
    recorded: Any = function.attributes["cpu.asserts"]
    for entry in recorded.data:
        message, file, line, column = entry.data
        sites.append(AssertSite(message.data, file.data, line.data, max(0, column.data - 1)))
    return tuple(sites)


def _access_sites(function: func.FuncOp) -> tuple[AccessSite, ...]:
    sites = []
    recorded: Any = function.attributes.get(ACCESSES)
    for entry in recorded.data if recorded is not None else ():
        what, file, line, column, *arguments = (item.data for item in entry.data)
        sites.append(AccessSite(what, file, line, column, tuple(arguments)))
    return tuple(sites)


backend = CpuBackend()


#: per lane; memory as if in the second-level cache, which small grids are about
_ACCESS_NS, _STEP_NS, _MATH_NS, _FLOP_NS = 0.03, 0.01, 0.15, 0.005
_UNKNOWN_TRIPS = 8
#: a loop that may wait for another thread: too long to keep the GIL, which that thread may need
_WAIT_NS = 2500.0
_ACCESSES = (tile.LoadOp, tile.StoreOp, tile.AtomicRMWOp, tile.AtomicCASOp)


def program_cost(module: ModuleOp) -> float:
    """Nanoseconds that one program of a tile IR module takes, within a factor of a few."""
    return sum(_block(r.block) for op in module.body.block.ops for r in op.regions if r.blocks)


def _block(block: Block) -> float:
    return sum(_op(op) for op in block.ops)


def _op(op: Operation) -> float:
    if isinstance(op, scf.ForOp):
        first, end, step = (constant_int(v) for v in (op.lb, op.ub, op.step))
        if first is None or end is None or not step:
            trips = _UNKNOWN_TRIPS
        else:
            trips = len(range(first, end, step))
        return trips * _block(op.body.block)
    if isinstance(op, scf.WhileOp):
        return _WAIT_NS + _UNKNOWN_TRIPS * sum(_block(r.block) for r in op.regions)
    if op.regions and not isinstance(op, tile.ReduceOp | tile.ScanOp):
        return max((_block(r.block) for r in op.regions if r.blocks), default=0.0)
    if isinstance(op, tile.DotOp):
        m, k = tile.shape_of(op.lhs)[-2:]
        return m * k * tile.shape_of(op.rhs)[-1] * _FLOP_NS
    values = [*op.operands, *op.results]
    lanes = max((prod(tile.shape_of(v)) for v in values), default=1)
    if lanes == 1 or is_virtual(op):
        return 1.0
    if op.name.startswith(("math.", "arith.div", "arith.rem")):
        return lanes * _MATH_NS
    return lanes * (_ACCESS_NS if isinstance(op, _ACCESSES) else _STEP_NS)
