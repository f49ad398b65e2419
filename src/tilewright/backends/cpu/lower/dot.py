"""Emit the micro-kernel of `acc += a @ b` on scratch buffers, called by `cpu.call_microkernel`.

The algorithm is that of GotoBLAS and BLIS (Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication", 2008). A register tile of accumulators stays in registers over the whole depth of the step. Each
iteration loads one row of a panel of `b` and broadcasts elements of `a`. A panel of `b` stays in L1 while all row
blocks of `a` are processed. Between steps the accumulator tile is in memory, laid out so that a register tile is a
contiguous sequence of vectors.

The function can prefetch the rows that the *next* step copies, which overlaps those loads with computation.
"""

from __future__ import annotations

import zlib

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_amx import emit_amx_body
from tilewright.backends.cpu.lower.dot_vector import emit_vector_body
from tilewright.backends.llvm.types import I64, POINTER, VOID
from tilewright.passes.cpu.dot_plan import DotPlan
from tilewright.targets import TargetInfo

#: parameters: a, b, acc, next_a, row pitch of next_a in bytes, next_b, row pitch of next_b in bytes
DOT_TYPE = ir.FunctionType(VOID, (POINTER, POINTER, POINTER, POINTER, I64, POINTER, I64))


def emit_dot(module: ir.Module, plan: DotPlan, target: TargetInfo) -> ir.Function:
    """Return the function of `plan`, emitting it into `module` on first use.

    Its type is `DOT_TYPE`. The buffers are 64-byte aligned, laid out and typed as the plan says, and
    do not overlap; those of `a` and `b` keep their matrices (their `extra` elements are overwritten).
    `next_a`/`next_b` may be null, which disables prefetching for them.
    """
    name = f"dot_{plan.kind}_{plan.m}x{plan.n}x{plan.k}_{zlib.crc32(str(plan).encode()):08x}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, DOT_TYPE, name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    for argument, label in zip(
        function.args, ("a", "b", "acc", "next_a", "next_lda", "next_b", "next_ldb"), strict=True
    ):
        argument.name = label
    for argument in function.args[:3]:
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    if plan.uses_amx:
        emit_amx_body(builder, plan, target)
    else:
        emit_vector_body(builder, plan, target)
    builder.ret_void()
    return function
