"""The `cpu` dialect: tile groups, scratch buffers, and loop nests over vectors.

Three levels share it, each made by one pass:

1. `form-fusion-groups`: `cpu.fusion_group` holds tile operations that will share one loop nest;
2. `plan-scratch`: tiles that cross groups live in per-thread `cpu.scratch` buffers;
3. `vectorize`: groups are `scf.for` nests over `vector<Wx…>` values, memory is reached by the
   vector operations below. Codegen walks this level once.
"""

from __future__ import annotations

import functools

from xdsl.ir import ParametrizedAttribute, TypeAttribute

from tilewright.dialects.irdl import *
from tilewright.dialects.tile import PtrType, ints
from tilewright.dialects.tile.base import scalar_of as scalar_of


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """`!cpu.buffer<tensor<128x64xf32>, "panel:32">`: a tile in per-thread scratch memory.

    The layout text is that of `passes.cpu.dot_plan.BufferLayout`, "row" being row-major.
    """

    name = "cpu.buffer"
    tile: Attribute
    layout: StringAttr


# ---- level 1: groups --------------------------------------------------------------------------------


@operation
class FusionGroupOp(Op):
    """Tile operations over one iteration space, executed as one loop nest.

    The region sees values defined above the group. Results are scalars (full reductions) or, until
    `plan-scratch`, tiles. `width` is 0 until a pass fixes the lanes a chunk has.
    """

    iteration_space = prop_def(DenseArrayBase)
    results_ = var_result_def()
    body = region_def("single_block")
    assembly_format = "(`->` type($results_)^)? attr-dict-with-keyword $body"

    @property
    def extents(self) -> tuple[int, ...]:
        return ints(self.iteration_space)


@operation
class YieldOp(Op):
    """Ends a group; its operands are the group's results."""

    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"


@operation
class DotOp(PureOp):
    """`tile.dot` with a decided kernel: operands already have the packed element types.

    `plan` is the text of a `passes.cpu.dot_plan.DotPlan`.
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    acc = operand_def(TensorType)
    plan = prop_def(StringAttr)
    result = result_def(TensorType)
    assembly_format = (
        "$lhs `,` $rhs `,` $acc `plan` $plan attr-dict"
        " `:` type($lhs) `,` type($rhs) `,` type($acc) `to` type($result)"
    )


@operation
class PrepackedOp(Op):
    """A tile that a dot reads where it stands in memory: from `pointer` on, in `layout`.

    `layout` is the text of a `passes.cpu.dot_plan.BufferLayout` with `in_place`. Nothing writes that memory
    between this operation and the dot.
    """

    pointer = operand_def(PtrType)
    layout = prop_def(StringAttr)
    result = result_def(TensorType)
    assembly_format = "$pointer `layout` $layout attr-dict `:` type($pointer) `to` type($result)"


# ---- level 2: scratch -------------------------------------------------------------------------------


@operation
class ScratchOp(PureOp):
    """A per-thread buffer; `offset` is its byte offset in the thread's scratch, -1 until planned."""

    offset = prop_def(IntegerAttr)
    result = result_def(BufferType)
    assembly_format = "`at` $offset attr-dict `:` type($result)"


@operation
class BufferFromPtrOp(Op):
    """Memory from `pointer` on as a buffer that is only read."""

    pointer = operand_def(PtrType)
    result = result_def(BufferType)


@operation
class ReadOp(Op):
    """The tile that a buffer holds now."""

    buffer = operand_def(BufferType)
    result = result_def(TensorType)


@operation
class WriteOp(Op):
    """Put a tile into a buffer."""

    value = operand_def(TensorType)
    buffer = operand_def(BufferType)


@operation
class BufferDotOp(Op):
    """`acc += lhs @ rhs` on buffers, in place."""

    lhs = operand_def(BufferType)
    rhs = operand_def(BufferType)
    acc = operand_def(BufferType)
    plan = prop_def(StringAttr)
    assembly_format = (
        "$lhs `,` $rhs `,` $acc `plan` $plan attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)"
    )


