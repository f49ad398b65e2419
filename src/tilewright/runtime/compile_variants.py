"""Other options for a kernel that does not fit, spills or serializes its MMAs: none of them affects semantics.

The result of ptxas (shared memory, spilled registers, messages) chooses the next variant that `compiler` tries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, UnitAttr
from xdsl.ir import Operation, SSAValue

from tilewright.backends.base import Artifact, Options
from tilewright.dialects import tile
from tilewright.errors import REGISTERS, OutOfResources
from tilewright.ir.walk import closure, innermost_loop
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.gpu.analysis.registers import MUST_FIT, max_registers_per_thread
from tilewright.runtime.backend_compile import start_workers
from tilewright.runtime.compiler import as_asked, build_ir, compile_with, form_taken, in_form
from tilewright.runtime.specialize import ArgumentType
from tilewright.targets import TargetInfo

FAR_TOO_LARGE = 2.0
"""Share of the shared memory above which registers could not hold a kernel's operands either."""


def with_less_shared_memory(options: Options, error: OutOfResources) -> Iterator[Options]:
    """Options to try if a kernel does not fit: fewer stages, then no scheduled loops, then no operands in
    shared memory."""
    for stages in range(options.num_stages - 1, 0, -1):
        yield replace(options, num_stages=stages)
    given = options.disable
    yield replace(options, num_stages=1, disable=(*given, "schedule-loops"))
    if error.required <= FAR_TOO_LARGE * error.limit:
        off = ("schedule-loops", "pipeline-loads", "promote-shared")
        yield replace(options, num_stages=1, disable=(*given, *off))


MANY_SPILLS = 64
"""Spilled registers per thread from which a kernel with dots is recompiled with more warps."""
SOME_SPILLS = 8
"""As `MANY_SPILLS`, of a kernel without dots: any number of warps shares out its tiles."""
FEW_SPILLS = 4
"""Spilled registers per thread that cost less than twice as many CTAs that exchange results."""
FEWER_SPILLS = 4
"""A variant with other warps or CTAs is used if it spills by at least this factor less."""
FEWER_SPILLS_IN_MEMORY = 2
"""The same of `OPERANDS_IN_MEMORY`, which changes nothing else."""
MOST_IN_FLIGHT = "schedule-loops"
"""The pass that keeps the most MMAs in flight."""
UNROLLED = "unroll-stages{most-stages=2}"
"""The pass that makes stages constants, where it does."""
WITH_BARRIERS = "pipeline-loads{release-stages=false}"
"""The pass that lets warpgroups run apart, where they do not: barriers keep ptxas from computing masks of later iterations."""
_NARROW = 32
WIDER_DOTS = f"widen-dots{{widest={_NARROW}}}"
"""The pass that computes two iterations of narrow dots at once, where it does."""
SMALLER_SHARES = "distribute-rows-over-cluster{words-per-cta=8192 max-portable-ctas=16}"
"""The pass with half of its words per CTA, for rows whose CTAs spill with as many as it plans."""
OPERANDS_IN_MEMORY = "promote-shared{loop-operands=true}"
"""The pass that reads large operands from shared memory in each iteration, which it keeps in registers otherwise."""
_MANY_OPERANDS = 128 * 32 * 4
"""Bytes of an operand of which each thread of a warp has 128 registers."""
WARPS_WITH_ALL_REGISTERS = 8
"""Largest number of warps per CTA that can have 255 registers per thread."""


