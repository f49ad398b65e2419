"""The `tile` dialect: what MLIR's upstream dialects lack for programs on tiles (design: level 1).

A tile is a builtin `tensor<128x64xf16>`; a scalar is a builtin scalar type; a pointer is
`!tile.ptr<f16>` (a tile of pointers is `tensor<64x!tile.ptr<f16>>`). Element-wise arithmetic is
upstream `arith`/`math` on scalars and tiles alike, control flow is `scf` (`for`, `if`, `while`).
Comparisons and selects are `tile.cmpi`, `tile.cmpf`, `tile.select`, because xDSL's `arith.cmpi`,
`arith.cmpf` and `arith.select` take scalars only.

Memory in the IR holds `i1` as one byte (0 or 1). Offsets count elements, not bytes.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    VectorType,
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
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.upstream import widen_conversions

widen_conversions()


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """`!tile.ptr<f16>`: the address of an element in global memory."""

    name = "tile.ptr"
    pointee: Attribute


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """Extents of a tile value or type; `()` for a scalar."""
    kind = value.type if isinstance(value, SSAValue) else value
    return tuple(kind.get_shape()) if isinstance(kind, TensorType) else ()


def element_of(value: SSAValue | Attribute) -> Attribute:
    """Element type of a tile, or the scalar type itself."""
    kind = value.type if isinstance(value, SSAValue) else value
    return kind.element_type if isinstance(kind, TensorType) else kind


def with_shape(element: Attribute, shape: tuple[int, ...] | list[int]) -> Attribute:
    """`tensor<shape x element>`, or `element` for an empty shape."""
    return TensorType(element, shape) if len(shape) else element


def is_tile(value: SSAValue | Attribute) -> bool:
    kind = value.type if isinstance(value, SSAValue) else value
    return isinstance(kind, TensorType)


def _same_shape(op: IRDLOperation, *values: SSAValue | None) -> None:
    shapes = [shape_of(v) for v in values if v is not None]
    if any(s != shapes[0] for s in shapes):
        raise VerifyException(f"{op.name}: shapes differ: {shapes}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyException(message)


def _ints(attr: DenseArrayBase) -> tuple[int, ...]:
    return tuple(int(v) for v in cast(Any, attr).get_values())


# ---- program and tile construction --------------------------------------------------------------


@irdl_op_definition
class ProgramIdOp(IRDLOperation):
    """Index of this program along grid axis 0, 1 or 2."""

    name = "tile.program_id"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict `:` type($result)"


@irdl_op_definition
class NumProgramsOp(IRDLOperation):
    """Extent of grid axis 0, 1 or 2."""

    name = "tile.num_programs"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict `:` type($result)"


@irdl_op_definition
class ArangeOp(IRDLOperation):
    """`[start, start+1, …, end-1]` as `tensor<(end-start) x i32>`."""

    name = "tile.arange"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$start `,` $end attr-dict `:` type($result)"

    def verify_(self) -> None:
        extent = self.end.value.data - self.start.value.data
        _require(shape_of(self.result) == (extent,), f"tile.arange: {extent} elements expected")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A tile whose every element is the scalar operand."""

    name = "tile.splat"
    source = operand_def()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        _require(element_of(self.result) == self.source.type, "tile.splat: element type differs")


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Same rank; extents of 1 are repeated to the result's extent."""

    name = "tile.broadcast"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        a, b = shape_of(self.source), shape_of(self.result)
        _require(
            len(a) == len(b) and all(x in (1, y) for x, y in zip(a, b, strict=True)),
            f"tile.broadcast: {a} does not broadcast to {b}",
        )