@operation
class HistogramBuffersOp(SegmentedOp):
    """`tile.histogram` on rank-1 buffers."""

    source = operand_def(BufferType)
    mask = opt_operand_def(BufferType)
    result = operand_def(BufferType)
    assembly_format = "$source (`mask` $mask^ `:` type($mask))? `,` $result attr-dict `:` type($source) `,` type($result)"


# ---- level 3: vectors -------------------------------------------------------------------------------


@operation
class ScratchAddressOp(PureOp):
    """Address of byte `offset` in the running thread's scratch; a multiple of 64."""

    offset = prop_def(IntegerAttr)
    result = result_def(PtrType)


@operation
class SplatOp(PureOp):
    """A vector whose lanes are all the scalar."""

    source = operand_def()
    result = result_def(VectorType)


@operation
class IotaOp(PureOp):
    """`base, base+1, …`: one lane each."""

    base = operand_def()
    result = result_def(VectorType)


@operation
class LaneMaskOp(PureOp):
    """Lanes `0 … count-1` are true; a negative count gives none, a large one all."""

    count = operand_def(i64)
    result = result_def(VectorType)
    assembly_format = "$count attr-dict `:` type($result)"


@operation
class VectorLoadOp(SegmentedOp):
    """Contiguous lanes from `pointer + offset` (elements). Masked-off lanes read nothing and are
    `other` (a vector or scalar; 0 when absent). `alignment` is in bytes. `prefetch_distance` fetches the lines
    so many bytes further into the cache."""

    pointer = operand_def(PtrType)
    offset = operand_def(i64)
    mask = opt_operand_def()
    other = opt_operand_def()
    alignment = prop_def(IntegerAttr)
    prefetch_distance = opt_prop_def(IntegerAttr)
    result = result_def(VectorType)
    assembly_format = (
        "$pointer `[` $offset `]` (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))?"
        " attr-dict `:` type($pointer) `to` type($result)"
    )


@operation
class VectorStoreOp(Op):
    """Contiguous lanes to `pointer + offset` (elements); past the caches if `nontemporal`, which takes no mask."""

    pointer = operand_def(PtrType)
    offset = operand_def(i64)
    value = operand_def()
    mask = opt_operand_def()
    alignment = prop_def(IntegerAttr)
    nontemporal = opt_prop_def(IntegerAttr)
    assembly_format = (
        "$pointer `[` $offset `]` `,` $value (`mask` $mask^ `:` type($mask))?"
        " attr-dict `:` type($pointer) `,` type($value)"
    )


@operation
class GatherOp(SegmentedOp):
    """Lane i from `pointers[i]`; `other` as in `cpu.vector_load`."""

    pointers = operand_def(VectorType)
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def(VectorType)
    assembly_format = (
        "$pointers (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))?"
        " attr-dict `:` type($pointers) `to` type($result)"
    )


@operation
class ScatterOp(Op):
    """Lane i to `pointers[i]`, lower lanes first."""

    pointers = operand_def(VectorType)
    value = operand_def(VectorType)
    mask = opt_operand_def()
    assembly_format = "$pointers `,` $value (`mask` $mask^ `:` type($mask))? attr-dict `:` type($pointers) `,` type($value)"


@operation
class SliceOp(PureOp):
    """Lanes `start … start+n-1` of a vector; a scalar when the result type is one."""

    source = operand_def(VectorType)
    start = prop_def(IntegerAttr)
    result = result_def()
    assembly_format = "$source `[` $start `]` attr-dict `:` type($source) `to` type($result)"


