"""Lower bounds checks of accesses against the extents of arrays."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.lower import KernelCodegen
from tilewright.backends.cpu.lower.output import record_fault
from tilewright.backends.llvm.types import I32, I64, Value, any_lane, constant, splat, steps
from tilewright.dialects import cpu


def lower_check_bounds(gen: KernelCodegen, op: cpu.CheckBoundsOp) -> None:
    """Record a fault and exit the kernel if an enabled lane is outside all `ranges`.

    The range of the whole vector is checked first; the enabled lanes are checked separately only if that fails.
    """
    b, lanes = gen.builder, op.lanes.value.data
    fault, inside = (gen.function.append_basic_block(n) for n in ("outside", "inside"))
    pointer = gen.scalar(op.pointer)
    if cpu.lanes_of(op.pointer) > 1:
        addresses = b.ptrtoint(pointer, ir.VectorType(I64, lanes))
        b.cbranch(_any_outside(gen, op, addresses), fault, inside)
    else:
        if op.offset is not None:
            element = ir.IntType(8 * op.element_bytes.value.data)
            pointer = b.gep(pointer, [gen.scalar(op.offset)], source_etype=element)
        address = b.ptrtoint(pointer, I64)
        fits = _fits(gen, op, address, lanes)
        if op.mask is None:
            b.cbranch(fits, inside, fault)
        elif lanes == 1:
            b.cbranch(b.or_(fits, b.not_(gen.scalar(op.mask))), inside, fault)
        else:
            partly = gen.function.append_basic_block("partly")
            b.cbranch(fits, inside, partly)
            b.position_at_end(partly)
            size = constant(ir.VectorType(I64, lanes), op.element_bytes.value.data)
            within = b.mul(steps(I64, lanes), size)
            start = splat(b, address, lanes)
            b.cbranch(_any_outside(gen, op, b.add(start, within)), fault, inside)
    b.position_at_end(fault)
    slot = b.gep(gen.thread, [ir.Constant(I64, 2)], source_etype=I64)
    site = ir.Constant(I64, gen.assert_count + op.site.value.data)
    b.call(
        record_fault(gen.module), [b.load(slot, typ=gen.thread.type), gen.scalar(op.program), site]
    )
    b.ret(ir.Constant(I32, 0))
    b.position_at_end(inside)


def _fits(gen: KernelCodegen, op: cpu.CheckBoundsOp, address: Value, elements: int) -> Value:
    """Emit whether `elements` elements from `address` on (a scalar or a vector) are inside one range."""
    b, found = gen.builder, None
    ranges = list(op.ranges)
    for first, size in zip(ranges[::2], ranges[1::2], strict=True):
        begin, limit = gen.scalar(first), _limit(gen, op, gen.scalar(size), elements)
        if isinstance(address.type, ir.VectorType):
            begin, limit = (splat(b, v, address.type.count) for v in (begin, limit))
        fits = b.icmp_unsigned("<", b.sub(address, begin), limit)
        found = fits if found is None else b.or_(found, fits)
    return found


def _limit(gen: KernelCodegen, op: cpu.CheckBoundsOp, size: Value, elements: int) -> Value:
    """Emit the number of valid start bytes of an access in a range; computed once, before all loops."""
    bytes_after = elements * op.element_bytes.value.data - 1
    key = size, bytes_after
    if key not in gen.limits:
        b = gen.builder
        with b.goto_entry_block():
            limit = b.sub(size, ir.Constant(I64, bytes_after))
            zero = ir.Constant(I64, 0)
            gen.limits[key] = b.select(b.icmp_signed(">", limit, zero), limit, zero)
    return gen.limits[key]


def _any_outside(gen: KernelCodegen, op: cpu.CheckBoundsOp, addresses: Value) -> Value:
    """Emit whether an enabled element of a vector of addresses is outside all ranges."""
    b = gen.builder
    outside = b.not_(_fits(gen, op, addresses, 1))
    if op.mask is not None:
        outside = b.and_(outside, gen.scalar(op.mask))
    return any_lane(b, outside)
