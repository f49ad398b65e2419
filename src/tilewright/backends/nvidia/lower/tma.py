"""Lower TMA loads and stores, and the mbarriers that count their bytes (PTX ISA, "mbarrier")."""

from __future__ import annotations

import functools
from typing import Any, cast

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tilewright.backends.llvm.types import I32, I64, Value
from tilewright.backends.nvidia.lower import KernelCodegen, cluster
from tilewright.backends.nvidia.lower.asynchronous import proxy_fence, stage_address
from tilewright.backends.nvidia.lower.device_maps import map_address
from tilewright.backends.nvidia.lower.programmatic_launch import prefetch_tensor_maps
from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import access_arithmetic
from tilewright.layouts.fragments import parse_wgmma
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.cluster_loops import SHARED
from tilewright.passes.gpu.analysis.shared_allocation import BARRIER
from tilewright.passes.gpu.multicast_tma_loads import halves
from tilewright.passes.gpu.select_mma import SHARED_FMA

_WARPGROUP = 4


def lower_barriers(gen: KernelCodegen, op: gpu.MbarrierInitOp) -> None:
    """One arrival (of the thread that starts the copies) and the bytes end a phase."""
    b = gen.builder
    kind: Any = op.result.type
    base = gen.buffer_address(op.result)
    arrivals = op.arrival_count.value.data if op.arrival_count is not None else 1
    if op.arrival_count is not None and gen.shares:
        arrivals *= gen.cluster
    others = [o for o in gen.source.walk() if isinstance(o, gpu.MbarrierInitOp)]
    with b.if_then(gen.is_first_thread()):
        if op is others[0]:
            prefetch_tensor_maps(gen)
        for stage in range(kind.stages.data):
            address = b.add(base, BARRIER * stage)
            text = f"mbarrier.init.shared::cta.b64 [$0], {arrivals};"
            gen.emit_convergent_asm(text, [address])
        gen.emit_convergent_asm("fence.mbarrier_init.release.cluster;")
    if isinstance(op.next_op, gpu.MbarrierInitOp):
        return
    if gen.shares:
        cluster.synchronize(gen)
    else:
        gen.barrier()


def _barrier(gen: KernelCodegen, barriers: SSAValue, slot: SSAValue) -> Value:
    b = gen.builder
    offset = b.mul(gen.scalar(slot), BARRIER)
    return b.add(gen.buffer_address(barriers), offset)


def lower_elect(gen: KernelCodegen, op: gpu.ElectOp) -> None:
    """One lane of the first warp."""
    b, lane = gen.builder, elected(gen)
    if gen.role == "producer":
        gen.bind(op.result, [lane])
        return
    first = b.icmp_unsigned("==", gen.threads.uniform_warp(), 0)
    gen.bind(op.result, [b.and_(first, lane)])


def elected(gen: KernelCodegen) -> Value:
    """i1: this is the one lane of the warp that `elect.sync` has chosen; the assembler knows that it is one."""
    text = "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 $0, 1, 0, p; }"
    lane = gen.emit_convergent_asm(text, (), I32, memory=False)
    return gen.builder.icmp_unsigned("!=", lane, 0)


def lower_produce(gen: KernelCodegen, op: gpu.ProducerWarpOp) -> None:
    """The producer warp does the region and ends; the consumer warps go on after it.

    Where registers are dealt out anew, all warps of a warpgroup execute `setmaxnreg` (PTX ISA); those of the
    producer's that issue nothing end there.
    """
    b = gen.builder
    warp = gen.threads.uniform_warp()
    copies, rest = (gen.function.append_basic_block(n) for n in ("copies", "rest"))
    b.cbranch(b.icmp_unsigned(">=", warp, gen.warps), copies, rest)
    b.position_at_end(copies)
    gen.role = "producer"
    if op.producer_registers is not None:
        _set_registers(gen, "dec", op.producer_registers.value.data)
        issues, idle = (gen.function.append_basic_block(n) for n in ("issues", "idle"))
        b.cbranch(b.icmp_unsigned("==", warp, gen.warps), issues, idle)
        b.position_at_end(idle)
        b.ret_void()
        b.position_at_end(issues)
    for inner in op.body.block.ops:
        gen.op(inner)
    b.ret_void()
    b.position_at_end(rest)
    gen.role = "consumer"
    gen.current = op
    if op.consumer_registers is not None:
        _set_registers(gen, "inc", op.consumer_registers.value.data)


