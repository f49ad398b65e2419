"""The `gpu` dialect: tiles with layouts, shared memory, asynchronous copies and MMA.

After `assign-layouts` every tile type carries its layout as the tensor's encoding
(`tensor<64x32xf16, "64x32 r[0,1] l[...] w[...]">`), so two values of one type are in the same registers of the same
threads. Operations of `tile`, `arith` and `math` keep their meaning; the operations here move tiles and do not change
their elements, except for `gpu.wgmma`. Code generation walks this level once.
"""

from __future__ import annotations

import functools
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute

from tilewright.dialects import gpu_rules as rules
from tilewright.dialects import tile
from tilewright.dialects.gpu_types import MbarriersType as MbarriersType
from tilewright.dialects.gpu_types import SharedType as SharedType
from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import require, same_shape
from tilewright.dialects.tile.layout_verification import layout_of as layout_of
from tilewright.dialects.tile.layout_verification import same_layout
from tilewright.layouts import Layout
from tilewright.layouts.shared import SharedLayout, parse_shared

UNBOUNDED = 1 << 31
"""Extent of an unbounded dimension; the largest that the host encodes."""
REACH = UNBOUNDED - 256
"""TMA tiles that begin below this coordinate end within 32-bit coordinates."""


@functools.lru_cache(maxsize=4096)
def laid_out(element: Attribute, layout: Layout) -> Attribute:
    """The type of a tile of `element` in `layout`."""
    return TensorType(element, layout.shape, StringAttr(str(layout)))


@operation
class ConvertLayoutOp(PureOp):
    """The tile in another layout: moves elements between registers, lanes, or through shared memory."""

    source = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        same_shape(self, self.source, self.result)
        require(
            tile.element_of(self.source) == tile.element_of(self.result),
            "gpu.convert_layout: elements",
        )
        for value in (self.source, self.result):
            same_layout(self, value)


@operation
class SplitOverLanesOp(PureOp):
    """The tile in parts: an element is the sum of its copies in lanes that differ in the bits `lanes` of their index.

    The first of these lanes keeps the element, the others hold -0. Parts are added and multiplied by what all lanes have,
    until `gpu.sum_over_lanes`.
    """

    source = operand_def(TensorType)
    lanes = prop_def(IntegerAttr)
    result = result_def(TensorType)
    verify_: Any = rules.verify_parts


@operation
class SumOverLanesOp(PureOp):
    """The tile of which lanes that differ in the bits `lanes` of their index hold parts."""

    source = operand_def(TensorType)
    lanes = prop_def(IntegerAttr)
    result = result_def(TensorType)
    verify_: Any = rules.verify_parts


@operation
class ExtractSliceOp(PureOp):
    """The slice of a tile that begins at `start`: a subset of the registers of every thread (`Layout.subtile`)."""

    source = operand_def(TensorType)
    start = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"
    verify_: Any = rules.verify_slice


@operation
class BarrierOp(Op):
    """Synchronize all threads of the program; writes before the barrier are visible after it."""


# ---- shared memory ---------------------------------------------------------------------------------


def buffer_type(buffer: SSAValue) -> SharedType:
    """The type of a buffer in shared memory."""
    return cast(SharedType, buffer.type)


def shared_layout_of(value: SSAValue) -> SharedLayout:
    """The layout of a buffer's tiles."""
    kind = value.type
    if not isinstance(kind, SharedType):
        raise VerifyException("not a buffer in shared memory")
    return parse_shared(kind.layout.data)


@operation
class LocalAllocOp(Op):
    """Allocate a buffer in shared memory; its contents are undefined until written."""

    result = result_def(SharedType)


@operation
class LocalDeallocOp(Op):
    """Free the buffers. Their shared memory may be reused after the next `gpu.barrier`."""

    buffers = var_operand_def(SharedType)


