"""Encode tensor maps on the device (PTX ISA, "tensormap.replace").

A map is built in shared memory and copied to a slot in global memory that the CTA owns until it exits. A kernel has
one set of slots per CTA that can be resident on the chip. A CTA acquires a free set at its start and releases it at its
end. The search starts at the sets of its SM, so the first probe succeeds unless CTAs of one SM start together. A map
is not in use when it is encoded again: loads have completed when their loop is left, and stores are waited for.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tilewright.backends.llvm.blocks import conditional
from tilewright.backends.llvm.types import I8, I32, I64, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.occupancy import CtaResources, resident_ctas
from tilewright.backends.nvidia.tensor_maps import BYTES
from tilewright.dialects import gpu
from tilewright.errors import PassError
from tilewright.layouts.shared import SharedLayout
from tilewright.passes.analysis.emit import constant_int

ELEMENT_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
"""Unsigned integer codes of `tensormap.replace.tile.elemtype`, by element size in bytes."""
SWIZZLE_MODES = {0: 0, 32: 1, 64: 2, 128: 3}
_ALIGNMENT, _LONGEST_PITCH = 16, 1 << 40
"""Alignment of addresses and pitches in bytes; exclusive upper limit of pitches (`cuTensorMapEncodeTiled`)."""
_FLAG = 4
_FLAGS_TOGETHER = BYTES // _FLAG
"""Number of flags per map size; keeps the maps after the flags aligned."""


class DeviceMaps:
    """The tensor maps that a kernel encodes, and the CTA's slots for them."""

    def __init__(self, gen: KernelCodegen) -> None:
        ops = [op for op in gen.source.walk() if isinstance(op, gpu.EncodeTensorMapOp)]
        self.made = [op for op in ops if op.result.uses]
        stores = (use.operation for op in self.made for use in op.result.uses)
        self.stores = any(isinstance(op, gpu.TmaStoreOp) for op in stores)
        self._flag: Value | None = None
        self._first: Value | None = None

    def __bool__(self) -> bool:
        return bool(self.made)

    def begin(self, gen: KernelCodegen) -> None:
        """Acquire a set of slots in the first thread and broadcast it to the warp."""
        if not self:
            return
        b = gen.builder
        block = CtaResources(32 * gen.warps, 0, gen.shared.end)
        resident = max(1, resident_ctas(block, gen.target))
        sets = -(-gen.target.cores * resident // _FLAGS_TOGETHER) * _FLAGS_TOGETHER
        size = sets * (_FLAG + BYTES * len(self.made))
        space: Any = ir.GlobalVariable(
            gen.module, ir.ArrayType(I8, size), "tensor_maps", addrspace=1
        )
        space.linkage, space.align = "internal", BYTES
        space.initializer = ir.Constant(space.value_type, None)
        base = b.ptrtoint(b.addrspacecast(space, ir.PointerType()), I64)
        start = b.mul(gen.threads.special("smid"), resident)

        def find() -> list[Value]:
            text = (
                "{ .reg .pred p; .reg .b32 held; .reg .b64 at; "
                f"rem.u32 $0, $2, {sets}; "
                "FIND_${:uid}: mad.wide.u32 at, $0, 4, $1; "
                "atom.acquire.gpu.global.cas.b32 held, [at], 0, 1; "
                "setp.eq.u32 p, held, 0; @p bra FOUND_${:uid}; "
                f"add.u32 $0, $0, 1; setp.eq.u32 p, $0, {sets}; selp.b32 $0, 0, $0, p; "
                "bra FIND_${:uid}; FOUND_${:uid}: }"
            )
            # the result has the register of `start`, which is read first
            return [gen.emit_convergent_asm(text, [base, start], I32, tied=range(1, 2))]

        (place,) = conditional(b, gen.is_first_thread(), find, [ir.Constant(I32, 0)])
        text = "shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;"
        mine = b.zext(gen.emit_convergent_asm(text, [place], I32, memory=False), I64)
        self._flag = b.add(base, b.mul(mine, _FLAG))
        maps = b.add(base, sets * _FLAG)
        self._first = b.add(maps, b.mul(mine, BYTES * len(self.made)))

    def end(self, gen: KernelCodegen) -> None:
        """Release the slots after the last use of the maps."""
        if not self:
            return
        b = gen.builder
        if self.stores:
            gen.emit_convergent_asm("cp.async.bulk.wait_group 0;")
        gen.barrier()
        with b.if_then(gen.is_first_thread()):
            text = "st.release.gpu.global.b32 [$0], 0;"
            gen.emit_convergent_asm(text, [self._flag])

    def address(self, gen: KernelCodegen, op: gpu.EncodeTensorMapOp) -> Value:
        """Address of a map in global memory."""
        return gen.builder.add(self._first, BYTES * self.made.index(op))


def lower_encode(gen: KernelCodegen, op: gpu.EncodeTensorMapOp) -> None:
    """Encode the map in the first warp, after a CTA barrier."""
    maps = gen.device_maps
    if op not in maps.made:
        return
    b = gen.builder
    _order(gen, maps.stores)
    space = b.ptrtoint(gen.scratch(BYTES), I32)
    gen.barrier()
    address = maps.address(gen, op)
    with b.if_then(b.icmp_unsigned("==", gen.threads.uniform_warp(), 0)):
        word = b.add(space, b.mul(gen.threads.lane, 4))
        gen.emit_convergent_asm("st.shared.b32 [$0], 0;", [word])
        _warp_barrier(gen)
        with b.if_then(b.icmp_unsigned("==", gen.threads.lane, 0)):
            _fill(gen, op, space)
        _warp_barrier(gen)
        text = (
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
            f"[$0], [$1], {BYTES};"
        )
        gen.emit_convergent_asm(text, [address, space])
        text = f"fence.proxy.tensormap::generic.acquire.gpu [$0], {BYTES};"
        gen.emit_convergent_asm(text, [address])
    gen.barrier()
    gen.bind(op.result, [_usable(gen, op, address)])


def lower_proxy_fence(gen: KernelCodegen, op: gpu.ProxyFenceOp) -> None:
    """Emit a proxy fence under the op's predicate, which is uniform."""
    with gen.builder.if_then(gen.scalar(op.pred)):
        _order(gen, gen.device_maps.stores)


def _order(gen: KernelCodegen, stores: bool) -> None:
    """Order this thread's accesses before the TMA accesses after the next barrier."""
    if stores:
        gen.emit_convergent_asm("cp.async.bulk.wait_group 0;")
    gen.emit_convergent_asm("fence.proxy.async;")


def _warp_barrier(gen: KernelCodegen) -> None:
    gen.emit_convergent_asm("bar.warp.sync 0xffffffff;")


def _fill(gen: KernelCodegen, op: gpu.EncodeTensorMapOp, space: Value) -> None:
    """Write all fields of a zero-initialized map in shared memory; executed by one thread."""
    b, shared = gen.builder, _layout_of_users(op)

    def replace(field: str, value: Value | int, number: int | None = None) -> None:
        place = "" if number is None else f" {number},"
        number_, operands = (value, []) if isinstance(value, int) else ("$1", [value])
        width = 64 if operands and operands[0].type == I64 else 32
        name = f"tensormap.replace.tile.{field}.shared::cta.b1024.b{width}"
        gen.emit_convergent_asm(f"{name} [$0],{place} {number_};", [space, *operands])

    rank = len(op.global_dims)
    extents = [_extent(gen, value) for value in op.global_dims]
    boxes = [shared.width, shared.strided_extent, *[1] * (rank - 2)]
    replace("global_address", b.ptrtoint(gen.scalar(op.base), I64))
    replace("rank", rank - 1)
    for d, (extent, box) in enumerate(zip(extents, boxes, strict=True)):
        replace("box_dim", box, d)
        replace("global_dim", b.trunc(extent, I32), d)
        replace("element_stride", 1, d)
    for d, pitch in enumerate(_pitches(gen, op, shared.size)):
        replace("global_stride", pitch, d)
    replace("elemtype", ELEMENT_TYPES[shared.size])
    replace("interleave_layout", 0)
    replace("swizzle_mode", SWIZZLE_MODES[max(0, shared.swizzle_bytes)])
    replace("fill_mode", 0)


def _layout_of_users(op: gpu.EncodeTensorMapOp) -> SharedLayout:
    """Return the shared layout of the TMA tiles that use a map."""
    users = [use.operation for use in op.result.uses]
    found = {
        gpu.shared_layout_of(u.buffer)
        for u in users
        if isinstance(u, gpu.TmaLoadOp | gpu.TmaStoreOp)
    }
    if len(found) != 1:
        raise PassError(f"{op.name}: the users of a tensor map have different boxes")
    return found.pop()


def _extent(gen: KernelCodegen, value: SSAValue) -> Value:
    """Elements along a dimension, as encoded (i64): at least 1."""
    b, extent = gen.builder, gen.scalar(value)
    return b.select(b.icmp_signed("<", extent, 1), 1, extent)


def _usable(gen: KernelCodegen, op: gpu.EncodeTensorMapOp, address: Value) -> Value:
    """Return the address of a map, or 0 if the map is not valid: TMA accesses with address 0 trap.

    Invalid: a base or pitch that is not 16-byte aligned, a pitch that is too long, or an extent that coordinates
    cannot address. The host rejects such maps. (`tma._tensor_map` emits the `trap`.)
    """
    b, size = gen.builder, _layout_of_users(op).size
    pitches = _pitches(gen, op, size)
    places = functools.reduce(b.or_, [b.ptrtoint(gen.scalar(op.base), I64), *pitches])
    wrong = [b.icmp_signed("!=", b.and_(places, _ALIGNMENT - 1), 0)]
    wrong += [b.icmp_unsigned(">=", pitch, _LONGEST_PITCH) for pitch in pitches]
    wrong += [
        b.icmp_signed(">", gen.scalar(value), gpu.UNBOUNDED)
        for value in op.global_dims
        if constant_int(value) is None and not _is_narrow(value)
    ]
    return b.select(functools.reduce(b.or_, wrong), 0, address)


def _is_narrow(value: SSAValue) -> bool:
    """Return whether a value is a sign-extended 32-bit integer."""
    return isinstance(value.owner, arith.ExtSIOp) and value.owner.input.type == i32


def _pitches(gen: KernelCodegen, op: gpu.EncodeTensorMapOp, size: int) -> list[Value]:
    """Pitches in bytes. A pitch of 0 is replaced by the first pitch: its coordinate is always 0, any value is valid."""
    b = gen.builder
    first, *others = [b.mul(gen.scalar(pitch), size) for pitch in op.global_strides]
    return [first, *(b.select(b.icmp_signed("==", p, 0), first, p) for p in others)]


def map_address(gen: KernelCodegen, op: gpu.TmaLoadOp | gpu.TmaStoreOp) -> Value:
    """Address (i64) of the tensor map of a TMA access: encoded on the device, or a kernel parameter."""
    if isinstance(op.base.owner, gpu.EncodeTensorMapOp):
        return gen.scalar(op.base)
    return map_at(gen, gen.maps.number(op))


def map_at(gen: KernelCodegen, number: int) -> Value:
    """Address of a tensor map among the kernel's parameters by its number."""
    parameter = gen.function.args[len(gen.source.body.block.args) + number]
    return gen.threads.at_start(("map", number), lambda b: b.ptrtoint(parameter, I64))


HANDLERS = {gpu.EncodeTensorMapOp: lower_encode, gpu.ProxyFenceOp: lower_proxy_fence}