def producer_warps_of(function: FuncOp) -> int:
    """Warps in addition to the program's: one, or a warpgroup where registers are redistributed (`setmaxnreg`)."""
    producers = [op for op in function.walk() if isinstance(op, gpu.ProducerWarpOp)]
    split = any(op.consumer_registers is not None for op in producers)
    return _WARPGROUP if split else len(producers)


def _set_registers(gen: KernelCodegen, change: str, count: int) -> None:
    text = f"setmaxnreg.{change}.sync.aligned.u32 {count};"
    gen.emit_convergent_asm(text)


def lower_arrive(gen: KernelCodegen, op: gpu.MbarrierArriveOp) -> None:
    """One lane of each warp arrives; its dots are over. What the other lanes have read themselves (operands in
    registers, `gpu.local_load`) comes before by a barrier of the warp, and before the next copy by a proxy fence."""
    b = gen.builder
    loaded = _loads_stages(gen)
    if loaded:
        proxy_fence(gen)
    if loaded or any(
        isinstance(o, gpu.WgmmaOp) and _through_registers(o) for o in gen.source.walk()
    ):
        gen.emit_convergent_asm("bar.warp.sync 0xffffffff;")
    if gen.shares:
        _arrive_everywhere(gen, op)
        return
    first = b.icmp_unsigned("==", gen.threads.lane, 0)
    text = "@$1 mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];"
    address = _barrier(gen, op.barriers, op.stage)
    gen.emit_convergent_asm(text, [address, b.and_(first, gen.scalar(op.pred))])


def _loads_stages(gen: KernelCodegen) -> bool:
    """Whether threads load from buffers that TMA loads fill."""
    filled = {op.buffer for op in gen.source.walk() if isinstance(op, gpu.TmaLoadOp)}
    return any(isinstance(op, gpu.LocalLoadOp) and op.buffer in filled for op in gen.source.walk())


def _arrive_everywhere(gen: KernelCodegen, op: gpu.MbarrierArriveOp) -> None:
    """A lane for each block of the cluster, which all fill this block's stage. (Nothing has to be released to
    them: what was read is over, and arrivals released to a cluster made products a third slower.)"""
    b = gen.builder
    some = b.icmp_unsigned("<", gen.threads.lane, gen.cluster)
    text = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
        "@$2 mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    )
    to = b.and_(gen.threads.lane, gen.cluster - 1)
    operands = [_barrier(gen, op.barriers, op.stage), to, b.and_(some, gen.scalar(op.pred))]
    gen.emit_convergent_asm(text, operands)


def _through_registers(op: gpu.WgmmaOp) -> bool:
    """Whether threads read an operand of a product into registers as part of it."""
    name = op.instruction.data
    return name != SHARED_FMA and bool(parse_wgmma(name).through)


def lower_expect(gen: KernelCodegen, op: gpu.MbarrierArriveExpectTxOp) -> None:
    address = _barrier(gen, op.barriers, op.stage)
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {op.bytes.value.data};"
    gen.emit_convergent_asm(text, [address])


def lower_tma_copy(gen: KernelCodegen, op: gpu.TmaLoadOp) -> None:
    """One instruction a panel of the buffer."""
    b = gen.builder
    shared = gpu.shared_layout_of(op.buffer)
    start = stage_address(gen, op.buffer, op.stage)
    barrier, tensor_map = _barrier(gen, op.barriers, op.stage), _tensor_map(gen, op)
    x, *others = _coordinates(gen, op)
    at, rank = _numbered(1, 1 + len(others)), 1 + len(others)
    panels, everywhere, to = shared.panels, "", ""
    if SHARED in op.attributes:
        everywhere, to = ".multicast::cluster", f", {(1 << gen.cluster) - 1}"
        mine = gen.threads.special("cluster.ctarank")
        if halves(op) == "panels":
            panels //= 2
            start = b.add(start, b.mul(mine, panels * shared.panel_bytes))
            x = b.add(x, b.mul(mine, panels * shared.width))
        else:
            lines = shared.strided_extent // 2
            start = b.add(start, b.mul(mine, lines * shared.row_stride_bytes))
            others[0] = b.add(others[0], b.mul(mine, lines))
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{everywhere} "
        f"[$0], [{at}], [${rank + 2}]{to};"
    )
    for panel in range(panels):
        target = b.add(start, panel * shared.panel_bytes)
        column = b.add(x, panel * shared.width)
        operands = [target, tensor_map, column, *others, barrier]
        gen.emit_convergent_asm(text, operands)