@operation
class MemdescTransOp(PureOp):
    """A buffer as the transposed tiles: the same bytes, contiguous along the other dimension."""

    source = operand_def(SharedType)
    result = result_def(SharedType)
    verify_: Any = rules.verify_memdesc_trans


@operation
class LocalStoreOp(Op):
    """Write a tile to stage `stage` of a buffer; visible to other threads after a `gpu.barrier`."""

    source = operand_def(TensorType)
    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    assembly_format = (
        "$source `,` $buffer `[` $stage `]` attr-dict `:` type($source) `,` type($buffer)"
    )

    def verify_(self) -> None:
        rules.verify_tile(self, self.source, self.buffer)


@operation
class LocalTransposeOp(Op):
    """Copy stage `source_stage` of a buffer to stage `stage` of one that is contiguous along the other dimension.

    The result is visible to other threads after a `gpu.barrier`.
    """

    source = operand_def(SharedType)
    source_stage = operand_def(i32)
    target = operand_def(SharedType)
    stage = operand_def(i32)
    assembly_format = (
        "$source `[` $source_stage `]` `,` $target `[` $stage `]` attr-dict"
        " `:` type($source) `,` type($target)"
    )
    verify_: Any = rules.verify_transpose


@operation
class LocalLoadOp(Op):
    """Read stage `stage` of a buffer into registers."""

    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    result = result_def(TensorType)
    assembly_format = "$buffer `[` $stage `]` attr-dict `:` type($buffer) `to` type($result)"

    def verify_(self) -> None:
        rules.verify_tile(self, self.result, self.buffer)


@operation
class AsyncCopyOp(SegmentedOp):
    """Issue the copy of a structured access to stage `stage` of a buffer, if `pred`.

    The first operands are those of `tile.load_view`, in the thread layout `layout`; elements beyond a limit or masked off
    become 0. The copy belongs to the commit group that the next `gpu.async_commit_group` closes, and is complete when a
    `gpu.async_wait` has waited for that group.
    """

    base = operand_def(tile.PtrType)
    strides = var_operand_def(i64)
    starts = var_operand_def(i64)
    sizes = var_operand_def(i64)
    indices = var_operand_def(TensorType)
    limits = var_operand_def(i64)
    mask = opt_operand_def(TensorType)
    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    pred = operand_def(i1)
    kinds = prop_def(ArrayAttr[StringAttr])
    limited = prop_def(DenseArrayBase)
    layout = prop_def(StringAttr)
    assembly_format = (
        "$base $kinds `strides` `(` $strides `)` (`starts` `(` $starts^ `)`)? (`sizes` `(` $sizes^ `)`)?"
        " (`indices` `(` $indices^ `:` type($indices) `)`)? (`limits` `(` $limits^ `)`)? (`mask` $mask^ `:` type($mask))?"
        " `to` $buffer `[` $stage `]` `if` $pred attr-dict `:` type($base) `,` type($buffer)"
    )
    verify_: Any = rules.verify_copy


@operation
class PrefetchOp(Op):
    """Begin to fetch the first `count` elements from `base` on into the L2 cache, if `pred`.

    `count` is `extent` at most, and may be negative. A hint: no value depends on it. The elements are in an array.
    """

    base = operand_def(tile.PtrType)
    count = operand_def(i64)
    pred = operand_def(i1)
    extent = prop_def(IntegerAttr)
    assembly_format = "$base `,` $count `of` $extent `if` $pred attr-dict `:` type($base)"


@operation
class AsyncCommitGroupOp(Op):
    """Close a commit group (it may be empty)."""


@operation
class AsyncWaitOp(Op):
    """Wait until at most `pending` commit groups of this thread are in flight."""

    pending = prop_def(IntegerAttr)


@operation
class MbarrierInitOp(Op):
    """Initialize mbarriers, for phase 0.

    A phase completes with one arrival (`gpu.mbarrier_arrive_expect_tx`) and its bytes, or with the arrivals of
    `arrival_count` warps (`gpu.mbarrier_arrive`).
    """

    arrival_count = opt_prop_def(IntegerAttr)
    result = result_def(MbarriersType)
    assembly_format = "(`of` $arrival_count^)? attr-dict `:` type($result)"


