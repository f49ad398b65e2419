"""`scf` loops and branches as LLVM blocks and phis. Loops are rotated: test, then body and test.

Shared by all targets: a value of the IR stands for a list of LLVM values (one on a CPU, as many as a
thread has registers of a tile on a GPU), and each of those gets its own phi.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import SSAValue

from tilewright.backends.llvm.blocks import keep_rolled, phis_of
from tilewright.backends.llvm.codegen import Codegen
from tilewright.backends.llvm.types import Builder, Value
from tilewright.passes.analysis.edit import end_of


def _constant(value: Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) else None


def _continues(b: Builder, index: Value, end: Value, step: Value) -> Value:
    """Whether a loop runs another iteration at `index`."""
    known = _constant(step)
    if known is not None:
        return b.icmp_signed("<" if known > 0 else ">", index, end)
    up = b.icmp_signed(">", step, ir.Constant(step.type, 0))
    return b.select(up, b.icmp_signed("<", index, end), b.icmp_signed(">", index, end))


def lower_for(gen: Codegen, op: scf.ForOp) -> None:
    """`scf.for`; the trip test before the first iteration is left out when it is known."""
    b = gen.builder
    start, end, step = gen.scalar(op.lb), gen.scalar(op.ub), gen.scalar(op.step)
    block = op.body.block
    args = block.args[1:]
    inits = [gen.carried(v, arg) for v, arg in zip(op.iter_args, args, strict=True)]
    counts = [len(parts) for parts in inits]
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
    index = b.phi(start.type)
    index.add_incoming(start, before)
    gen.bind(block.args[0], [index])
    starts = [part for parts in inits for part in parts]
    phis = phis_of(b, starts, before)
    _bind_carried(gen, args, phis, counts)
    for inner in block.ops:
        if not isinstance(inner, scf.YieldOp):
            gen.op(inner)
    ends = zip(end_of(block).operands, args, strict=True)
    last = [gen.carried(value, arg) for value, arg in ends]
    yielded = [part for parts in last for part in parts]
    following = b.add(index, step)
    latch = b.block
    index.add_incoming(following, latch)
    for phi, value in zip(phis, yielded, strict=True):
        phi.add_incoming(value, latch)
    left = done if always else gen.function.append_basic_block("left")
    again = b.cbranch(_continues(b, following, end, step), body, left)
    if gen.as_written(op):
        again.set_metadata("llvm.loop", keep_rolled(gen.function.module))
    b.position_at_end(left)
    results = [part for parts in gen.leave_loop(op, last) for part in parts]
    if not always:
        handed, out = results, b.block
        b.branch(done)
        b.position_at_end(done)
        results = phis_of(b, starts, before)
        for merged, value in zip(results, handed, strict=True):
            merged.add_incoming(value, out)
    _bind_carried(gen, op.results, results, counts)


def lower_if(gen: Codegen, op: scf.IfOp) -> None:
    """`scf.if` with results as phis."""
    b = gen.builder
    yes = gen.function.append_basic_block("then")
    no = gen.function.append_basic_block("else")
    done = gen.function.append_basic_block("endif")
    b.cbranch(gen.scalar(op.cond), yes, no)
    arms: list[tuple[list[Value], Value]] = []
    like: Sequence[SSAValue] = ()
    for start, region in ((yes, op.true_region), (no, op.false_region)):
        b.position_at_end(start)
        values: list[Value] = []
        if region.blocks:
            for inner in region.block.ops:
                if isinstance(inner, scf.YieldOp):
                    values, like = _flat(gen, inner.operands), inner.operands
                else:
                    gen.op(inner)
            values = gen.leave_branch(region.block, values)
        arms.append((values, b.block))
        b.branch(done)
    b.position_at_end(done)
    merged = phis_of(b, arms[0][0], arms[0][1])
    for phi, value in zip(merged, arms[1][0], strict=True):
        phi.add_incoming(value, arms[1][1])
    _bind_all(gen, op.results, merged, like)


def lower_while(gen: Codegen, op: scf.WhileOp) -> None:
    """`scf.while`: the condition region, then the body, then back."""
    b = gen.builder
    head = gen.function.append_basic_block("while")
    body = gen.function.append_basic_block("do")
    done = gen.function.append_basic_block("done")
    inits = _flat(gen, op.arguments)
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    phis = phis_of(b, inits, before)
    _bind_all(gen, op.before_region.block.args, phis, op.arguments)
    passed: list[Value] = []
    like: Sequence[SSAValue] = ()
    for inner in op.before_region.block.ops:
        if isinstance(inner, scf.ConditionOp):
            like = inner.operands[1:]
            passed = _flat(gen, like)
            b.cbranch(gen.scalar(inner.operands[0]), body, done)
        else:
            gen.op(inner)
    b.position_at_end(body)
    _bind_all(gen, op.after_region.block.args, passed, like)
    for inner in op.after_region.block.ops:
        if isinstance(inner, scf.YieldOp):
            for phi, value in zip(phis, _flat(gen, inner.operands), strict=True):
                phi.add_incoming(value, b.block)
        else:
            gen.op(inner)
    b.branch(head)
    b.position_at_end(done)
    _bind_all(gen, op.results, passed, like)


def _flat(gen: Codegen, values: Sequence[SSAValue]) -> list[Value]:
    return [part for value in values for part in gen.parts(value)]


def _bind_all(
    gen: Codegen, values: Sequence[SSAValue], parts: list[Value], like: Sequence[SSAValue]
) -> None:
    """Share `parts` out among `values`, each of which has as many as its twin in `like`."""
    left = iter(parts)
    for value, twin in zip(values, like, strict=True):
        gen.bind(value, list(islice(left, len(gen.parts(twin)))))


def _bind_carried(
    gen: Codegen, values: Sequence[SSAValue], parts: list[Value], counts: list[int]
) -> None:
    """Share `parts` out among `values`, `counts` of them each."""
    left = iter(parts)
    for value, count in zip(values, counts, strict=True):
        gen.bind_carried(value, list(islice(left, count)))


HANDLERS = {scf.ForOp: lower_for, scf.IfOp: lower_if, scf.WhileOp: lower_while}