def with_more_warps(options: Options, machine: TargetInfo, most: int) -> list[Options]:
    """Options with more warps, twice as many each, up to `most` and to as many as an SM has registers for.

    Empty but on NVIDIA GPUs. `num_warps` does not affect semantics, so results are the same."""
    if machine.family != "nvidia" or options.num_ctas > 1 or options.maxnreg is not None:
        return []
    most = min(WARPS_WITH_ALL_REGISTERS, most)
    counts = range(1, (most // options.num_warps).bit_length())
    return [replace(options, num_warps=options.num_warps << i) for i in counts]


def has_large_loop_operands(module: Any) -> bool:
    """Whether a dot of a loop has an operand that no iteration changes and that takes half of a warp's registers."""
    return any(
        prod(tile.shape_of(value)) * tile.element_bytes(value) >= _MANY_OPERANDS
        and _is_invariant(value, loop)
        for op in _dots(module)
        if (loop := innermost_loop(op)) is not None
        for value in (op.lhs, op.rhs)
    )


def can_share_operands(artifact: Artifact, options: Options) -> bool:
    """Whether `OPERANDS_IN_MEMORY` may change a kernel: its dots are `mma.sync`, and it has not been asked for. (`wgmma` reads
    its operands from shared memory as it is, or has a reason to keep them in registers.)"""
    ptx = artifact.asm.get("ptx", "")
    return "mma.sync" in ptx and "wgmma" not in ptx and OPERANDS_IN_MEMORY not in options.disable


def _is_invariant(value: SSAValue, loop: scf.ForOp | scf.WhileOp) -> bool:
    """Whether no iteration of a loop changes a value, though it may be computed in each."""

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner
        return owner.operands if isinstance(owner, Operation) and loop.is_ancestor(owner) else ()

    return all(
        not loop.is_ancestor(v.owner)
        or (isinstance(v.owner, Operation) and is_pure(v.owner) and not v.owner.regions)
        for v in closure([value], operands)
    )


def require_registers(module: Any) -> None:
    """Let code generation of a module fail if values are certain to be spilled."""
    module.attributes[MUST_FIT] = UnitAttr()


_FEW_WARPS = 8
"""Warps per SM up to which twice as many fill the time in which others wait for MMAs."""
_FEWEST_CTAS = _FEWEST_STAGES = 2
_MOST_STAGES = 3
"""Stages from which on a launch gets the fewest where CTAs take turns. (With five the backward pass of attention takes 5 %
longer than with two.)"""
_ROWS_OF_WGMMA, _WARPS_OF_WGMMA = 64, 4
_MOST_FOR_DOTS = 0.875
"""Share of the registers that may hold what is live at a dot."""
_HALF_BYTES = 2
SPILLS_WORTH_WARPS = 16
"""Spilled registers per thread, mostly addresses of later loops, that cost less than twice the warps gain. (With 35
attention's causal backward pass is as fast as with four warps.)"""


def rows_of_dots_in_sequence(module: Any) -> int:
    """The fewest rows of a kernel's dots if a loop has several of them, all of 16-bit floats; else 0. What is computed
    between dots leaves the tensor cores idle."""
    dots = _dots(module)
    blocks = [op.parent for op in dots if isinstance(op.parent_op(), scf.ForOp)]
    sizes = {tile.element_bytes(v) for op in dots for v in (op.lhs, op.rhs)}
    if len(blocks) == len(set(blocks)) or sizes != {_HALF_BYTES}:
        return 0
    return min(tile.shape_of(op.result)[-2] for op in dots)


def words_between_dots(module: Any) -> int:
    """The most 32-bit words that are live at a dot of a loop: all floating-point tiles that the loop carries, the result of
    the dot, unless it is added to one of those, results of other dots, and what is computed from them."""
    blocks = {op.parent: op.parent_op() for op in _dots(module)}
    loops = (block for block, op in blocks.items() if isinstance(op, scf.ForOp))
    return max(map(_most_live_words, loops), default=0)


def _most_live_words(block: Any) -> int:
    accumulators, made = set(block.args[1:]), set[Any]()
    for op in block.ops:
        is_dot = isinstance(op, tile.DotOp)
        others = [use.operation for value in op.results for use in value.uses] if is_dot else []
        is_sum = any(
            v in accumulators and v.type == op.results[0].type for v in op.operands if op.results
        )
        if is_sum or (
            others
            and all(
                isinstance(u, arith.AddfOp) and not accumulators.isdisjoint(u.operands)
                for u in others
            )
        ):
            accumulators.update(op.results)
        elif is_dot or not made.isdisjoint(op.operands):
            made.update(
                value
                for value in op.results
                if tile.is_tile(value) and len(tile.shape_of(value)) > 1
            )
    live, most = set[Any](), 0
    for op in reversed(list(block.ops)):
        if isinstance(op, tile.DotOp):
            most = max(most, sum(map(_words, live.union(op.results) & made)))
        live = live.difference(op.results).union(made.intersection(op.operands))
    return most + sum(map(_words, block.args[1:]))


def _words(value: Any) -> int:
    """32-bit words of a floating-point tile."""
    if not tile.is_tile(value) or not isinstance(tile.element_of(value), AnyFloat):
        return 0
    return prod(tile.shape_of(value)) * tile.element_bytes(value) // 4


def has_narrow_dots(module: Any) -> bool:
    """Whether a dot has few columns, so that two iterations may be computed at once (`WIDER_DOTS`)."""
    return any(tile.shape_of(op.result)[-1] <= _NARROW for op in _dots(module))


def with_half_the_registers(
    artifact: Artifact,
    options: Options,
    machine: TargetInfo,
    rows: int,
    narrow: bool = False,
    words: int = 0,
) -> list[Options]:
    """Options with which twice as many warps share an SM, each with half of the registers: CTAs of twice the warps, or a
    second CTA of eight warps. First with the stages asked for, unless those are many, then with the fewest, whose addresses
    take fewer registers.

    Empty unless loops have several dots, with `wgmma`, and registers leave an SM few warps: a warpgroup computes several
    blocks of rows, or a CTA has the SM to itself. `rows`: those of the smallest dot. `narrow`: first with wider dots.
    `words`: what is live at a dot (`words_between_dots`), which has to leave registers for addresses.
    """
    plan, warps = artifact.plan, options.num_warps
    if machine.family != "nvidia" or options.num_ctas > 1 or options.maxnreg is not None:
        return []
    if not rows or "wgmma" not in artifact.asm.get("ptx", ""):
        return []
    from tilewright.backends.nvidia.occupancy import CtaResources, most_registers, resident_ctas

    ctas = resident_ctas(CtaResources(plan.threads, plan.registers, plan.shared_bytes), machine)
    if ctas * warps > _FEW_WARPS or plan.threads < _LANES * warps:
        return []
    if ctas == 1 and warps == _FEW_WARPS:
        ctas = _FEWEST_CTAS
    elif ctas >= _FEWEST_CTAS and plan.threads == _LANES * warps:
        warps *= 2
    else:
        return []
    if warps % _WARPS_OF_WGMMA or warps // _WARPS_OF_WGMMA * _ROWS_OF_WGMMA > rows:
        return []
    limit = most_registers(CtaResources(_LANES * warps, 0, plan.shared_bytes), ctas)
    if words > _MOST_FOR_DOTS * limit * _LANES * warps:
        return []
    asked = options.num_stages
    counts = dict.fromkeys(
        (asked if asked <= _MOST_STAGES else _FEWEST_STAGES, min(asked, _FEWEST_STAGES))
    )
    ways = ((WIDER_DOTS,), ()) if narrow else ((),)
    forms = [
        (count, (MOST_IN_FLIGHT, *wide, way))
        for wide in ways
        for way in (UNROLLED, WITH_BARRIERS)
        for count in counts
    ]
    return [
        replace(
            options,
            num_warps=warps,
            maxnreg=limit,
            num_stages=count,
            disable=(*options.disable, *form),
        )
        for count, form in forms
    ]


def shares_an_sm(artifact: Artifact, machine: TargetInfo) -> bool:
    """Whether an SM has several CTAs of a kernel."""
    plan = artifact.plan
    from tilewright.backends.nvidia.occupancy import CtaResources, resident_ctas

    block = CtaResources(plan.threads, plan.registers, plan.shared_bytes)
    return resident_ctas(block, machine) >= _FEWEST_CTAS


def shares_a_row(artifact: Artifact, options: Options, machine: TargetInfo) -> bool:
    """Whether a kernel spills more than a few registers whose warps or CTAs `distribute-rows-over-cluster` may have
    chosen."""
    plan, name = artifact.plan, SMALLER_SHARES.partition("{")[0]
    if machine.family != "nvidia" or plan.spills <= FEW_SPILLS or options.num_ctas > 1:
        return False
    chosen = plan.cluster_size > 1 or plan.threads < 32 * options.num_warps
    return chosen and not any(entry.partition("{")[0] == name for entry in options.disable)


def carries_too_much(module: Any, options: Options) -> bool:
    """Whether loop-carried floating-point tiles exceed the register file."""
    registers = 32 * options.num_warps * max_registers_per_thread(options.num_warps)
    return any(
        sum(map(_words, op.iter_args)) > registers
        for op in module.walk()
        if isinstance(op, scf.ForOp)
    )


_LANES = 32
_ROWS, _COLUMNS = 16, 8
"""Extents of the part of a dot's result that one warp computes per instruction."""


def _dots(module: Any) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, tile.DotOp)]