def _numbered(first: int, rank: int) -> str:
    """`$1, {$2, $3}`: the operands that are a map and the coordinates, from operand `first` on."""
    return f"${first}, {{{', '.join(f'${first + 1 + d}' for d in range(rank))}}}"


def _coordinates(gen: KernelCodegen, op: gpu.TmaLoadOp | gpu.TmaStoreOp) -> list[Value]:
    """The corner as i32.

    A box that begins where 32 bits do not reach, or of an array without elements (whose extents are
    encoded as 1), is put where nothing is. Along dimensions without a pitch everything is at 0.
    """
    b = gen.builder
    corner = [gen.scalar(v) for v in op.coords]
    narrow = [b.trunc(v, I32) for v in corner]
    outside: list[Value] = []
    for d, extent in enumerate(op.global_dims):
        if constant_int(extent) == gpu.UNBOUNDED:
            continue
        if not isinstance(corner[d], ir.Constant):
            outside.append(b.icmp_signed("!=", b.sext(narrow[d], I64), corner[d]))
        if constant_int(extent) is None:
            outside.append(b.icmp_signed("<=", gen.scalar(extent), 0))
    for d, pitch in enumerate(op.global_strides[1:], 2):
        if constant_int(pitch) is None:
            flat = b.icmp_signed("==", gen.scalar(pitch), 0)
            narrow[d] = b.select(flat, 0, narrow[d])
    if outside:
        narrow[1] = b.select(functools.reduce(b.or_, outside), -(1 << 30), narrow[1])  # nowhere
    return narrow


def _tensor_map(gen: KernelCodegen, op: gpu.TmaLoadOp | gpu.TmaStoreOp) -> Value:
    """Address of the tensor map; 0 where the program reaches further than coordinates do, and the box is
    not beyond the end: the hardware then stops it with an illegal address.

    A `trap` would do so too, but not in a loop: with one the assembler takes threads to have diverged there
    and has products wait for each other.
    """
    b = gen.builder
    corner, address = [gen.scalar(v) for v in op.coords], map_address(gen, op)
    facts = Facts(access_arithmetic(op))
    wrong = [
        b.icmp_unsigned(">=", corner[d], gpu.REACH)
        for d in tile.ints(op.range_checked)
        if not _reached(op.coords[d], facts)
    ]
    if not wrong:
        return address
    some = [
        b.icmp_signed(">", gen.scalar(extent), place)
        for extent, place in zip(op.global_dims, corner, strict=True)
        if constant_int(extent) != gpu.UNBOUNDED
    ]
    stop = functools.reduce(b.and_, [functools.reduce(b.or_, wrong), *some])
    return b.select(stop, 0, address)


def _reached(place: SSAValue, facts: Facts) -> bool:
    """Whether a coordinate along a range_checked dimension is known to be in reach: a number of 32 bits (of a
    matrix in a batch), or of a part of 2^30 elements, if it is not negative."""
    op = place.owner
    if isinstance(op, arith.ShRSIOp):
        return facts.is_nonnegative(op.lhs)
    narrow = isinstance(op, arith.ExtSIOp) and op.input.type == i32
    return narrow and facts.is_nonnegative(place)


def wait_for_phase(gen: KernelCodegen, barrier: Value, phase: Value) -> None:
    """Wait for a phase of an mbarrier of this CTA."""
    text = (
        "{ .reg .pred p; WAIT_${:uid}: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
        "@!p bra WAIT_${:uid}; }"
    )
    gen.emit_convergent_asm(text, [barrier, phase])


def lower_tma_wait(gen: KernelCodegen, op: gpu.MbarrierWaitOp) -> None:
    wait_for_phase(gen, _barrier(gen, op.barriers, op.stage), gen.scalar(op.phase))
    if _read_by_threads(op.barriers) and not _fenced_anyway(op):
        # What threads have read before must have arrived before the next copies may overwrite it: those
        # start after the barrier that follows, but do not queue after the threads' own accesses.
        proxy_fence(gen)


