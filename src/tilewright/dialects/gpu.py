"""The `gpu` dialect: tiles with layouts, and what moves them between threads.

After `assign-layouts` every tile type carries its layout as the tensor's encoding
(`tensor<64x32xf16, "64x32 r[0,1] l[...] w[...]">`), so two values of one type are in the same
registers of the same threads. The operations of `tile`, `arith` and `math` keep their meaning; those
here change where a tile is, not what it is. Codegen walks this level once.
"""

from __future__ import annotations

import functools

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator, Pure

from tilewright.dialects import gpu_rules as rules
from tilewright.dialects import tile
from tilewright.dialects.operand_segments import fast_operand_segments
from tilewright.dialects.tile.base import require, same_shape
from tilewright.dialects.tile.layout_verification import layout_of as layout_of
from tilewright.dialects.tile.layout_verification import same_layout
from tilewright.layouts import Layout
from tilewright.layouts.shared import SharedLayout, parse_shared

UNBOUNDED = 1 << 31
"""The extent of a box's dimension that has no end: the host encodes no longer one."""
REACH = UNBOUNDED - 256
"""Boxes that begin before this along a dimension end where coordinates of 32 bits reach."""


@functools.lru_cache(maxsize=4096)
def laid_out(element: Attribute, layout: Layout) -> Attribute:
    """The type of a tile of `element` in `layout`."""
    return TensorType(element, layout.shape, StringAttr(str(layout)))


@irdl_op_definition
class ConvertLayoutOp(IRDLOperation):
    """The same tile in another layout: moves between registers, lanes or through shared memory."""

    name = "gpu.convert_layout"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        same_shape(self, self.source, self.result)
        require(
            tile.element_of(self.source) == tile.element_of(self.result),
            "gpu.convert_layout: elements",
        )
        for value in (self.source, self.result):
            same_layout(self, value)


@irdl_op_definition
class ExtractSliceOp(IRDLOperation):
    """The part of a tile that begins at `start`: some registers of every thread (`Layout.subtile`)."""

    name = "gpu.extract_slice"
    source = operand_def(TensorType)
    start = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        rules.verify_part(self)


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the program arrive before any goes on; memory before it is seen after it."""

    name = "gpu.barrier"
    assembly_format = "attr-dict"


# ---- shared memory ---------------------------------------------------------------------------------


@irdl_attr_definition
class SharedType(ParametrizedAttribute, TypeAttribute):
    """`!gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 swizzle128", 3>`: room for 3 such tiles."""

    name = "gpu.shared"
    tile: TensorType
    layout: StringAttr
    stages: IntAttr

    def verify(self) -> None:
        rules.verify_shared(self.tile, self.layout.data, self.stages.data)


def shared_layout_of(value: SSAValue) -> SharedLayout:
    """The layout of a buffer's tiles."""
    kind = value.type
    require(isinstance(kind, SharedType), "not a buffer in shared memory")
    return parse_shared(kind.layout.data)  # type: ignore[union-attr]


@irdl_op_definition
class LocalAllocOp(IRDLOperation):
    """Shared memory for some tiles; it holds nothing until written."""

    name = "gpu.local_alloc"
    result = result_def(SharedType)
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class LocalDeallocOp(IRDLOperation):
    """The buffers are not used any more: after the next `gpu.barrier` others may have their place."""

    name = "gpu.local_dealloc"
    buffers = var_operand_def(SharedType)
    assembly_format = "$buffers attr-dict `:` type($buffers)"


@irdl_op_definition
class LocalStoreOp(IRDLOperation):
    """Write a tile to stage `stage` of a buffer; others see it after a `gpu.barrier`."""

    name = "gpu.local_store"
    source = operand_def(TensorType)
    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    assembly_format = (
        "$source `,` $buffer `[` $stage `]` attr-dict `:` type($source) `,` type($buffer)"
    )

    def verify_(self) -> None:
        rules.verify_moved(self, self.source, self.buffer)


@irdl_op_definition
class LocalTransposeOp(IRDLOperation):
    """Copy stage `source_stage` of a buffer to stage `stage` of one that is contiguous along the other
    dimension; others see it after a `gpu.barrier`."""

    name = "gpu.local_transpose"
    source = operand_def(SharedType)
    source_stage = operand_def(i32)
    target = operand_def(SharedType)
    stage = operand_def(i32)
    assembly_format = (
        "$source `[` $source_stage `]` `,` $target `[` $stage `]` attr-dict"
        " `:` type($source) `,` type($target)"
    )

    def verify_(self) -> None:
        rules.verify_turn(self)