@operation
class MbarrierArriveOp(Op):
    """Each warp of the program arrives at a stage's mbarrier, if `pred`: it releases the stage."""

    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    pred = operand_def(i1)
    assembly_format = "$barriers `[` $stage `]` `,` $pred attr-dict `:` type($barriers)"
    verify_: Any = rules.verify_arrivals


@operation
class ProducerWarpOp(Op):
    """Run the region on one additional warp, concurrently with the program's warps.

    It may compute scalars, wait on mbarriers and issue TMA loads; tile values and CTA barriers are not allowed.
    With numbers of registers per thread, a whole warpgroup is added, of which the first warp runs the region: it
    keeps `producer_registers`, and the program's warps get `consumer_registers` (PTX ISA, `setmaxnreg`).
    """

    producer_registers = opt_prop_def(IntegerAttr)
    consumer_registers = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "(`registers` $producer_registers^ `,` $consumer_registers)? $body attr-dict"
    verify_: Any = rules.verify_producer


@operation
class ElectOp(Op):
    """True in one thread of the program, which issues TMA operations."""

    result = result_def(i1)
    verify_: Any = rules.verify_elected


@operation
class MbarrierArriveExpectTxOp(Op):
    """Arrive at a stage's mbarrier and expect `bytes` of TMA loads in this phase."""

    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    bytes = prop_def(IntegerAttr)
    assembly_format = "$barriers `[` $stage `]` `,` $bytes attr-dict `:` type($barriers)"

    def verify_(self) -> None:
        rules.verify_one_thread(self)
        rules.verify_expected_bytes(self)


@operation
class TmaLoadOp(SegmentedOp):
    """Issue the load of the tile at `coords` of an array into stage `stage` of a buffer.

    The array starts at `base` (a kernel argument, or a `gpu.encode_tensor_map`) and has 2 to 5 dimensions, the first contiguous, of `global_dims` elements;
    `global_strides` are the element strides of the others. The box has the extents of the buffer in the first two dimensions and one
    element in the others. Elements outside the array become 0; a dimension of extent 2^31 is unbounded. Traps if the tile
    begins, along a dimension in `range_checked`, outside the range of coordinates (below 0, or from 2^31 - 256 on), and
    along none beyond the array's end. The bytes count towards the stage's mbarrier.
    """

    base = operand_def(tile.PtrType)
    global_dims = var_operand_def(i64)
    global_strides = var_operand_def(i64)
    coords = var_operand_def(i64)
    buffer = operand_def(SharedType)
    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    range_checked = prop_def(DenseArrayBase)
    assembly_format = (
        "$base `[` $coords `]` `of` `[` $global_dims `]` (`strides` `(` $global_strides^ `)`)?"
        " `to` $buffer `[` $stage `]` `,` $barriers attr-dict `:` type($base) `,` type($buffer) `,` type($barriers)"
    )

    def verify_(self) -> None:
        rules.verify_one_thread(self)
        rules.verify_tma(self)


@operation
class MbarrierWaitOp(Op):
    """Wait for the completion of phase `phase` (0 or 1) of a stage's mbarrier."""

    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    phase = operand_def(i32)
    assembly_format = "$barriers `[` $stage `]` `,` $phase attr-dict `:` type($barriers)"