@irdl_op_definition
class ExpandDimsOp(IRDLOperation):
    """Insert an extent of 1 at `axis` of the result."""

    name = "tile.expand_dims"
    source = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $axis attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        shape, axis = list(shape_of(self.source)), self.axis.value.data
        shape.insert(axis, 1)
        _require(tuple(shape) == shape_of(self.result), f"tile.expand_dims: {shape} expected")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Same elements in row-major order, other extents."""

    name = "tile.reshape"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        counts = []
        for value in (self.source, self.result):
            n = 1
            for extent in shape_of(value):
                n *= extent
            counts.append(n)
        _require(counts[0] == counts[1], f"tile.reshape: {counts[0]} elements into {counts[1]}")


@irdl_op_definition
class TransOp(IRDLOperation):
    """Permute dimensions: dimension d of the result is dimension `order[d]` of the source."""

    name = "tile.trans"
    source = operand_def(TensorType)
    order = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $order attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        shape = shape_of(self.source)
        order = self.permutation
        _require(sorted(order) == list(range(len(shape))), "tile.trans: order is no permutation")
        _require(tuple(shape[d] for d in order) == shape_of(self.result), "tile.trans: shape")

    @property
    def permutation(self) -> tuple[int, ...]:
        return _ints(self.order)


@irdl_op_definition
class JoinOp(IRDLOperation):
    """Two tiles of one shape into a new last dimension of extent 2."""

    name = "tile.join"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"


@irdl_op_definition
class SplitOp(IRDLOperation):
    """The two halves of a last dimension of extent 2."""

    name = "tile.split"
    source = operand_def(TensorType)
    lhs = result_def(TensorType)
    rhs = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($lhs) `,` type($rhs)"


@irdl_op_definition
class CatOp(IRDLOperation):
    """Concatenate two tiles along `axis`."""

    name = "tile.cat"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `,` $axis attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`result[i, j] = source[index[i, j], j]` for axis 0 and so on."""

    name = "tile.gather"
    source = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $index `,` $axis attr-dict `:` type($source) `,` type($index) `to` type($result)"


# ---- element-wise operations that arith and math lack ---------------------------------------------


@irdl_op_definition
class CmpIOp(IRDLOperation):
    """Integer (or pointer) comparison: eq ne slt sle sgt sge ult ule ugt uge; result i1."""

    name = "tile.cmpi"
    predicate = prop_def(StringAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )
    PREDICATES: ClassVar = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")

    def verify_(self) -> None:
        _require(self.predicate.data in self.PREDICATES, f"tile.cmpi: {self.predicate.data}")
        _require(self.lhs.type == self.rhs.type, "tile.cmpi: operand types differ")
        _same_shape(self, self.lhs, self.result)


@irdl_op_definition
class CmpFOp(IRDLOperation):
    """Floating comparison: oeq one olt ole ogt oge (false on NaN), une (true on NaN), uno, ord."""

    name = "tile.cmpf"
    predicate = prop_def(StringAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )
    PREDICATES: ClassVar = ("oeq", "one", "olt", "ole", "ogt", "oge", "une", "uno", "ord")

    def verify_(self) -> None:
        _require(self.predicate.data in self.PREDICATES, f"tile.cmpf: {self.predicate.data}")
        _require(self.lhs.type == self.rhs.type, "tile.cmpf: operand types differ")
        _same_shape(self, self.lhs, self.result)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`condition ? lhs : rhs` per element; all three have one shape."""

    name = "tile.select"
    condition = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($lhs) `,` type($rhs) `to` type($result)"

    def verify_(self) -> None:
        _require(
            self.lhs.type == self.rhs.type == self.result.type, "tile.select: value types differ"
        )
        _same_shape(self, self.condition, self.result)


class _SameTypeBinary(IRDLOperation):
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"

    def verify_(self) -> None:
        _require(self.lhs.type == self.rhs.type == self.result.type, f"{self.name}: types differ")


@irdl_op_definition
class RemFOp(_SameTypeBinary):
    """C `fmod`: the remainder has the dividend's sign."""

    name = "tile.remf"


@irdl_op_definition
class MulHiUOp(_SameTypeBinary):
    """High half of the unsigned double-width product."""

    name = "tile.umulhi"