@irdl_op_definition
class LocalLoadOp(IRDLOperation):
    """Read stage `stage` of a buffer into registers."""

    name = "gpu.local_load"
    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    result = result_def(TensorType)
    assembly_format = "$buffer `[` $stage `]` attr-dict `:` type($buffer) `to` type($result)"

    def verify_(self) -> None:
        rules.verify_moved(self, self.result, self.buffer)


@fast_operand_segments
@irdl_op_definition
class AsyncCopyOp(IRDLOperation):
    """Start copying a structured access to stage `stage` of a buffer, if `pred`.

    The first operands are those of `tile.load_view`, tiles among them in the thread layout; elements beyond a limit or
    masked off become 0. The copy is
    part of the group that the next `gpu.async_commit_group` closes, and has landed once a `gpu.async_wait` says so.
    `layout` is the thread layout in which the elements are taken.
    """

    name = "gpu.async_copy"
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
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def verify_(self) -> None:
        rules.verify_copy(self)


@irdl_op_definition
class AsyncCommitGroupOp(IRDLOperation):
    """Close a group of copies (it may be empty)."""

    name = "gpu.async_commit_group"
    assembly_format = "attr-dict"


@irdl_op_definition
class AsyncWaitOp(IRDLOperation):
    """Wait until at most `pending` groups of this thread's copies are in flight."""

    name = "gpu.async_wait"
    pending = prop_def(IntegerAttr)
    assembly_format = "$pending attr-dict"


@irdl_attr_definition
class MbarriersType(ParametrizedAttribute, TypeAttribute):
    """`!gpu.mbarriers<4>`: memory barriers that count bytes, one a stage."""

    name = "gpu.mbarriers"
    stages: IntAttr


@irdl_op_definition
class MbarrierInitOp(IRDLOperation):
    """Memory barriers, ready for their first phase (0).

    A phase ends with one arrival (that of `gpu.mbarrier_arrive_expect_tx`) and the bytes, or with those of as many warps as
    `arrival_count` says (`gpu.mbarrier_arrive`).
    """

    name = "gpu.mbarrier_init"
    arrival_count = opt_prop_def(IntegerAttr)
    result = result_def(MbarriersType)
    assembly_format = "(`of` $arrival_count^)? attr-dict `:` type($result)"


@irdl_op_definition
class MbarrierArriveOp(IRDLOperation):
    """Each warp of the program says, if `pred`, that it is done with a stage."""

    name = "gpu.mbarrier_arrive"
    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    pred = operand_def(i1)
    assembly_format = "$barriers `[` $stage `]` `,` $pred attr-dict `:` type($barriers)"

    def verify_(self) -> None:
        rules.verify_arrivals(self)


@irdl_op_definition
class ProducerWarpOp(IRDLOperation):
    """Run the region on one additional warp, concurrently with the program's warps.

    It may compute scalars, wait on mbarriers and issue TMA loads; tile values and CTA barriers are not allowed.
    With numbers of registers per thread, a whole warpgroup is added, of which the first warp runs the region: it
    keeps `producer_registers`, and the program's warps get `consumer_registers` (PTX ISA, `setmaxnreg`).
    """

    name = "gpu.producer_warp"
    producer_registers = opt_prop_def(IntegerAttr)
    consumer_registers = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "(`registers` $producer_registers^ `,` $consumer_registers)? $body attr-dict"

    def verify_(self) -> None:
        rules.verify_producer(self)


@irdl_op_definition
class ElectOp(IRDLOperation):
    """True in one thread of the program: the one that starts copies of boxes."""

    name = "gpu.elect"
    result = result_def(i1)
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        rules.verify_elected(self)


@irdl_op_definition
class MbarrierArriveExpectTxOp(IRDLOperation):
    """This phase of a stage's barrier ends when `bytes` have been copied."""

    name = "gpu.mbarrier_arrive_expect_tx"
    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    bytes = prop_def(IntegerAttr)
    assembly_format = "$barriers `[` $stage `]` `,` $bytes attr-dict `:` type($barriers)"

    def verify_(self) -> None:
        rules.verify_one_thread(self)
        rules.verify_expected(self)


