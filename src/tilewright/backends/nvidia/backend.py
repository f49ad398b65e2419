"""`NvidiaBackend`: tile IR in; PTX, where an assembler is found a cubin, and a launch plan out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32

from tilewright import config
from tilewright.backends.arguments import launch_arguments
from tilewright.backends.base import Argument, Artifact, LaunchPlan, Options, TargetInfo
from tilewright.backends.nvidia.assemble import assemble
from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.ptx import to_ptx
from tilewright.backends.nvidia.target import blocks_of_a_program, current_target
from tilewright.ir.text import print_ir
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.blocks import BLOCKS
from tilewright.passes.gpu.assign_layouts import WARPS
from tilewright.passes.gpu.pipeline_loads import STAGES
from tilewright.passes.manager import run_pipeline


class NvidiaBackend:
    """The NVIDIA back end (`backends.base.Backend`)."""

    name = "nvidia"

    def target(self) -> TargetInfo:
        return current_target()

    def passes(self) -> tuple[Pass, ...]:
        """The pipeline, as a list."""
        return nvidia_passes()

    def compile(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        observer: Callable[..., Any] | None = None,
    ) -> Artifact:
        """Lower a tile IR module (consumed) to PTX for `target`, and to a cubin where there is ptxas."""
        arguments = launch_arguments(module)
        self.lower(module, options, target, observer)
        return self.assemble(module, options, target, arguments)

    def assemble(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        arguments: tuple[Argument, ...],
        cost: float = 0.0,
    ) -> Artifact:
        """Code for a module that the pipeline has lowered."""
        gen, llvm_module = emit_module(module, target, options.enable_fp_fusion)
        text = str(llvm_module)
        ptx = to_ptx(text, target, options, 32 * options.num_warps, gen.blocks)
        assembled = assemble(ptx, target, options)
        plan = LaunchPlan(
            name=gen.function.name,
            arguments=arguments,
            asserts=tuple(gen.asserts),
            prints=gen.prints,
            threads=32 * options.num_warps,
            shared_bytes=gen.scratch_bytes,
            cluster=gen.blocks,
            tensor_maps=tuple(gen.maps.recipes),
            registers=assembled.registers,
            spills=assembled.spills,
        )
        texts = {"llvm": text, "ptx": ptx}
        if assembled.warnings:
            texts["log"] = "\n".join(assembled.warnings)
        return Artifact(plan.name, assembled.object_code(ptx), plan, texts)

    def lower(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        observer: Callable[..., Any] | None = None,
    ) -> None:
        """Run the pipeline on a tile IR module, in place."""
        settings = config.current()
        for function in module.body.block.ops:
            if isinstance(function, func.FuncOp):
                blocks = blocks_of_a_program(options.num_ctas, target)
                function.attributes[WARPS] = IntegerAttr(options.num_warps * blocks, i32)
                if blocks > 1:
                    function.attributes[BLOCKS] = IntegerAttr(blocks, i32)
                function.attributes[STAGES] = IntegerAttr(options.num_stages, i32)
        run_pipeline(
            module,
            self.passes(),
            target,
            disabled=(*options.disable, *settings.disabled_passes),
            verify="each" if settings.verify_each_pass else "off",
            observer=observer,
        )

    def texts(self, module: ModuleOp, options: Options, target: TargetInfo) -> dict[str, str]:
        """The IR as the front end made it ("tile") and with layouts ("gpu")."""
        tile_text = print_ir(module)
        self.lower(module, options, target)
        return {"tile": tile_text, "gpu": print_ir(module)}


backend = NvidiaBackend()