@irdl_op_definition
class FpCastOp(IRDLOperation):
    """Floating conversion to a narrower type with `rounding` "rtz" (towards zero).

    Conversions with the default rounding (to nearest, ties to even) are `arith.truncf`/`extf`.
    """

    name = "tile.fp_cast"
    source = operand_def()
    rounding = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source `,` $rounding attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """Reinterpret the bits of scalars or tiles; element widths are equal. Also pointer to pointer."""

    name = "tile.bitcast"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class IntToPtrOp(IRDLOperation):
    """i64 byte address to pointer."""

    name = "tile.int_to_ptr"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class PtrToIntOp(IRDLOperation):
    """Pointer to i64 byte address."""

    name = "tile.ptr_to_int"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class LibmOp(IRDLOperation):
    """A function of C's math library by its C name without suffix ("asinh", "pow", "round"…).

    For what neither `arith` nor `math` has. Operands and result have one floating type, except
    `isnan`/`isinf`/`isfinite` whose result is i1.
    """

    name = "tile.libm"
    function = prop_def(StringAttr)
    arguments = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$function `,` $arguments attr-dict `:` type($arguments) `to` type($result)"


# ---- memory ----------------------------------------------------------------------------------------


@irdl_op_definition
class AddPtrOp(IRDLOperation):
    """Pointer plus a signed i32 or i64 count of elements; both scalars or tiles of one shape."""

    name = "tile.addptr"
    pointer = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$pointer `,` $offset attr-dict `:` type($pointer) `,` type($offset) `to` type($result)"
    )

    def verify_(self) -> None:
        _require(self.pointer.type == self.result.type, "tile.addptr: pointer type changes")
        _same_shape(self, self.pointer, self.offset)
        offset = element_of(self.offset)
        if isinstance(offset, VectorType):  # the vector level: lanes instead of elements
            offset = offset.element_type
        _require(isinstance(offset, IntegerType), "tile.addptr: offset is no int")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Read through a pointer or a tile of pointers.

    Lanes whose `mask` is false touch no memory and give `other` (0 without it).
    """

    name = "tile.load"
    pointer = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    volatile = opt_prop_def(BoolAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$pointer (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))? attr-dict"
        " `:` type($pointer) `to` type($result)"
    )

    def verify_(self) -> None:
        _same_shape(self, self.pointer, self.result, self.mask, self.other)
        kind = element_of(self.pointer)
        _require(
            isinstance(kind, PtrType) and kind.pointee == element_of(self.result),
            "tile.load: result is not the pointee",
        )


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Write through a pointer or a tile of pointers; masked-off lanes touch no memory."""

    name = "tile.store"
    pointer = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$pointer `,` $value (`mask` $mask^ `:` type($mask))? attr-dict `:` type($pointer) `,` type($value)"

    def verify_(self) -> None:
        _same_shape(self, self.pointer, self.value, self.mask)
        kind = element_of(self.pointer)
        _require(
            isinstance(kind, PtrType) and kind.pointee == element_of(self.value),
            "tile.store: value is not the pointee",
        )


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """Atomic read-modify-write; gives the old value (unspecified in masked-off lanes).

    `kind`: add fadd and or xor xchg max min umax umin fmax fmin.
    """

    name = "tile.atomic_rmw"
    kind = prop_def(StringAttr)
    sem = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    pointer = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    result = result_def()
    assembly_format = (
        "$kind `,` $sem `,` $scope `,` $pointer `,` $value (`mask` $mask^ `:` type($mask))? attr-dict"
        " `:` type($pointer) `,` type($value) `to` type($result)"
    )
    KINDS: ClassVar = (
        "add", "fadd", "and", "or", "xor", "xchg", "max", "min", "umax", "umin", "fmax", "fmin",
    )  # fmt: skip

    def verify_(self) -> None:
        _require(self.kind.data in self.KINDS, f"tile.atomic_rmw: {self.kind.data}")
        _same_shape(self, self.pointer, self.value, self.mask, self.result)


@irdl_op_definition
class AtomicCASOp(IRDLOperation):
    """Atomic compare-and-swap; gives the old value."""

    name = "tile.atomic_cas"
    sem = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    pointer = operand_def()
    compare = operand_def()
    value = operand_def()
    result = result_def()
    assembly_format = (
        "$sem `,` $scope `,` $pointer `,` $compare `,` $value attr-dict"
        " `:` type($pointer) `,` type($compare) `,` type($value) `to` type($result)"
    )


