"""`scf` loops and branches as LLVM blocks and phis. Loops are rotated: test, then body and test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import SSAValue

from tilewright.backends.llvm.types import Builder, Value
from tilewright.passes.analysis.edit import end_of

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen import KernelCodegen


def _constant(value: Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) else None


def _continues(b: Builder, index: Value, end: Value, step: Value) -> Value:
    """Whether a loop runs another iteration at `index`."""
    known = _constant(step)
    if known is not None:
        return b.icmp_signed("<" if known > 0 else ">", index, end)
    up = b.icmp_signed(">", step, ir.Constant(step.type, 0))
    return b.select(up, b.icmp_signed("<", index, end), b.icmp_signed(">", index, end))


def lower_for(gen: KernelCodegen, op: scf.ForOp) -> None:
    """`scf.for`; the trip test before the first iteration is left out when it is known."""
    b = gen.builder
    start, end, step = gen.get(op.lb), gen.get(op.ub), gen.get(op.step)
    inits = [gen.get(v) for v in op.iter_args]
    body = gen.function.append_basic_block("loop")
    done = gen.function.append_basic_block("done")
    before = b.block
    lo, hi, by = _constant(start), _constant(end), _constant(step)
    always = lo is not None and hi is not None and by is not None and by > 0 and lo < hi
    if always:
        b.branch(body)
    else:
        b.cbranch(_continues(b, start, end, step), body, done)
    b.position_at_end(body)
    block = op.body.block
    index = b.phi(start.type)
    index.add_incoming(start, before)
    gen.set(block.args[0], index)
    phis = []
    for arg, init in zip(block.args[1:], inits, strict=True):
        phi = b.phi(init.type)
        phi.add_incoming(init, before)
        gen.set(arg, phi)
        phis.append(phi)
    for inner in block.ops:
        if not isinstance(inner, scf.YieldOp):
            gen.op(inner)
    yielded = [gen.get(v) for v in end_of(block).operands]
    following = b.add(index, step)
    latch = b.block
    index.add_incoming(following, latch)
    for phi, value in zip(phis, yielded, strict=True):
        phi.add_incoming(value, latch)
    b.cbranch(_continues(b, following, end, step), body, done)
    b.position_at_end(done)
    for result, init, value in zip(op.results, inits, yielded, strict=True):
        if always:
            gen.set(result, value)
            continue
        merged = b.phi(init.type)
        merged.add_incoming(init, before)
        merged.add_incoming(value, latch)
        gen.set(result, merged)


def lower_if(gen: KernelCodegen, op: scf.IfOp) -> None:
    """`scf.if` with results as phis."""
    b = gen.builder
    yes = gen.function.append_basic_block("then")
    no = gen.function.append_basic_block("else")
    done = gen.function.append_basic_block("endif")
    b.cbranch(gen.get(op.cond), yes, no)
    arms: list[tuple[list[Value], Value]] = []
    for start, region in ((yes, op.true_region), (no, op.false_region)):
        b.position_at_end(start)
        values: list[Value] = []
        if region.blocks:
            for inner in region.block.ops:
                if isinstance(inner, scf.YieldOp):
                    values = [gen.get(v) for v in inner.operands]
                else:
                    gen.op(inner)
        arms.append((values, b.block))
        b.branch(done)
    b.position_at_end(done)
    _merge(gen, list(op.results), arms)


def _merge(
    gen: KernelCodegen, results: list[SSAValue], arms: list[tuple[list[Value], Value]]
) -> None:
    for i, result in enumerate(results):
        phi = gen.builder.phi(arms[0][0][i].type)
        for values, block in arms:
            phi.add_incoming(values[i], block)
        gen.set(result, phi)


def lower_while(gen: KernelCodegen, op: scf.WhileOp) -> None:
    """`scf.while`: the condition region, then the body, then back."""
    b = gen.builder
    head = gen.function.append_basic_block("while")
    body = gen.function.append_basic_block("do")
    done = gen.function.append_basic_block("done")
    inits = [gen.get(v) for v in op.arguments]
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    phis = []
    for arg, init in zip(op.before_region.block.args, inits, strict=True):
        phi = b.phi(init.type)
        phi.add_incoming(init, before)
        gen.set(arg, phi)
        phis.append(phi)
    passed: list[Value] = []
    for inner in op.before_region.block.ops:
        if isinstance(inner, scf.ConditionOp):
            passed = [gen.get(v) for v in inner.operands[1:]]
            b.cbranch(gen.get(inner.operands[0]), body, done)
        else:
            gen.op(inner)
    b.position_at_end(body)
    for arg, value in zip(op.after_region.block.args, passed, strict=True):
        gen.set(arg, value)
    for inner in op.after_region.block.ops:
        if isinstance(inner, scf.YieldOp):
            for phi, value in zip(phis, inner.operands, strict=True):
                phi.add_incoming(gen.get(value), b.block)
        else:
            gen.op(inner)
    b.branch(head)
    b.position_at_end(done)
    for result, value in zip(op.results, passed, strict=True):
        gen.set(result, value)