def _fenced_anyway(op: gpu.MbarrierWaitOp) -> bool:
    """Whether all reads by threads that follow in the block, the only ones, are followed there by a fence:
    that of what they write to shared memory for `wgmma`."""
    copies = [u.operation for u in op.barriers.uses if isinstance(u.operation, gpu.TmaLoadOp)]
    users = {u.operation for copy in copies for u in copy.buffer.uses}
    readers = {user for user in users if isinstance(user, gpu.LocalLoadOp | gpu.WgmmaOp)}
    if any(reader.parent is not op.parent for reader in readers):
        return False
    current, fenced = op.next_op, False
    while current is not None:
        fenced = (fenced or isinstance(current, gpu.LocalStoreOp)) and current not in readers
        current = current.next_op
    return fenced


def _read_by_threads(barriers: SSAValue) -> bool:
    """Whether any thread reads the stages itself (`wgmma` does not, the transposition ends in a fence, and what passes
    through registers has arrived when the product begins)."""
    copies = [use.operation for use in barriers.uses if isinstance(use.operation, gpu.TmaLoadOp)]
    readers = [use.operation for copy in copies for use in copy.buffer.uses]
    return any(
        isinstance(op, gpu.LocalLoadOp)
        or (isinstance(op, gpu.WgmmaOp) and op.instruction.data == SHARED_FMA)
        for op in readers
    )


def lower_tma_store(gen: KernelCodegen, op: gpu.TmaStoreOp) -> None:
    """One instruction a panel of the buffer; together a group that a wait can tell from others."""
    b = gen.builder
    shared = gpu.shared_layout_of(op.buffer)
    start, tensor_map = stage_address(gen, op.buffer, op.stage), _tensor_map(gen, op)
    x, *others = _coordinates(gen, op)
    at, rank = _numbered(0, 1 + len(others)), 1 + len(others)
    text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [{at}], [${rank + 1}];"
    for panel in range(shared.panels):
        source = b.add(start, panel * shared.panel_bytes)
        column = b.add(x, panel * shared.width)
        operands = [tensor_map, column, *others, source]
        gen.emit_convergent_asm(text, operands)
    gen.emit_convergent_asm("cp.async.bulk.commit_group;")


def lower_tma_store_wait(gen: KernelCodegen, op: gpu.TmaStoreWaitOp) -> None:
    """For the thread that started them; others have no groups to wait for."""
    read = "" if op.complete is not None else ".read"
    pending = 0 if op.pending is None else op.pending.value.data
    gen.emit_convergent_asm(f"cp.async.bulk.wait_group{read} {pending};")


# ---- prefetches into the L2 cache ------------------------------------------------------------------------

_GRANULE = 16
"""Addresses and sizes of bulk prefetches are multiples of this many bytes."""


def lower_prefetch(gen: KernelCodegen, op: gpu.PrefetchOp) -> None:
    """One thread of each CTA prefetches a part. Both ends are rounded outwards to granules, each of which holds a byte of
    an element, and lies in one page with it."""
    b, size = gen.builder, tile.element_bytes(cast(tile.PtrType, op.base.type).pointee)
    base = b.ptrtoint(gen.scalar(op.base), I64)
    end = b.add(base, b.mul(gen.scalar(op.count), size))
    end = b.and_(b.add(end, _GRANULE - 1), -_GRANULE)
    at = b.and_(base, -_GRANULE)
    part = -(-op.extent.value.data * size // (gen.blocks * _GRANULE)) + 1
    whole = part * _GRANULE
    warp: Value = gen.threads.uniform_warp()
    if gen.blocks > 1:
        rank = gen.threads.special("cluster.ctarank")
        at = b.add(at, b.mul(b.zext(rank, I64), whole))
        warp = b.urem(warp, gen.warps // gen.blocks)
    left = b.sub(end, at)
    live = b.and_(gen.scalar(op.pred), b.icmp_signed(">", left, 0))
    live = b.and_(live, b.icmp_unsigned("==", warp, 0))
    live = b.and_(live, elected(gen))
    amount = b.trunc(b.select(b.icmp_signed("<", left, whole), left, whole), I32)
    with b.if_then(live):
        gen.emit_convergent_asm("cp.async.bulk.prefetch.L2.global [$0], $1;", [at, amount])
