"""Lower operations that create or reshape tiles without exchanging elements between threads."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.ir import SSAValue

from tilewright.backends.llvm.types import Value, llvm_type
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.dialects import tile
from tilewright.dialects.tile.layout_verification import reshaped
from tilewright.errors import PassError
from tilewright.ir.types import defining_op
from tilewright.layouts.layout import Layout, Vector


def lower_splat(gen: KernelCodegen, op: tile.SplatOp) -> None:
    count = gen.layout(op.result).registers_per_thread
    gen.bind(op.result, [gen.scalar(op.source)] * count)


def lower_arange(gen: KernelCodegen, op: tile.ArangeOp) -> None:
    layout, b = gen.layout(op.result), gen.builder
    kind = llvm_type(tile.element_of(op.result))
    start = op.start.value.data
    parts: list[Value] = []
    for register in range(layout.registers_per_thread):
        value = gen.threads.element(b, layout, register, 0)
        value = _as_type(gen, value, kind)
        parts.append(b.add(value, start) if start else value)
    gen.bind(op.result, parts)


def _as_type(gen: KernelCodegen, value: Value, kind: Any) -> Value:
    if value.type == kind:
        return value
    if isinstance(value, ir.Constant):
        return ir.Constant(kind, value.constant)
    wider = kind.width > value.type.width
    return gen.builder.zext(value, kind) if wider else gen.builder.trunc(value, kind)


def _pick(gen: KernelCodegen, result: SSAValue, source: SSAValue, offsets: list[Vector]) -> None:
    """Bind `result` to the registers of `source` at the given offsets, one a register."""
    layout, parts = gen.layout(source), gen.parts(source)
    try:
        gen.bind(result, [parts[layout.register_of[o]] for o in offsets])
    except KeyError as missing:
        raise PassError(
            f"{defining_op(result).name}: no register at {missing} in {layout}"
        ) from None


def lower_broadcast(gen: KernelCodegen, op: tile.BroadcastOp) -> None:
    shape = tile.shape_of(op.source)
    offsets = [
        tuple(0 if extent == 1 else c for c, extent in zip(offset, shape, strict=True))
        for offset in gen.layout(op.result).register_offsets
    ]
    _pick(gen, op.result, op.source, offsets)


def lower_remap(gen: KernelCodegen, op: tile.ExpandDimsOp) -> None:
    axis = op.axis.value.data
    offsets = [o[:axis] + o[axis + 1 :] for o in gen.layout(op.result).register_offsets]
    _pick(gen, op.result, op.source, offsets)


def lower_trans(gen: KernelCodegen, op: tile.TransOp) -> None:
    order = tuple(op.permutation)
    inverse = [order.index(d) for d in range(len(order))]
    offsets = [
        tuple(o[inverse[d]] for d in range(len(order)))
        for o in gen.layout(op.result).register_offsets
    ]
    _pick(gen, op.result, op.source, offsets)


def lower_reshape(gen: KernelCodegen, op: tile.ReshapeOp) -> None:
    target, source = gen.layout(op.result), gen.layout(op.source)
    offsets = [reshaped(o, target.shape, source.shape) for o in target.register_offsets]
    if (target.repeat or source.repeat) and not _keeps_registers(target, source, offsets):
        shapes = " to ".join("x".join(map(str, shape)) for shape in (source.shape, target.shape))
        raise PassError(
            f"a reshape from {shapes} elements, not all powers of two, has no form on a GPU",
            help="use extents that are powers of two, and masks",
        )
    _pick(gen, op.result, op.source, offsets)


def _keeps_registers(target: Layout, source: Layout, offsets: list[Vector]) -> bool:
    """Whether every thread has the elements of its `target` in the registers of `source` at `offsets`. Copies of a
    block are not linear over GF(2), so all threads are looked at."""
    if any(offset not in source.register_of for offset in offsets):
        return False
    registers = [source.register_of[offset] for offset in offsets]
    return all(
        reshaped(target.coordinates(i, lane, warp), target.shape, source.shape)
        == source.coordinates(register, lane, warp)
        for i, register in enumerate(registers)
        for lane in range(32)
        for warp in range(target.warp_count)
    )


def lower_join(gen: KernelCodegen, op: tile.JoinOp) -> None:
    layout, source = gen.layout(op.result), gen.layout(op.lhs)
    halves = (gen.parts(op.lhs), gen.parts(op.rhs))
    gen.bind(
        op.result, [halves[o[-1]][source.register_of[o[:-1]]] for o in layout.register_offsets]
    )


def lower_split(gen: KernelCodegen, op: tile.SplitOp) -> None:
    for half, result in enumerate((op.lhs, op.rhs)):
        offsets = [(*o, half) for o in gen.layout(result).register_offsets]
        _pick(gen, result, op.source, offsets)
