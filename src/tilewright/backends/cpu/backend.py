"""`CpuBackend`: tile IR in, native object code and a launch plan out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tilewright import config
from tilewright.backends.arguments import launch_arguments
from tilewright.backends.base import (
    Argument,
    Artifact,
    AssertSite,
    LaunchPlan,
    Options,
    TargetInfo,
)
from tilewright.backends.cpu.codegen import emit_module
from tilewright.backends.cpu.cost import program_cost
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.backends.cpu.target import current_target, machine
from tilewright.dialects import tile
from tilewright.ir.blame import internal_errors
from tilewright.ir.text import print_ir
from tilewright.passes.base import Pass
from tilewright.passes.manager import run_pipeline


class CpuBackend:
    """The CPU back end (`backends.base.Backend`)."""

    name = "cpu"

    def target(self) -> TargetInfo:
        return current_target()

    def passes(self) -> tuple[Pass, ...]:
        """The pipeline, as a list."""
        return cpu_passes()

    def compile(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        observer: Callable[..., Any] | None = None,
    ) -> Artifact:
        """Lower a tile IR module (consumed) to an object file for `target`."""
        arguments = launch_arguments(module)
        cost = program_cost(module)
        self.lower(module, options, target, observer)
        return self.assemble(module, options, target, arguments, cost)

    def lower(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        observer: Callable[..., Any] | None = None,
    ) -> None:
        """Run the pipeline on a tile IR module, in place."""
        settings = config.current()
        run_pipeline(
            module,
            self.passes(),
            target,
            disabled=(*options.disable, *settings.disabled_passes),
            verify="each" if settings.verify_each_pass else "off",
            observer=observer,
        )

    def texts(self, module: ModuleOp, options: Options, target: TargetInfo) -> dict[str, str]:
        """The IR as the front end made it ("tile") and at the vector level ("cpu")."""
        tile_text = print_ir(module)
        self.lower(module, options, target)
        return {"tile": tile_text, "cpu": print_ir(module)}

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
        )
        return Artifact(entry, object_code, plan, {"llvm": text})


def _assert_sites(function: func.FuncOp) -> tuple[AssertSite, ...]:
    sites = []
    recorded: Any = function.attributes["cpu.asserts"]
    for entry in recorded.data:
        message, file, line, column = entry.data
        sites.append(AssertSite(message.data, file.data, line.data, column.data))
    return tuple(sites)


backend = CpuBackend()