@irdl_op_definition
class LoadViewOp(IRDLOperation):
    """A structured load (made by `raise-access`): addresses are sums of one term a dimension.

    Element `(i0, i1, …)` is at `base + Σ_d term_d(i_d)` elements, where by `kinds[d]`

    - `"strided"`: `term = i_d * stride_d`;
    - `"wrapped"`: `term = ((start_d + i_d) % size_d) * stride_d`; `starts`, `sizes` hold one i64
      for each wrapped dimension, in order; `start_d >= 0`, `size_d > 0`;
    - `"indexed"`: `term = index_d[i_d]`: `indices` holds one `tensor<extent_d x i64>` for each
      indexed dimension, in order.

    `strides` holds one i64 a dimension (unused for indexed ones). The element is read iff
    `i_d < limit_d` for every d in `limited` (`limits`: one i64 each, in order; may be negative or
    exceed the extent) and the residual `mask` tile, if there, is true. Otherwise it is `other` (a
    scalar; 0 when absent).
    """

    name = "tile.load_view"
    base = operand_def(PtrType)
    strides = var_operand_def(i64)
    starts = var_operand_def(i64)
    sizes = var_operand_def(i64)
    indices = var_operand_def(TensorType)
    limits = var_operand_def(i64)
    mask = opt_operand_def(TensorType)
    other = opt_operand_def()
    kinds = prop_def(ArrayAttr[StringAttr])
    limited = prop_def(DenseArrayBase)
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def verify_(self) -> None:
        _verify_view(self, shape_of(self.result))


@irdl_op_definition
class StoreViewOp(IRDLOperation):
    """A structured store; the address and mask operands are those of `tile.load_view`."""

    name = "tile.store_view"
    base = operand_def(PtrType)
    strides = var_operand_def(i64)
    starts = var_operand_def(i64)
    sizes = var_operand_def(i64)
    indices = var_operand_def(TensorType)
    limits = var_operand_def(i64)
    mask = opt_operand_def(TensorType)
    value = operand_def(TensorType)
    kinds = prop_def(ArrayAttr[StringAttr])
    limited = prop_def(DenseArrayBase)
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def verify_(self) -> None:
        _verify_view(self, shape_of(self.value))


def view_kinds(op: LoadViewOp | StoreViewOp) -> tuple[str, ...]:
    return tuple(k.data for k in op.kinds)


def view_limits(op: LoadViewOp | StoreViewOp) -> dict[int, SSAValue]:
    """Dimension -> lane limit, for the limited dimensions."""
    return dict(zip(_ints(op.limited), op.limits, strict=True))


def _verify_view(op: LoadViewOp | StoreViewOp, shape: tuple[int, ...]) -> None:
    kinds = view_kinds(op)
    _require(len(kinds) == len(shape) == len(op.strides), f"{op.name}: one kind and stride a dim")
    wrapped = sum(k == "wrapped" for k in kinds)
    _require(len(op.starts) == len(op.sizes) == wrapped, f"{op.name}: starts/sizes of wrapped dims")
    indexed = [d for d, k in enumerate(kinds) if k == "indexed"]
    _require(
        [shape_of(v) for v in op.indices] == [(shape[d],) for d in indexed],
        f"{op.name}: one index tile an indexed dim",
    )
    _require(len(op.limits) == len(_ints(op.limited)), f"{op.name}: limits")
    if op.mask is not None:
        _require(shape_of(op.mask) == shape, f"{op.name}: mask shape")


# ---- tile algebra ----------------------------------------------------------------------------------


