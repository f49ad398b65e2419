"""Vector and scalar memory operations, atomics, and calls of dot micro-kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType
from xdsl.ir import Attribute, Block, SSAValue

from tilewright.backends.cpu.lower import KernelCodegen, strided
from tilewright.backends.cpu.lower.dot import emit_dot
from tilewright.backends.llvm.blocks import conditional, retry
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.types import (
    I1,
    I8,
    I32,
    I64,
    POINTER,
    Value,
    call,
    constant,
    llvm_type,
    mangled,
    masked_load,
    masked_store,
    splat,
    storage_type,
    undefined,
    zeros,
)
from tilewright.dialects import cpu, tile
from tilewright.passes.cpu.dot_plan import DotPlan

_LINE = 64


def zero_of(kind: ir.Type) -> Value:
    return zeros(kind) if isinstance(kind, ir.VectorType) else ir.Constant(kind, None)


def _stored(element: Attribute, lanes: int) -> ir.Type:
    kind = storage_type(element)
    return ir.VectorType(kind, lanes) if lanes > 1 else kind


def to_storage(gen: KernelCodegen, value: Value, element: Attribute, lanes: int) -> Value:
    """Convert a register value to its in-memory representation (i1 is a byte)."""
    kind = _stored(element, lanes)
    return value if str(value.type) == str(kind) else gen.builder.zext(value, kind)


def from_storage(gen: KernelCodegen, value: Value, element: Attribute) -> Value:
    if isinstance(element, IntegerType) and element.width.data == 1:
        return gen.builder.icmp_unsigned("!=", value, zero_of(value.type))
    return value


def _pointer(gen: KernelCodegen, base: SSAValue, offset: SSAValue) -> Value:
    pointer: Any = base.type
    element = storage_type(pointer.pointee)
    return gen.builder.gep(gen.scalar(base), [gen.scalar(offset)], source_etype=element)


def _vector_other(gen: KernelCodegen, other: SSAValue | None, kind: Any, element: Attribute) -> Value:  # fmt: skip
    if other is None:
        return zero_of(kind)
    value = to_storage(gen, gen.scalar(other), element, cpu.lanes_of(other))
    return value if isinstance(value.type, ir.VectorType) else splat(gen.builder, value, kind.count)


def _fetch(gen: KernelCodegen, pointer: Value, ahead: int, size: int) -> None:
    """Prefetch the cache lines of `size` bytes at `ahead` bytes after a pointer."""
    hints = [
        ir.Constant(I32, v) for v in (0, 3, 1)
    ]  # read access, high temporal locality, data cache
    for offset in range(0, size, _LINE):
        place = [ir.Constant(I64, ahead + offset)]
        address = gen.builder.gep(pointer, place, source_etype=I8)
        call(gen.builder, "llvm.prefetch.p0", ir.VoidType(), address, *hints)


def lower_vector_load(gen: KernelCodegen, op: cpu.VectorLoadOp) -> None:
    lanes, element = cpu.lanes_of(op.result), cpu.scalar_of(op.result)
    kind = _stored(element, lanes)
    pointer = _pointer(gen, op.pointer, op.offset)
    if op.prefetch_distance is not None:
        _fetch(gen, pointer, op.prefetch_distance.value.data, lanes * tile.element_bytes(element))
    align = op.alignment.value.data
    if op.mask is None:
        value = gen.builder.load(pointer, align=align, typ=kind)
    else:
        other = _vector_other(gen, op.other, kind, element)
        value = masked_load(gen.builder, pointer, align, gen.scalar(op.mask), other)
    gen.set(op.result, from_storage(gen, value, element))


def lower_vector_store(gen: KernelCodegen, op: cpu.VectorStoreOp) -> None:
    lanes, element = cpu.lanes_of(op.value), cpu.scalar_of(op.value)
    value = to_storage(gen, gen.scalar(op.value), element, lanes)
    pointer = _pointer(gen, op.pointer, op.offset)
    align = op.alignment.value.data
    if op.mask is None:
        made = gen.builder.store(value, pointer, align=align)
        if op.nontemporal is not None:
            made.set_metadata("nontemporal", gen.module.add_metadata([ir.Constant(I32, 1)]))
            gen.streams = True
        return
    mask = gen.scalar(op.mask)
    if _is_known(op.mask):
        mask = gen.builder.and_(mask, _opaque_true(gen, mask.type))
    masked_store(gen.builder, value, pointer, align, mask)


def _is_known(value: SSAValue) -> bool:
    """Return whether a mask is computed from constants only."""
    op = value.owner
    if isinstance(op, Block) or op.regions:
        return False
    return op.name == "arith.constant" or (bool(op.operands) and all(map(_is_known, op.operands)))


def _opaque_true(gen: KernelCodegen, kind: ir.VectorType) -> Value:
    """Emit an all-true mask that LLVM cannot fold.

    Works around a miscompilation of LLVM 22: it rewrites a masked store with a constant one-lane mask as a store
    of that element. If the value was truncated (fp32 to bf16), it stores the untruncated element, which
    overwrites the adjacent element.
    """
    pointer = gen.function.args[0]
    bit = gen.builder.icmp_unsigned("!=", pointer, ir.Constant(pointer.type, None))
    start = gen.builder.insert_element(undefined(kind), bit, ir.Constant(I32, 0))
    lanes = constant(ir.VectorType(I32, kind.count), 0)
    return gen.builder.shuffle_vector(start, undefined(kind), lanes)


def _all_lanes(lanes: int) -> Value:
    return constant(ir.VectorType(I1, lanes), 1)


def lower_gather(gen: KernelCodegen, op: cpu.GatherOp) -> None:
    lanes, element = cpu.lanes_of(op.result), cpu.scalar_of(op.result)
    kind: Any = _stored(element, lanes)
    value = strided.load(gen, op.pointers, op.mask, kind, tile.element_bytes(element))
    if value is not None:
        if op.mask is not None:
            dead = _vector_other(gen, op.other, kind, element)
            value = gen.builder.select(gen.scalar(op.mask), value, dead)
        gen.set(op.result, from_storage(gen, value, element))
        return
    pointers = gen.scalar(op.pointers)
    name = f"llvm.masked.gather.{mangled(kind)}.v{lanes}p0"
    mask = _all_lanes(lanes) if op.mask is None else gen.scalar(op.mask)
    other = _vector_other(gen, op.other, kind, element)
    args = [pointers, ir.Constant(I32, tile.element_bytes(element)), mask, other]
    value = call(gen.builder, name, kind, *args)
    gen.set(op.result, from_storage(gen, value, element))


def lower_scatter(gen: KernelCodegen, op: cpu.ScatterOp) -> None:
    lanes, element = cpu.lanes_of(op.value), cpu.scalar_of(op.value)
    value = to_storage(gen, gen.scalar(op.value), element, lanes)
    if op.mask is None and strided.store(gen, op.pointers, value, tile.element_bytes(element)):
        return
    pointers = gen.scalar(op.pointers)
    name = f"llvm.masked.scatter.{mangled(value.type)}.v{lanes}p0"
    mask = _all_lanes(lanes) if op.mask is None else gen.scalar(op.mask)
    align = ir.Constant(I32, tile.element_bytes(element))
    call(gen.builder, name, ir.VoidType(), value, pointers, align, mask)


# ---- scalars ----------------------------------------------------------------------------------------


def lower_scalar_load(gen: KernelCodegen, op: tile.LoadOp) -> None:
    """`tile.load` of one element."""
    element, pointer = op.result.type, gen.scalar(op.pointer)

    def load() -> list[Value]:
        loaded = gen.builder.load(
            pointer, align=tile.element_bytes(element), typ=storage_type(element)
        )
        return [from_storage(gen, loaded, element)]

    live = None if op.mask is None else gen.scalar(op.mask)
    other = zero_of(llvm_type(element)) if op.other is None else gen.scalar(op.other)
    gen.set(op.result, *conditional(gen.builder, live, load, [other]))


def lower_scalar_store(gen: KernelCodegen, op: tile.StoreOp) -> None:
    """`tile.store` of one element."""
    element = op.value.type

    def store() -> list[Value]:
        value = to_storage(gen, gen.scalar(op.value), element, 1)
        gen.builder.store(value, gen.scalar(op.pointer), align=tile.element_bytes(element))
        return []

    conditional(gen.builder, None if op.mask is None else gen.scalar(op.mask), store, [])


def _ordering(sem: str) -> str:
    return {"relaxed": "monotonic", "acquire": "acquire", "release": "release"}.get(sem, "acq_rel")


def lower_atomic_rmw(gen: KernelCodegen, op: tile.AtomicRMWOp) -> None:
    """One atomic read-modify-write; narrow floats by compare-and-swap."""
    element, kind = op.value.type, op.kind.data
    native = isinstance(element, IntegerType | Float32Type | Float64Type) or kind == "xchg"

    def update() -> list[Value]:
        pointer, value = gen.scalar(op.pointer), to_storage(gen, gen.scalar(op.value), element, 1)
        if op.sem.data == tile.EXCLUSIVE and kind in ("add", "fadd"):
            old = _plain_addition(gen, pointer, value, kind, element)
        elif native:
            old = gen.builder.atomic_rmw(kind, pointer, value, _ordering(op.sem.data))
        else:
            old = _cas_loop(gen, pointer, value, kind, element)
        return [from_storage(gen, old, element)]

    live = None if op.mask is None else gen.scalar(op.mask)
    gen.set(op.result, *conditional(gen.builder, live, update, [zero_of(llvm_type(element))]))


def _plain_addition(
    gen: KernelCodegen, pointer: Value, value: Value, kind: str, element: Attribute
) -> Value:
    """Add to memory that no other thread accesses; returns the old value. A locked instruction takes 20 cycles."""
    b = gen.builder
    old = b.load(pointer, typ=value.type, align=tile.element_bytes(element))
    b.store(_combined(gen, kind, old, value, element), pointer, align=tile.element_bytes(element))
    return old


def _combined(gen: KernelCodegen, kind: str, old: Value, value: Value, element: Attribute) -> Value:
    name, operands = tile.RMW_OPERATIONS[kind], [element, element]
    (new,) = lower_elementwise(gen.builder, name, [old, value], {}, [element], operands, gen.math)
    return new


def _cas_loop(
    gen: KernelCodegen, pointer: Value, value: Value, kind: str, element: Attribute
) -> Value:
    b, register = gen.builder, llvm_type(element)
    bits = ir.IntType(8 * tile.element_bytes(element))

    def as_type(given: Value, wanted: ir.Type) -> Value:
        return given if str(given.type) == str(wanted) else b.bitcast(given, wanted)

    def attempt(seen: Value) -> tuple[Value, Value]:
        new = _combined(gen, kind, as_type(seen, register), value, element)
        pair = b.cmpxchg(pointer, seen, as_type(new, bits), "acq_rel", "monotonic")
        return b.extract_value(pair, 0), b.extract_value(pair, 1)

    first = b.load_atomic(pointer, "monotonic", tile.element_bytes(element), typ=bits)
    return as_type(retry(b, first, attempt), register)


def lower_atomic_cas(gen: KernelCodegen, op: tile.AtomicCASOp) -> None:
    """Compare-and-swap of one element."""
    b, element = gen.builder, op.value.type
    bits = ir.IntType(8 * tile.element_bytes(element))
    register = llvm_type(element)

    def as_bits(value: Value) -> Value:
        if isinstance(value.type, ir.IntType):
            return value if value.type.width == bits.width else b.zext(value, bits)
        return b.bitcast(value, bits)

    pair = b.cmpxchg(
        gen.scalar(op.pointer), as_bits(gen.scalar(op.compare)), as_bits(gen.scalar(op.value)),
        "acq_rel", "monotonic",
    )  # fmt: skip
    old = b.extract_value(pair, 0)
    if isinstance(register, ir.IntType):
        gen.set(op.result, from_storage(gen, old, element))
    else:
        gen.set(op.result, b.bitcast(old, register))


def lower_dot_call(gen: KernelCodegen, op: cpu.CallMicrokernelOp) -> None:
    """Call the micro-kernel of the dot's plan, emitting it at its first use."""
    fn = emit_dot(gen.module, DotPlan.parse(op.plan.data), gen.target)
    pointers = [gen.scalar(v) for v in (op.lhs, op.rhs, op.acc)]
    null, zero = ir.Constant(POINTER, None), ir.Constant(I64, 0)
    ahead = [
        null if op.next_lhs is None else gen.scalar(op.next_lhs),
        zero if op.next_lhs_stride is None else gen.scalar(op.next_lhs_stride),
        null if op.next_rhs is None else gen.scalar(op.next_rhs),
        zero if op.next_rhs_stride is None else gen.scalar(op.next_rhs_stride),
    ]
    gen.builder.call(fn, pointers + ahead)
