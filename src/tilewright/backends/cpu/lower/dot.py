"""`acc += a @ b` on scratch buffers: the function a `cpu.call_microkernel` calls.

The shape is that of all fast matrix products on CPUs (Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008; BLIS): a register tile of accumulators stays in
registers over the whole depth of the step, fed by one row of a panel of `b` and by broadcasts from
`a`. Panels of `b` stay in the first-level cache while all row blocks of `a` pass by. The accumulator
tile is kept in memory between steps, arranged so that a register tile is one run of vectors.

While it computes, the function can prefetch the rows that the *next* step will copy: a step's loads
from memory are otherwise not overlapped with anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_loops import I64, POINTER, VOID
from tilewright.backends.cpu.lower.dot_vector import emit_vector_body
from tilewright.passes.cpu.dot_plan import DotPlan
from tilewright.targets import TargetInfo

#: what the function takes: a, b, acc, next_a, bytes between rows of next_a, next_b, bytes … next_b
DOT_TYPE = ir.FunctionType(VOID, (POINTER, POINTER, POINTER, POINTER, I64, POINTER, I64))


def emit_dot(
    module: ir.Module, plan: DotPlan, target: TargetInfo, attributes: Iterable[str] = ()
) -> ir.Function:
    """The function of `plan`, emitted into `module` on first use.

    Its type is `DOT_TYPE`. The buffers are 64-byte aligned, laid out and typed as the plan says, and
    do not overlap; those of `a` and `b` keep their matrices (their `extra` elements are overwritten).
    `next_a`/`next_b` may be null: then nothing is prefetched for them.

    Args:
        attributes: further function attributes, as they stand in LLVM text.
    """
    name = f"dot_{plan.kind}_{plan.m}x{plan.n}x{plan.k}_{zlib.crc32(str(plan).encode()):08x}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, DOT_TYPE, name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind", *attributes):
        # llvmlite knows only the plain ones; the set prints any text
        set.add(function.attributes, attribute)
    for argument, label in zip(
        function.args, ("a", "b", "acc", "next_a", "next_lda", "next_b", "next_ldb"), strict=True
    ):
        argument.name = label
    for argument in function.args[:3]:
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    if plan.uses_amx:
        from tilewright.backends.cpu.lower.dot_amx import emit_amx_body

        emit_amx_body(builder, plan, target)
    else:
        emit_vector_body(builder, plan, target)
    builder.ret_void()
    return function
