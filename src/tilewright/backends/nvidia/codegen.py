"""One walk over tiles with layouts that emits LLVM IR for one thread of an NVIDIA GPU.

A tile stands for the registers that a thread has of it, in the order of its layout; element-wise
operations are done register by register. What crosses threads - reductions, conversions between
layouts, operands of dots - goes through lane shuffles and shared memory (`lower/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, f16
from xdsl.ir import Block, Operation, SSAValue

from tilewright.backends.base import AssertSite
from tilewright.backends.llvm import control
from tilewright.backends.llvm.codegen import Codegen
from tilewright.backends.llvm.context import SharingBuilder
from tilewright.backends.llvm.function import KernelFunction
from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import I8, I32, POINTER, VOID, Builder, Value, call, llvm_type
from tilewright.backends.nvidia.lower import (
    asynchronous,
    atomics,
    cluster,
    comparisons,
    convert_layout,
    device_maps,
    dot,
    float8,
    fragments,
    inline_asm,
    local_transpose,
    loop_values,
    memory,
    optimization_barrier,
    output,
    packed_floats,
    programmatic_launch,
    reductions,
    register_groups,
    scans,
    scratch_tiles,
    shapes,
    tma,
    warp_exchange,
    wgmma,
)
from tilewright.backends.nvidia.lower.cluster_exchange import ClusterExchanges
from tilewright.backends.nvidia.lower.instruction_order import lower_register_peaks
from tilewright.backends.nvidia.lower.read_only_loads import order_read_only_loads, store_early
from tilewright.backends.nvidia.lower.shared_alignment import align_shared_accesses
from tilewright.backends.nvidia.lower.vector_access import unpack
from tilewright.backends.nvidia.tensor_maps import TensorMaps
from tilewright.backends.nvidia.threads import Threads
from tilewright.dialects import gpu, tile
from tilewright.errors import OutOfResources, PassError
from tilewright.layouts import Layout
from tilewright.layouts.shared import ALIGNMENT
from tilewright.passes.analysis import effects
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.unobserved_lanes import first_operations
from tilewright.passes.gpu.analysis import cluster_loops
from tilewright.passes.gpu.analysis.buffer_views import buffer_root
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.shared_allocation import SharedAllocation
from tilewright.passes.gpu.insert_barriers import ACCESSES, ORDERED
from tilewright.passes.gpu.select_mma import SHARED_FMA
from tilewright.passes.gpu.unroll import UNROLL
from tilewright.targets import TargetInfo

SHARED = cluster.SHARED
TRIPLE = "nvptx64-nvidia-cuda"
SMALL_EXCHANGE = 4096
"""Bytes of a double-buffered exchange."""
MAP_PREFIX = "tensor_map_"
"""Names of the parameters that are tensor maps; `ptx` makes them 128 bytes passed by value."""
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"


class KernelCodegen(Codegen):
    """State of emitting one kernel: the builder, the registers so far, shared memory used."""

    def __init__(self, module: ir.Module, function: func.FuncOp, target: TargetInfo, fuse: bool):
        super().__init__(module, function, target, fuse, HANDLERS)
        self.warps = warps_of(function)
        kinds = {type(op) for op in function.walk()}
        self.records_asserts = tile.AssertOp in kinds and not output.traps(function)
        self.reads_strongly = effects.reads_strongly(function)
        self.known = Facts()
        self.pairs: dict[SSAValue, list[Value]] = {}
        """fp16 accumulators two to a register, as `wgmma` has them; other users unpack them."""
        self.rounded: dict[Any, Value] = {}  # to tf32 and fp16, by value and basic block
        self.over: set[SSAValue] = set()
        """Accumulators of MMAs that a loop has waited for at its exit."""
        self.in_flight: tuple[Any, int] = (None, 0)  # a block, and groups of MMAs so far in it
        self.operand_words: list[tuple[Any, Sequence[Value]]] = []
        """Registers that groups of MMAs in flight read, and the block of the IR that issued them."""
        self.held: set[Value] = set()  # words of optimization barriers
        self.read_only: set[Value] = set()  # loads of what no program stores
        self.first = first_operations(function)
        self.paired = wgmma.paired_in_loops(function)
        self.scratch_bytes = 0
        self.asserts: list[AssertSite] = []
        self.prints = self.reaches_first_cta = self.has_cluster_barrier = False
        self.maps = TensorMaps(function)
        self.function = self._declare()
        self.blocks = num_ctas_of(function)
        self.cluster = cluster_loops.cluster_size_of(function)
        self.shares = cluster_loops.uses_multicast(function)
        self._spread = cluster_loops.cluster_loop(function) if self.cluster > 1 else None
        entry = self.function.append_basic_block("entry")
        self.threads = Threads(entry, self.blocks, 32 * self.warps // self.blocks, self.cluster)
        self.builder: Builder = SharingBuilder(self.function.append_basic_block("body"))
        self.reads_asynchronously = bool(kinds & {gpu.TmaLoadOp, gpu.TmaStoreOp}) or any(
            type(op) is gpu.WgmmaOp and op.instruction.data != SHARED_FMA
            for op in (function.walk() if gpu.WgmmaOp in kinds else ())
        )
        """Whether shared memory is read or written by other than threads: `wgmma`, TMA."""
        self.multiplies = bool(kinds & {tile.DotOp, gpu.WgmmaOp})
        self.prefetches = gpu.PrefetchOp in kinds
        self._shared: Value | None = None
        self.shared = SharedAllocation(function)
        self.shared_pointer = SHARED
        self.current: Operation = function
        self.producer_warps = tma.producer_warps_of(function) if gpu.ProducerWarpOp in kinds else 0
        """Warps in addition to the program's, of which the first issues copies."""
        self.role = ""
        """Whose code is being emitted: "producer", "consumer" once that is split off, or "" for all."""
        self.ordered = ORDERED in function.attributes
        self.device_maps = device_maps.DeviceMaps(self)
        self.overlap = programmatic_launch.ProgrammaticLaunch(self)
        self._exchange: tuple[Any, int | None, int] | None = None
        """Block of the last exchange through shared memory, which of the two buffers it used (None: neither), and where."""
        self.gathered: dict[Operation, scratch_tiles.SharedTile] = {}  # what gathers read
        self.cluster_exchanges = ClusterExchanges(self)
        self.warp_exchanges = warp_exchange.WarpExchanges(self, function)

    def _declare(self) -> Any:
        """The entry: one parameter an argument, then the fault record if asserts write it."""
        args = self.source.body.block.args
        kinds = [llvm_type(a.type) for a in args]
        kinds = [I8 if isinstance(k, ir.IntType) and k.width == 1 else k for k in kinds]
        kinds += [POINTER] * len(self.maps.recipes)
        if self.records_asserts:
            kinds.append(POINTER)
        kind = ir.FunctionType(ir.VoidType(), kinds)
        function = KernelFunction(self.module, kind, self.source.sym_name.data)
        function.calling_convention = "ptx_kernel"
        for i in range(len(self.maps.recipes)):
            function.args[len(args) + i].name = f"{MAP_PREFIX}{i}"
        return function

    def run(self) -> None:
        block = self.source.body.block
        start = self.builder.block
        for arg, value in zip(block.args, self.function.args, strict=False):
            self._argument(arg, value)
        if self.records_asserts:
            self.fault = self.function.args[-1]
        self.device_maps.begin(self)
        for op in block.ops:
            if op is self.overlap.waits:
                self.emit_convergent_asm("griddepcontrol.wait;")
            self.cluster_exchanges.enter(op)
            self.op(op)
            if op is self.overlap.lets:
                self.emit_convergent_asm("griddepcontrol.launch_dependents;")
        self.threads.finish(start)
        order_read_only_loads(self)
        store_early(self)
        self.loaded_bytes = lower_register_peaks(self)
        align_shared_accesses(self)

    def _argument(self, arg: SSAValue, value: Value) -> None:
        wanted = llvm_type(arg.type)
        if value.type != wanted:
            value = self.builder.trunc(value, wanted)
        self.bind(arg, [value])

    # ---- values ----

    def parts(self, value: SSAValue) -> list[Value]:
        """The registers of a tile, or the one of a scalar."""
        if value in self.pairs:
            words = self.pairs[value]
            return unpack(self, words, 2 * len(words), f16)
        return self.values[value]

    def carried(self, value: SSAValue, to: SSAValue) -> list[Value]:
        return loop_values.carried(self, value, to)

    def bind_carried(self, value: SSAValue, parts: list[Value]) -> None:
        loop_values.bind_carried(self, value, parts)

    def as_written(self, op: scf.ForOp) -> bool:
        return super().as_written(op) or UNROLL not in self.source.attributes

    def leave_loop(self, op: scf.ForOp, parts: list[list[Value]]) -> list[list[Value]]:
        """MMAs in flight end here: where the loop did not run there are none to wait for."""
        return [
            wgmma.wait_after_loop(self, result, of_result)
            for result, of_result in zip(op.results, parts, strict=True)
        ]

    def leave_branch(self, block: Block, parts: list[Value]) -> list[Value]:
        """Where one branch makes MMAs, the sums of the other are made there, not before for both ways."""
        around = block.parent_op()
        regions = [r for r in around.regions if r.blocks and r.block is not block] if around else []
        multiplies = any(isinstance(op, gpu.WgmmaWaitOp) for r in regions for op in r.block.ops)
        return wgmma.pin_to_block(self, parts) if multiplies else parts

    def layout(self, value: SSAValue) -> Layout:
        """The layout of a tile. Raises PassError where `assign-layouts` has not been."""
        found = gpu.layout_of(value)
        if found is None:
            raise PassError(f"a tile without layout: {value.type}")
        return found

    def is_first_thread(self) -> Value:
        """i1: this is thread 0 of the program."""
        return self.builder.icmp_unsigned("==", self.threads.index, 0)

    def first_holder(self, value: SSAValue) -> Value | None:
        """i1: this thread is the first that holds its elements of a tile, or thread 0 for a scalar; None: no element is
        held twice."""
        if not tile.is_tile(value):
            return self.is_first_thread()
        return self.threads.first_holder(self.layout(value))

    # ---- operations ----

    def op(self, op: Operation) -> None:
        self.current = op
        if not self.ordered and isinstance(op, ACCESSES):
            self.barrier()
        if self._spread is not None and op is self._spread:
            self._emit_cta_iteration(self._spread)
            return
        super().op(op)

    def _emit_cta_iteration(self, op: scf.ForOp) -> None:
        """Of a loop that is spread over the blocks of a cluster: each does the iteration of its number."""
        block = op.body.block
        mine, kind = self.threads.special("cluster.ctarank"), llvm_type(block.args[0].type)
        self.bind(block.args[0], [self.builder.zext(mine, kind) if kind != I32 else mine])
        for arg, value in zip(block.args[1:], op.iter_args, strict=True):
            self.bind_carried(arg, self.carried(value, arg))
        for inner in block.ops:
            if not isinstance(inner, scf.YieldOp):
                self.op(inner)

    def elementwise(self, op: Operation) -> None:
        same = register_groups.equal_to(op)
        operands = [self.parts(v) for v in op.operands]
        pairs = [] if same else packed_floats.lower_pairs(self, op, operands)
        for result, parts in zip(op.results, self.lowered(op, pairs, same), strict=True):
            self.bind(result, register_groups.counted(self, op, parts))

    def region(self, block: Block, arguments: list[Value]) -> list[Value]:
        """Emit a combine region for scalars; the values it yields."""
        for arg, value in zip(block.args, arguments, strict=True):
            self.bind(arg, [value])
        yielded: list[Value] = []
        outside = self.current
        for op in block.ops:
            if isinstance(op, tile.YieldOp):
                yielded = [self.scalar(v) for v in op.values]
            else:
                self.op(op)
        self.current = outside
        return yielded

    # ---- shared memory and barriers ----

    def barrier(self) -> None:
        """All threads of the program meet; shared and global memory before is seen after."""
        if self.blocks > 1:
            cluster.synchronize(self)
            return
        if self.warps == 1 and not self.role:
            self.emit_convergent_asm("bar.warp.sync -1;")
            return
        name, numbers = ("count", [1, 32 * self.warps]) if self.role else ("all", [0])
        given = [ir.Constant(I32, number) for number in numbers]
        name = f"llvm.nvvm.barrier.cta.sync.aligned.{name}"
        call(self.builder, name, ir.VoidType(), *given)

    def scratch(self, bytes_needed: int, each_cta: bool = False) -> Value:
        """Shared memory for one exchange (write, barrier, read): the first CTA's, or `each_cta`'s own.

        It lies beyond the buffers that are still in use. Small exchanges are double-buffered:
        who gets to the second next one has passed the barrier inside the next, so that all have
        read the first, and no barrier is needed in front; unless buffers that others may still be at
        were where it is. Raises OutOfResources when the target has not that much.
        """
        block, small = self.current.parent, bytes_needed <= SMALL_EXCHANGE
        start = self.shared.scratch_from(self.current, SMALL_EXCHANGE + bytes_needed)
        if not small or start + SMALL_EXCHANGE + bytes_needed > self.target.shared_bytes:
            start, small = self.shared.scratch_from(self.current, bytes_needed), False
        before = self._exchange
        turn = 0
        if before is None:
            alone = self.blocks == 1  # a block's memory is there once it has started
            safe = alone and block is self.source.body.block and not self.shared.used
        else:
            same = before[0] is block and before[2] == start
            safe = small and same and before[1] is not None
            turn = 1 - before[1] if safe and before[1] is not None else 0
        safe = safe or scratch_tiles.follows_barrier(self.current)
        self._exchange = (block, turn if small else None, start)
        start += turn * SMALL_EXCHANGE
        self.reserve(start + bytes_needed)
        if not safe and before is None and self.blocks > 1 and block is self.source.body.block:
            cluster.wait_for_start(self)
        elif not safe:
            self.barrier()
        space = self.space() if each_cta else cluster.shared_of_first(self)
        return self.builder.gep(space, [start], source_etype=I8) if start else space

    def scratch_room(self) -> int:
        """The most bytes that one exchange can have here."""
        return self.shared.scratch_room(self.current, self.target.shared_bytes)

    def buffer_address(self, buffer: SSAValue) -> Value:
        """Shared address (i32) of the first stage of a buffer."""
        start, end = self.shared.place(buffer_root(buffer))
        self.reserve(end)
        space = self.space()
        base = self.threads.at_start("shared", lambda b: b.ptrtoint(space, I32))
        return self.builder.add(base, start)

    def reserve(self, bytes_: int) -> None:
        """Let the launch ask for so much shared memory, at least. Raises OutOfResources."""
        if bytes_ > (limit := self.target.shared_bytes):
            raise OutOfResources(bytes_, limit, f"shared memory of {self.target.name}")
        self.scratch_bytes = max(self.scratch_bytes, bytes_)

    def space(self) -> Value:
        """All shared memory of the program."""
        if self._shared is None:
            space: Any = ir.GlobalVariable(
                self.module, ir.ArrayType(I8, 0), "tw_shared", addrspace=3
            )
            space.linkage = "external"
            space.align = ALIGNMENT if self.shared.used else 16
            space.type = SHARED  # llvmlite makes a typed pointer of it
            self._shared = space
        return self._shared

    def emit_asm(
        self,
        text: str,
        operands: Sequence[Value] = (),
        result: ir.Type | Sequence[ir.Type] = VOID,
        memory: bool = True,
        **more: Any,
    ) -> Any:
        """`inline_ptx` with effects, done by every thread that gets there."""
        b = self.builder
        return inline_ptx(b, text, operands, result, side_effect=True, memory=memory, **more)

    def emit_convergent_asm(
        self,
        text: str,
        operands: Sequence[Value] = (),
        result: ir.Type | Sequence[ir.Type] = VOID,
        **more: Any,
    ) -> Any:
        """The same that threads do together."""
        return self.emit_asm(text, operands, result, convergent=True, **more)