@irdl_op_definition
class DotOp(IRDLOperation):
    """`acc + lhs @ rhs` on the last two dimensions (one leading batch dimension allowed).

    Products and sums are at least as wide as `acc`'s element type; `precision` is the user's
    `input_precision` ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6").
    """

    name = "tile.dot"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    acc = operand_def(TensorType)
    precision = prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs `,` $acc `,` $precision attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc) `to` type($result)"

    def verify_(self) -> None:
        a, b, c = shape_of(self.lhs), shape_of(self.rhs), shape_of(self.acc)
        _require(len(a) == len(b) == len(c) and len(a) in (2, 3), "tile.dot: ranks")
        _require(a[:-2] == b[:-2] == c[:-2], "tile.dot: batch extents differ")
        _require(a[-1] == b[-2] and c[-2:] == (a[-2], b[-1]), f"tile.dot: {a} @ {b} -> {c}")
        _require(self.acc.type == self.result.type, "tile.dot: accumulator type")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduce tiles of one shape along `axis` with the scalar `combine` region.

    The region takes 2n scalars (n left, n right) and ends in `tile.yield` of n. The order of
    combination is not fixed. Results drop the axis; a rank-1 operand gives scalars.
    """

    name = "tile.reduce"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    results_ = var_result_def()
    combine = region_def("single_block")
    traits = traits_def(Pure())

    def verify_(self) -> None:
        _same_shape(self, *self.inputs)
        shape = list(shape_of(self.inputs[0]))
        del shape[self.axis.value.data]
        for value in self.results_:
            _require(shape_of(value) == tuple(shape), "tile.reduce: result shape")


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Inclusive scan along `axis` (from the end when `reverse`) with the `combine` region."""

    name = "tile.scan"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(BoolAttr)
    results_ = var_result_def(TensorType)
    combine = region_def("single_block")
    traits = traits_def(Pure())

    def verify_(self) -> None:
        _same_shape(self, *self.inputs, *self.results_)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a `combine` region."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$values attr-dict `:` type($values)"


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """Counts of the values 0 … bins-1 in a rank-1 integer tile; i32."""

    name = "tile.histogram"
    source = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source (`mask` $mask^ `:` type($mask))? attr-dict `:` type($source) `to` type($result)"
    )


# ---- hints and debugging ---------------------------------------------------------------------------


@irdl_op_definition
class HintOp(IRDLOperation):
    """The value itself, with the author's promise `kind` ("multiple_of", "max_contiguous",
    "max_constancy") and one integer a dimension in `values`."""

    name = "tile.hint"
    source = operand_def()
    kind = prop_def(StringAttr)
    values = prop_def(DenseArrayBase.constr(i64))
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source `,` $kind `,` $values attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """The author's promise that a scalar i1 is true."""

    name = "tile.assume"
    condition = operand_def(IntegerType(1))
    assembly_format = "$condition attr-dict `:` type($condition)"


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """`tl.debug_barrier`: orders the program's earlier memory accesses before its later ones."""

    name = "tile.barrier"
    assembly_format = "attr-dict"


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Print scalars or tiles, one line a lane, with program id and lane coordinates."""

    name = "tile.print"
    prefix = prop_def(StringAttr)
    hex = prop_def(BoolAttr)
    signed = prop_def(DenseArrayBase.constr(i1))
    """One i1 an operand: whether an integer prints as signed."""
    arguments = var_operand_def()
    assembly_format = (
        "$prefix `,` $hex `,` $signed (`,` $arguments^ `:` type($arguments))? attr-dict"
    )


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Fault with `message` if the i1 scalar or any element of the i1 tile is false."""

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"


Tile = Dialect(
    "tile",
    [
        ProgramIdOp, NumProgramsOp, ArangeOp, SplatOp, BroadcastOp, ExpandDimsOp, ReshapeOp,
        TransOp, JoinOp, SplitOp, CatOp, GatherOp, CmpIOp, CmpFOp, SelectOp, RemFOp, MulHiUOp,
        FpCastOp, BitcastOp, IntToPtrOp, PtrToIntOp, LibmOp, AddPtrOp, LoadOp, StoreOp,
        AtomicRMWOp, AtomicCASOp, LoadViewOp, StoreViewOp, DotOp, ReduceOp, ScanOp, YieldOp,
        HistogramOp, HintOp, AssumeOp, BarrierOp, PrintOp, AssertOp,
    ],
    [PtrType],
)  # fmt: skip