@operation
class SpliceOp(PureOp):
    """Lanes `start … start+n-1` of the `2n` lanes of `lhs` followed by `rhs`, both of `n` lanes."""

    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    start = prop_def(IntegerAttr)
    result = result_def(VectorType)
    assembly_format = (
        "$lhs `,` $rhs `[` $start `]` attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )


@operation
class ShuffleXorOp(PureOp):
    """Lane `i` gets lane `i ^ mask` of `source`."""

    source = operand_def(VectorType)
    mask = prop_def(IntegerAttr)
    result = result_def(VectorType)
    assembly_format = "$source `[` $mask `]` attr-dict `:` type($source) `to` type($result)"


@operation
class AllTrueOp(PureOp):
    """Whether all lanes of a mask are true."""

    mask = operand_def(VectorType)
    result = result_def(i1)
    assembly_format = "$mask attr-dict `:` type($mask)"


@operation
class FromElementsOp(PureOp):
    """Scalars as the lanes of a vector."""

    values = var_operand_def()
    result = result_def(VectorType)


@operation
class TransposeOp(PureOp):
    """`n` vectors of `n` lanes as the rows of a matrix; the results are its columns."""

    rows = var_operand_def(VectorType)
    columns = var_result_def(VectorType)

    def verify_(self) -> None:
        kinds = {v.type for v in (*self.rows, *self.columns)}
        count = len(self.rows)
        if len(kinds) != 1 or len(self.columns) != count or lanes_of(self.rows[0]) != count:
            raise VerifyException(f"cpu.transpose: {count} vectors do not form a square matrix")


@operation
class CallMicrokernelOp(SegmentedOp):
    """`acc += lhs @ rhs` through the micro-kernel of `plan`; the pointers are scratch addresses, or
    those of operands that the plan has in place.

    `next_lhs`/`next_rhs` (with row strides in bytes) name the global rows of the following k step,
    which the micro-kernel prefetches.
    """

    lhs = operand_def(PtrType)
    rhs = operand_def(PtrType)
    acc = operand_def(PtrType)
    next_lhs = opt_operand_def(PtrType)
    next_lhs_stride = opt_operand_def(i64)
    next_rhs = opt_operand_def(PtrType)
    next_rhs_stride = opt_operand_def(i64)
    plan = prop_def(StringAttr)
    assembly_format = (
        "$lhs `,` $rhs `,` $acc (`next_lhs` $next_lhs^ `,` $next_lhs_stride `:` type($next_lhs))?"
        " (`next_rhs` $next_rhs^ `,` $next_rhs_stride `:` type($next_rhs))? `plan` $plan attr-dict"
        " `:` type($lhs) `,` type($rhs) `,` type($acc)"
    )


@operation
class FaultIfOp(Op):
    """Record a fault of assertion `site` for this program when the scalar is true."""

    condition = operand_def(i1)
    program = operand_def(i64)
    site = prop_def(IntegerAttr)
    assembly_format = "$condition `,` $program `site` $site attr-dict"


@operation
class CheckBoundsOp(SegmentedOp):
    """Record a fault of access `site` for `program`, and end the thread's work, unless all enabled
    lanes lie inside one of the `ranges`: pairs of the address of a first byte and a number of bytes.

    The lanes are `lanes` elements of `element_bytes` from `pointer + offset` (elements) on, or those
    that a vector of pointers points to.
    """

    pointer = operand_def()
    offset = opt_operand_def(i64)
    mask = opt_operand_def()
    program = operand_def(i64)
    ranges = var_operand_def(i64)
    lanes = prop_def(IntegerAttr)
    element_bytes = prop_def(IntegerAttr)
    site = prop_def(IntegerAttr)
    assembly_format = (
        "$pointer (`[` $offset^ `]`)? (`mask` $mask^ `:` type($mask))? `program` $program"
        " (`ranges` `(` $ranges^ `)`)? attr-dict `:` type($pointer)"
    )


@operation
class ArgumentOp(PureOp):
    """Slot `index` of the launch arguments (`docs/architecture.md`, native kernel ABI)."""

    index = prop_def(IntegerAttr)
    result = result_def()


def lanes_of(value: SSAValue | Attribute) -> int:
    """Lanes of a vector value or type; 1 for a scalar."""
    kind = value.type if isinstance(value, SSAValue) else value
    return kind.get_shape()[0] if isinstance(kind, VectorType) else 1


def vector_of(element: Attribute, lanes: int) -> Attribute:
    """`vector<lanes x element>`, or the element itself for one lane."""
    return _vector_type(element, lanes) if lanes > 1 else element


@functools.lru_cache(maxsize=1024)
def _vector_type(element: Attribute, lanes: int) -> VectorType:
    return VectorType(element, [lanes])


Cpu = Dialect("cpu", operations_of(globals()), [BufferType])