# ---- small operations -------------------------------------------------------------------------------


def _return(gen: KernelCodegen, op: Operation) -> None:
    if gen.reaches_first_cta:
        gen.barrier()  # the first CTA's memory goes with it
    if gen.shares:
        cluster.synchronize(gen)  # others arrive at, and write to, a block's memory
    gen.device_maps.end(gen)
    gen.builder.ret_void()


def axis_of(op: tile.ProgramIdOp | tile.NumProgramsOp) -> str:
    """The axis of the grid that an operation asks about."""
    return "xyz"[op.axis.value.data]


Handler = Callable[[KernelCodegen, Any], None]

HANDLERS: dict[type[Operation], Handler] = {
    func.ReturnOp: _return,
    **float8.HANDLERS,
    **control.HANDLERS,
    tile.ProgramIdOp: lambda gen, op: gen.bind(op.result, [gen.threads.program(axis_of(op))]),
    tile.NumProgramsOp: lambda gen, op: gen.bind(op.result, [gen.threads.programs(axis_of(op))]),
    **dict.fromkeys((tile.BarrierOp, gpu.BarrierOp), lambda gen, op: gen.barrier()),
    tile.AssumeOp: lambda gen, op: call(gen.builder, "llvm.assume", VOID, gen.scalar(op.condition)),
    **dict.fromkeys((tile.ClaimOp, gpu.LocalAllocOp, gpu.MemdescTransOp), lambda gen, op: None),
    tile.CmpIOp: comparisons.lower_compare,
    tile.SplatOp: shapes.lower_splat,
    tile.ArangeOp: shapes.lower_arange,
    tile.BroadcastOp: shapes.lower_broadcast,
    tile.ExpandDimsOp: shapes.lower_remap,
    tile.TransOp: shapes.lower_trans,
    tile.ReshapeOp: shapes.lower_reshape,
    tile.JoinOp: shapes.lower_join,
    tile.SplitOp: shapes.lower_split,
    gpu.LocalDeallocOp: asynchronous.lower_release,
    gpu.LocalStoreOp: asynchronous.lower_local_store,
    gpu.LocalTransposeOp: local_transpose.lower_turn,
    gpu.LocalLoadOp: fragments.lower_local_load,
    gpu.AsyncCopyOp: asynchronous.lower_copy,
    gpu.PrefetchOp: tma.lower_prefetch,
    gpu.AsyncCommitGroupOp: asynchronous.lower_commit,
    gpu.AsyncWaitOp: asynchronous.lower_wait,
    gpu.WgmmaOp: wgmma.lower_wgmma,
    gpu.WgmmaWaitOp: wgmma.lower_wgmma_wait,
    gpu.MbarrierInitOp: tma.lower_barriers,
    gpu.ElectOp: tma.lower_elect,
    gpu.MbarrierArriveExpectTxOp: tma.lower_expect,
    gpu.MbarrierArriveOp: tma.lower_arrive,
    gpu.ProducerWarpOp: tma.lower_produce,
    gpu.TmaLoadOp: tma.lower_tma_copy,
    gpu.MbarrierWaitOp: tma.lower_tma_wait,
    gpu.TmaStoreOp: tma.lower_tma_store,
    gpu.TmaStoreWaitOp: tma.lower_tma_store_wait,
    **device_maps.HANDLERS,
    gpu.ConvertLayoutOp: convert_layout.lower_convert,
    gpu.SplitOverLanesOp: reductions.lower_split,
    gpu.SumOverLanesOp: reductions.lower_sum,
    gpu.ExtractSliceOp: convert_layout.lower_part,
    tile.CatOp: scratch_tiles.lower_cat,
    tile.GatherOp: scratch_tiles.lower_gather,
    tile.HistogramOp: scratch_tiles.lower_histogram,
    tile.LoadViewOp: memory.lower_load_view,
    tile.StoreViewOp: memory.lower_store_view,
    tile.LoadOp: atomics.lower_load,
    tile.StoreOp: memory.lower_store,
    tile.AtomicRMWOp: atomics.lower_atomic_rmw,
    tile.AtomicCASOp: atomics.lower_atomic_cas,
    tile.ReduceOp: reductions.lower_reduce,
    tile.ScanOp: scans.lower_scan,
    tile.DotOp: dot.lower_dot,
    tile.AssertOp: output.lower_assert,
    tile.PrintOp: output.lower_print,
    tile.InlineAsmOp: inline_asm.lower_inline_asm,
    tile.OptimizationBarrierOp: optimization_barrier.lower_optimization_barrier,
}


def emit_module(
    module: ModuleOp, target: TargetInfo, fuse: bool = True
) -> tuple[KernelCodegen, ir.Module]:
    """The LLVM module of a laid-out tile module, and what its launch needs to know."""
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    llvm_module = ir.Module(name=function.sym_name.data, context=ir.Context())
    llvm_module.triple = TRIPLE
    llvm_module.data_layout = DATA_LAYOUT
    gen = KernelCodegen(llvm_module, function, target, fuse)
    gen.run()
    return gen, llvm_module
