"""`NvidiaBackend`: tile IR in; PTX, where an assembler is found a cubin, and a launch plan out."""

from __future__ import annotations

import gc
from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i32
from xdsl.ir import Attribute

from tilewright.backends.base import MEANWHILE, Argument, Artifact, LaunchPlan, Options
from tilewright.backends.lowering import LoweringBackend, launch_arguments
from tilewright.backends.nvidia.assemble import Assembler
from tilewright.backends.nvidia.codegen import KernelCodegen, emit_module
from tilewright.backends.nvidia.live_registers import live_registers
from tilewright.backends.nvidia.lower.output import ASSERT_TRAPS
from tilewright.backends.nvidia.occupancy import CtaResources, resident_ctas
from tilewright.backends.nvidia.partial_sectors import shared_bytes_for_locality
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.ptx import to_ptx
from tilewright.backends.nvidia.register_limits import (
    Made,
    limit_for_loads,
    limit_for_lone_ctas,
    limit_for_occupancy,
    with_all_registers,
    with_another_cta,
)
from tilewright.backends.nvidia.target import current_target, num_ctas_on
from tilewright.dialects import gpu, tile
from tilewright.errors import REGISTERS, OutOfResources
from tilewright.passes.base import Pass, functions_of
from tilewright.passes.gpu.analysis.num_ctas import BLOCKS, CTAS_PER_SM, WARPS
from tilewright.passes.gpu.analysis.registers import LIMIT, MUST_FIT, max_registers_per_thread
from tilewright.passes.gpu.pipeline_loads import STAGES
from tilewright.targets import TargetInfo


class NvidiaBackend(LoweringBackend):
    """The NVIDIA back end; its last level of IR is that of tiles with layouts."""

    name, level = "nvidia", "gpu"

    def target(self) -> TargetInfo:
        return current_target()

    def passes(self) -> tuple[Pass, ...]:
        return nvidia_passes()

    def compile(self, module: ModuleOp, options: Options, target: TargetInfo) -> Artifact:
        with Assembler(target, options) as assembler:  # it gets ready meanwhile
            arguments = launch_arguments(module)
            self.lower(module, options, target)
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
        text, plan, multiplies, loaded_bytes = _emitted(module, options, target, arguments)
        block = CtaResources(plan.threads, 0, plan.shared_bytes)
        alone = (not multiplies and resident_ctas(block, target) == 1) or "setmaxnreg" in text
        ptx = to_ptx(text, target, options, plan.threads, plan.cluster_size, alone)
        assembled = assembler.assemble(ptx, _meanwhile)
        made = Made(ptx, assembled, block, target, options)
        if options.maxnreg is None and multiplies and "setmaxnreg" not in text:
            made = with_all_registers(made)
            if not _has_mmas_in_sequence(module):  # of which variants with more warps are tried
                made = with_another_cta(made)
        elif options.maxnreg is None and not multiplies:
            made = limit_for_occupancy(made, plan.cluster_size, _planned_ctas(module))
            made = limit_for_loads(made, loaded_bytes)
            made = limit_for_lone_ctas(made, plan.cluster_size)
        ptx, assembled = made.ptx, made.assembled
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
        if options.maxnreg is not None:
            numbers[LIMIT] = options.maxnreg
        facts: dict[str, Attribute] = {n: IntegerAttr(number, i32) for n, number in numbers.items()}
        return {**facts, ASSERT_TRAPS: UnitAttr()} if options.assert_traps else facts


def _emitted(
    module: ModuleOp, options: Options, target: TargetInfo, arguments: tuple[Argument, ...]
) -> tuple[str, LaunchPlan, bool, int]:
    """The LLVM module as text, the plan as far as it is known before assembly, whether the kernel has MMAs of
    tiles, and how many bytes a thread loads without a side effect between (0: prefetched, few need be in flight)."""
    gen, llvm_module = emit_module(module, target, options.enable_fp_fusion)
    if MUST_FIT in module.attributes:
        _check_registers(gen, options)
    threads = 32 * (gen.warps // gen.blocks + gen.producer_warps)
    shared_bytes = gen.scratch_bytes
    for function in functions_of(module):
        shared_bytes = shared_bytes_for_locality(function, threads, shared_bytes, target)
    plan = LaunchPlan(
        name=gen.function.name,
        arguments=arguments,
        asserts=tuple(gen.asserts),
        prints=gen.prints,
        threads=threads,
        shared_bytes=shared_bytes,
        cluster_size=max(gen.blocks, gen.cluster),
        programmatic_launch=bool(gen.overlap),
        cooperative=options.launch_cooperative_grid,
        tensor_maps=tuple(gen.maps.recipes),
    )
    loaded_bytes = 0 if gen.prefetches else gen.loaded_bytes
    return str(llvm_module), plan, gen.multiplies, loaded_bytes


_CERTAIN = 32
"""Registers by which an estimate exceeds those of a thread if values are certain to be spilled."""
_LARGE_TILE = 4
"""A kernel in which no tile takes one in so many registers of a thread hardly wants more than there are."""


def _check_registers(gen: KernelCodegen, options: Options) -> None:
    """Raise OutOfResources if far more registers are wanted than a thread has. A kernel whose warps or CTAs a pass has
    chosen is left alone: it could choose others."""
    limit = max_registers_per_thread(gen.warps)
    most = max(map(len, gen.values.values()), default=0)
    if gen.cluster > 1 or gen.warps != options.num_warps or _LARGE_TILE * most < limit:
        return
    found = live_registers(gen, limit)
    if found >= limit + _CERTAIN:
        raise OutOfResources(found, limit, REGISTERS)


def _has_mmas_in_sequence(module: ModuleOp) -> bool:
    """Whether a loop has several MMAs of tiles."""
    multiplied = (gpu.WgmmaOp, tile.DotOp)
    blocks = [op.parent for op in module.walk() if isinstance(op, multiplied)]
    looped = [b for b in blocks if b is not None and isinstance(b.parent_op(), scf.ForOp)]
    return len(looped) > len(set(looped))


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
    """Collect what the compilation of a kernel has left over, while its code is being assembled.

    The collector would do so right afterwards, when somebody waits for the kernel.
    """
    if gc.isenabled() and gc.get_count()[0] < _YOUNG:
        gc.collect(0)


backend = NvidiaBackend()