def warps_that_share_work(module: Any) -> int:
    """The number of warps that have a part in every dot of a kernel; 0 with impure inline assembly, which may depend on
    the number of threads."""
    if any(isinstance(op, tile.InlineAsmOp) and not is_pure(op) for op in module.walk()):
        return 0
    shapes = [tile.shape_of(op.result)[-2:] for op in _dots(module)]
    parts = (max(1, m // _ROWS) * max(1, n // _COLUMNS) for m, n in shapes)
    return 1 << (min(parts, default=WARPS_WITH_ALL_REGISTERS).bit_length() - 1)


def spills_to_avoid(module: Any) -> int:
    """Spilled registers per thread from which a kernel is recompiled with more warps."""
    return MANY_SPILLS if _dots(module) else SOME_SPILLS


def less_shared_memory_text(error: OutOfResources, wanted: Options, taken: Options) -> str:
    off = [name for name in taken.disable if name not in wanted.disable]
    return (
        f"{error.required} bytes of shared memory would be needed with num_stages={wanted.num_stages}, the target has "
        f"{error.limit}: compiled with num_stages={taken.num_stages}"
        + (f", without {', '.join(off)}" if off else "")
    )


def serializes_mmas(artifact: Artifact) -> bool:
    """Whether ptxas found no registers for MMAs in flight, and made each wait for the one before."""
    return "wgmma.mma_async instructions are serialized" in artifact.asm.get("log", "")


@dataclass(frozen=True)
class Variants:
    """Compiles a kernel for a target, with other options than asked for where those do not fit or spill."""

    kernel: Any
    signature: Mapping[str, ArgumentType]
    machine: TargetInfo

    def compile(self, options: Options, module: Any = None) -> Artifact:
        """The kernel with these options; `module`: its tile IR, if it has been built already (consumed)."""
        return compile_with(self.kernel, self.signature, options, self.machine, module)

    def best(self, options: Options) -> Artifact:
        """The first variant whose shared memory fits (`with_less_shared_memory`), or one with fewer spills
        (`with_more_warps`, `SMALLER_SHARES`), or whose MMAs are asynchronous (`MOST_IN_FLIGHT`)."""
        start_workers()
        module = build_ir(self.kernel, self.signature, options)
        parts, many = warps_that_share_work(module), spills_to_avoid(module)
        rows, narrow = rows_of_dots_in_sequence(module) if parts else 0, has_narrow_dots(module)
        words = words_between_dots(module) if rows else 0
        large = has_large_loop_operands(module)
        wider = with_more_warps(options, self.machine, parts)
        if parts and carries_too_much(module, options):
            # warps without a part in the smallest dot still hold a part of what is carried
            wider = with_more_warps(options, self.machine, WARPS_WITH_ALL_REGISTERS)
            enough = [wide for wide in wider if not carries_too_much(module, wide)] or wider[-1:]
            found = self._first_without_spills(enough, many)
            if found is not None:
                why = "what a loop carries needs more registers than there are"
                return in_form(*found, [f"{why}: compiled with num_warps={found[1].num_warps}"])
            wider = []
        if wider:
            require_registers(module)
        try:
            artifact = self._in_memory(options, module)
        except OutOfResources as error:
            if error.name != REGISTERS or not wider:
                raise
            spills = error.required - error.limit
            found = self._first_without_spills(wider[:1], 0)
            if found is not None and found[0].plan.spills < spills // FEWER_SPILLS + 1:
                why = f"about {spills} registers would be spilled"
                return in_form(*found, [f"{why}: compiled with num_warps={found[1].num_warps}"])
            artifact = self._in_memory(options, None)
        spills, taken = artifact.plan.spills, form_taken(artifact, options)
        if shares_a_row(artifact, options, self.machine):
            others = [replace(taken, disable=(*taken.disable, SMALLER_SHARES))]
        elif large and spills > FEW_SPILLS and can_share_operands(artifact, taken):
            others = [replace(taken, disable=(*taken.disable, OPERANDS_IN_MEMORY))]
            if spills >= many:
                others += [replace(taken, num_warps=wide.num_warps) for wide in wider]
        elif wider and spills >= many:
            others = [replace(taken, num_warps=wide.num_warps) for wide in wider]
        elif serializes_mmas(artifact) and MOST_IN_FLIGHT not in taken.disable:
            return self._without(MOST_IN_FLIGHT, taken, artifact)
        elif halved := with_half_the_registers(artifact, taken, self.machine, rows, narrow, words):
            return self._with_half_the_registers(halved, artifact)
        else:
            return artifact
        in_memory = OPERANDS_IN_MEMORY in others[0].disable
        fewer = spills // (FEWER_SPILLS_IN_MEMORY if in_memory else FEWER_SPILLS) + 1
        found = self._first_without_spills(others, fewer)
        if found is None or found[0].plan.spills >= fewer:
            return artifact
        warps, off = found[1].num_warps, set(found[1].disable) - set(taken.disable)
        how = ", ".join(off) or f"num_warps={warps}"
        return in_form(*found, [f"{spills} registers would be spilled: compiled with {how}"])

    def _with_half_the_registers(self, options: Sequence[Options], artifact: Artifact) -> Artifact:
        """The kernel with the first of these options with which it hardly spills; else `artifact`."""
        for each in options:
            try:
                found = self.compile(each)
            except OutOfResources:
                continue
            if found.plan.spills > SPILLS_WORTH_WARPS or serializes_mmas(found):
                continue
            if shares_an_sm(found, self.machine):
                how = f"num_warps={each.num_warps}, maxnreg={each.maxnreg}"
                return in_form(found, each, [f"few warps would share an SM: compiled with {how}"])
        return artifact

    def _without(self, name: str, taken: Options, artifact: Artifact) -> Artifact:
        """The kernel without the pass `name`, if its MMAs are asynchronous then; else `artifact`."""
        options = replace(taken, disable=(*taken.disable, name))
        try:
            found = self.compile(options)
        except OutOfResources:
            return artifact
        if serializes_mmas(found):
            return artifact
        return in_form(found, options, [f"ptxas would serialize MMAs: compiled without {name}"])

    def _first_without_spills(
        self, options: Sequence[Options], spills: int
    ) -> tuple[Artifact, Options] | None:
        """The first of these variants that spills fewer registers than that, else the last one; None if none fits."""
        found: tuple[Artifact, Options] | None = None
        for each in options:
            try:
                found = self.compile(each), each
            except OutOfResources:
                continue
            if found[0].plan.spills < spills:
                break
        return found

    def _in_memory(self, options: Options, module: Any) -> Artifact:
        """The first variant whose shared memory fits; `module`: the kernel's tile IR (consumed)."""
        try:
            return self.compile(options, module)
        except OutOfResources as error:
            if not error.name.startswith("shared memory") or as_asked.get():
                raise
            for smaller in with_less_shared_memory(options, error):
                try:
                    artifact = self.compile(smaller)
                except OutOfResources:
                    continue
                told = less_shared_memory_text(error, options, smaller)
                return in_form(artifact, smaller, [told])
            raise