@fast_operand_segments
@irdl_op_definition
class TmaLoadOp(IRDLOperation):
    """Start copying the box at `coords` of an array to stage `stage` of a buffer.

    The array starts at `base` (a kernel argument) and has 2 to 5 dimensions, the first contiguous, of
    `global_dims` elements; `global_strides` are the elements from one to the next along each of the others. The box
    is what the buffer holds, in the first two dimensions, and one element along the others. What it has
    outside of the array becomes 0. Dimensions of extent 2^31 have no end. The program is stopped if the
    box begins, along a dimension in `range_checked`, where coordinates do not reach (below 0, or from 2^31 - 256
    on), and along none beyond the array's end. The stage's barrier counts the bytes.
    """

    name = "gpu.tma_load"
    base = operand_def(tile.PtrType)
    global_dims = var_operand_def(i64)
    global_strides = var_operand_def(i64)
    coords = var_operand_def(i64)
    buffer = operand_def(SharedType)
    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    range_checked = prop_def(DenseArrayBase)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def verify_(self) -> None:
        rules.verify_one_thread(self)
        rules.verify_box(self)


@irdl_op_definition
class MbarrierWaitOp(IRDLOperation):
    """Wait for the end of phase `phase` (0 or 1) of a stage's barrier."""

    name = "gpu.mbarrier_wait"
    barriers = operand_def(MbarriersType)
    stage = operand_def(i32)
    phase = operand_def(i32)
    assembly_format = "$barriers `[` $stage `]` `,` $phase attr-dict `:` type($barriers)"


@fast_operand_segments
@irdl_op_definition
class TmaStoreOp(IRDLOperation):
    """Start copying stage `stage` of a buffer to the box at `coords` of an array.

    The array is as for `gpu.tma_load`; what the box has beyond it is left out. The stage must stay as
    it is until a `gpu.tma_store_wait`; the array has the box at the end of the program, or after a wait
    for what is written.
    """

    name = "gpu.tma_store"
    base = operand_def(tile.PtrType)
    global_dims = var_operand_def(i64)
    global_strides = var_operand_def(i64)
    coords = var_operand_def(i64)
    buffer = operand_def(SharedType)
    stage = operand_def(i32)
    range_checked = prop_def(DenseArrayBase)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def verify_(self) -> None:
        rules.verify_one_thread(self)
        rules.verify_box(self)


@irdl_op_definition
class TmaStoreWaitOp(IRDLOperation):
    """Wait until all boxes that this thread stores, but for the last `pending` of them, have been read from a
    buffer.

    With `complete`, until they are in memory as well.
    """

    name = "gpu.tma_store_wait"
    buffer = operand_def(SharedType)
    pending = opt_prop_def(IntegerAttr)
    complete = opt_prop_def(UnitAttr)
    assembly_format = (
        "$buffer (`pending` $pending^)? (`complete` $complete^)? attr-dict `:` type($buffer)"
    )


@irdl_op_definition
class WgmmaOp(IRDLOperation):
    """Start `acc + a @ b` on stages of two buffers; the result is usable after a `gpu.wgmma_wait`.

    `a` may be a tile in registers instead, in the layout that sums of the same rows have (its stage then
    means nothing). An instruction that ends in `.rs` or `.rs.swap_ab` has threads read that buffer, contiguous across k,
    into registers as part of the product; sums are laid out accordingly (`layouts/wgmma_partition.py`).
    `max_num_imprecise_acc` is that of `tile.dot`.
    """

    name = "gpu.wgmma"
    lhs = operand_def(SharedType | TensorType)
    lhs_stage = operand_def(i32)
    rhs = operand_def(SharedType)
    rhs_stage = operand_def(i32)
    acc = operand_def(TensorType)
    instruction = prop_def(StringAttr)
    max_num_imprecise_acc = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$instruction $lhs `[` $lhs_stage `]` `,` $rhs `[` $rhs_stage `]` `,` $acc attr-dict"
        " `:` type($lhs) `,` type($rhs) `,` type($acc) `to` type($result)"
    )

    def verify_(self) -> None:
        rules.verify_group_product(self)


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Wait until at most `pending` multiplications are in flight; the value passes through."""

    name = "gpu.wgmma_wait"
    acc = operand_def(TensorType)
    pending = prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = "$acc `,` $pending attr-dict `:` type($acc) `to` type($result)"

    def verify_(self) -> None:
        require(self.acc.type == self.result.type, "gpu.wgmma_wait: types differ")


Gpu = Dialect(
    "gpu",
    [
        ConvertLayoutOp, ExtractSliceOp, BarrierOp, LocalAllocOp, LocalDeallocOp, LocalStoreOp, LocalLoadOp, LocalTransposeOp, AsyncCopyOp, AsyncCommitGroupOp,
        AsyncWaitOp, WgmmaOp, WgmmaWaitOp,
        MbarrierInitOp, ElectOp, MbarrierArriveExpectTxOp, MbarrierArriveOp, ProducerWarpOp, TmaLoadOp, MbarrierWaitOp,
        TmaStoreOp, TmaStoreWaitOp,
    ],
    [SharedType, MbarriersType],
)  # fmt: skip
