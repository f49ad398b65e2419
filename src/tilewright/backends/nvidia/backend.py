"""`NvidiaBackend`: tile IR in; PTX, where an assembler is found a cubin, and a launch plan out."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Attribute

from tilewright.backends.arguments import launch_arguments
from tilewright.backends.base import MEANWHILE, Argument, Artifact, LaunchPlan, Options
from tilewright.backends.lowering import LoweringBackend
from tilewright.backends.nvidia.assemble import Assembled, Assembler, assemble
from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.occupancy import (
    CtaResources,
    register_limit_for_occupancy,
    resident_ctas,
    spills_worth_occupancy,
)
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.ptx import to_ptx, with_limit
from tilewright.backends.nvidia.target import current_target, num_ctas_on
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.num_ctas import BLOCKS, CTAS_PER_SM
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.passes.gpu.assign_layouts import WARPS
from tilewright.passes.gpu.pipeline_loads import STAGES
from tilewright.targets import TargetInfo


class NvidiaBackend(LoweringBackend):
    """The NVIDIA back end; its last level of IR is that of tiles with layouts."""

    name, level = "nvidia", "gpu"

    def target(self) -> TargetInfo:
        return current_target()

    def passes(self) -> tuple[Pass, ...]:
        return nvidia_passes()

    def compile(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        observer: Callable[..., Any] | None = None,
    ) -> Artifact:
        with Assembler(target, options) as assembler:  # it gets ready meanwhile
            arguments = launch_arguments(module)
            self.lower(module, options, target, observer)
            return self._code(module, options, target, arguments, assembler)

    def assemble(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        arguments: tuple[Argument, ...],
        cost: float = 0.0,
    ) -> Artifact:
        """PTX, and a cubin where there is ptxas."""
        with Assembler(target, options) as assembler:
            return self._code(module, options, target, arguments, assembler)

    def _code(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        arguments: tuple[Argument, ...],
        assembler: Assembler,
    ) -> Artifact:
        text, plan, multiplies = _emitted(module, options, target, arguments)
        block = CtaResources(plan.threads, 0, plan.shared_bytes)
        alone = (not multiplies and resident_ctas(block, target) == 1) or "setmaxnreg" in text
        ptx = to_ptx(text, target, options, plan.threads, plan.cluster_size, alone)
        assembled = assembler.assemble(ptx, _meanwhile)
        if options.maxnreg is None and not multiplies:
            block = replace(block, registers=assembled.registers)
            ptx, assembled = _reassemble_with_limit(
                ptx, assembled, block, target, options, plan.cluster_size, _planned_ctas(module)
            )
        plan = replace(plan, registers=assembled.registers, spills=assembled.spills)
        texts = {"llvm": text, "ptx": ptx}
        if assembled.warnings:
            texts["log"] = "\n".join(assembled.warnings)
        return Artifact(plan.name, assembled.object_code(ptx), plan, texts)

    def facts(self, options: Options, target: TargetInfo) -> dict[str, Attribute]:
        blocks = num_ctas_on(options.num_ctas, target)
        numbers = {WARPS: options.num_warps * blocks, STAGES: options.num_stages}
        if blocks > 1:
            numbers[BLOCKS] = blocks
        return {name: IntegerAttr(number, i32) for name, number in numbers.items()}


def _emitted(
    module: ModuleOp, options: Options, target: TargetInfo, arguments: tuple[Argument, ...]
) -> tuple[str, LaunchPlan, bool]:
    """The LLVM module as text, the plan as far as it is known before assembly, and whether the kernel
    has products of tiles."""
    gen, llvm_module = emit_module(module, target, options.enable_fp_fusion)
    plan = LaunchPlan(
        name=gen.function.name,
        arguments=arguments,
        asserts=tuple(gen.asserts),
        prints=gen.prints,
        threads=32 * (gen.warps // gen.blocks + gen.producer_warps),
        shared_bytes=gen.scratch_bytes,
        cluster_size=max(gen.blocks, gen.cluster),
        programmatic_launch=bool(gen.overlap),
        tensor_maps=tuple(gen.maps.recipes),
    )
    return str(llvm_module), plan, gen.multiplies


def _planned_ctas(module: ModuleOp) -> int:
    """The number of blocks per SM that a pass has planned the registers of a kernel for."""
    found = (op.attributes.get(CTAS_PER_SM) for op in module.body.block.ops)
    return max((a.value.data for a in found if isinstance(a, IntegerAttr)), default=1)


_YOUNG = 50_000
"""So many new objects the collector gets through while `ptxas` assembles a small kernel."""


def _meanwhile() -> None:
    """What there is to do while the assembler is at work."""
    work = MEANWHILE.get()
    if work is not None:
        work()
    _tidy_up()


def _tidy_up() -> None:
    """Collect what the compilation of a kernel has left behind, while its code is being assembled.

    The collector would do so right afterwards, when somebody waits for the kernel.
    """
    if gc.isenabled() and gc.get_count()[0] < _YOUNG:
        gc.collect(0)


def _reassemble_with_limit(
    ptx: str,
    assembled: Assembled,
    block: CtaResources,
    target: TargetInfo,
    options: Options,
    cluster: int,
    planned: int,
) -> tuple[str, Assembled]:
    """PTX and what is made of it with a limit on registers, where that is better; else both as they are.

    Where far more values are wanted than there are registers the assembler gives up and takes 32 of 255: it
    is given all. And where with a few fewer more blocks share an SM, and nothing more goes to
    memory (or a little, where there was one block), it is given fewer.
    """
    most = max_registers_per_thread(-(-block.threads // 32))
    if assembled.spills and assembled.registers < most:
        limited = with_limit(ptx, most)
        other = assemble(limited, target, options)
        if other.spills < assembled.spills:
            return limited, other
    for wanted in range(planned, 0, -1):
        limit = None
        if assembled.registers:
            limit = register_limit_for_occupancy(block, target, cluster, wanted)
        if limit is None:
            continue
        limited = with_limit(ptx, limit)
        other = assemble(limited, target, options)
        allowed = assembled.spills + spills_worth_occupancy(block, target, wanted)
        if 0 < other.registers <= limit and other.spills <= allowed:
            return limited, other
        if resident_ctas(block, target) >= wanted:
            break
    return ptx, assembled


backend = NvidiaBackend()