@operation
class TmaStoreOp(SegmentedOp):
    """Issue the store of stage `stage` of a buffer to the tile at `coords` of an array.

    The array is as for `gpu.tma_load`; elements outside it are not stored. The stage must not be written until a
    `gpu.tma_store_wait`; the data is in memory at the end of the program, or after a wait with `complete`.
    """

    base = operand_def(tile.PtrType)
    global_dims = var_operand_def(i64)
    global_strides = var_operand_def(i64)
    coords = var_operand_def(i64)
    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    range_checked = prop_def(DenseArrayBase)
    assembly_format = (
        "$buffer `[` $stage `]` `to` $base `[` $coords `]` `of` `[` $global_dims `]` (`strides` `(` $global_strides^ `)`)?"
        " attr-dict `:` type($buffer) `,` type($base)"
    )

    def verify_(self) -> None:
        rules.verify_one_thread(self)
        rules.verify_tma(self)


@operation
class TmaStoreWaitOp(Op):
    """Wait until all but the last `pending` TMA stores of this thread have read their buffer.

    With `complete`, until they are in memory as well.
    """

    buffer = operand_def(SharedType)
    pending = opt_prop_def(IntegerAttr)
    complete = opt_prop_def(UnitAttr)
    assembly_format = (
        "$buffer (`pending` $pending^)? (`complete` $complete^)? attr-dict `:` type($buffer)"
    )


@operation
class WgmmaOp(Op):
    """Issue `acc + a @ b` on stages of two buffers; the result may be used after a `gpu.wgmma_wait`.

    `a` may be a tile in registers instead, as the instruction's A fragment (its stage is then ignored). With an instruction
    that ends in `.rs` or `.rs.swap_ab`, threads load an MN-major buffer into registers as part of the operation, and the accumulator has
    permuted rows (`layouts/wgmma_partition.py`). `max_num_imprecise_acc` is that of `tile.dot`.
    """

    lhs = operand_def(SharedType | TensorType)
    lhs_stage = operand_def(i32)
    rhs = operand_def(SharedType)
    rhs_stage = operand_def(i32)
    acc = operand_def(TensorType)
    instruction = prop_def(StringAttr)
    max_num_imprecise_acc = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = (
        "$instruction $lhs `[` $lhs_stage `]` `,` $rhs `[` $rhs_stage `]` `,` $acc attr-dict"
        " `:` type($lhs) `,` type($rhs) `,` type($acc) `to` type($result)"
    )
    verify_: Any = rules.verify_wgmma


@operation
class WgmmaWaitOp(Op):
    """Wait until at most `pending` groups of MMAs are in flight; passes the accumulator through."""

    acc = operand_def(TensorType)
    pending = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def verify_(self) -> None:
        require(self.acc.type == self.result.type, "gpu.wgmma_wait: types differ")


@operation
class EncodeTensorMapOp(SegmentedOp):
    """Encode the tensor map of an array whose address or shape the host does not know.

    The result is the address `base`; TMA loads and stores with the result as their base use the map. The operands
    describe the array as those of `gpu.tma_load` do and must be equal to them. Requires: `base` and the pitches in
    bytes are multiples of 16. Ensures: all prior accesses of the program, by TMA or otherwise, are ordered before all
    later ones, and prior TMA stores have completed. All threads of the program participate.
    """

    base = operand_def(tile.PtrType)
    global_dims = var_operand_def(i64)
    global_strides = var_operand_def(i64)
    result = result_def(tile.PtrType)
    assembly_format = (
        "$base `of` `[` $global_dims `]` (`strides` `(` $global_strides^ `)`)? attr-dict"
        " `:` type($base) `to` type($result)"
    )

    def verify_(self) -> None:
        require(self.base.type == self.result.type, f"{self.name}: the result is the address")
        rank = len(self.global_dims)
        require(
            len(self.global_strides) == rank - 1, f"{self.name}: a pitch for each but the first"
        )


@operation
class ProxyFenceOp(Op):
    """If `pred`, order prior global-memory accesses of the program, including TMA stores, before the TMA operations
    after the next barrier (PTX ISA, `fence.proxy.async`)."""

    pred = operand_def(i1)
    assembly_format = "$pred attr-dict"


Gpu = Dialect("gpu", operations_of(globals()), [SharedType, MbarriersType])
