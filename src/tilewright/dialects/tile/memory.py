"""Loads, stores and atomics: through tiles of pointers, and structured ones (`*_view`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import *
from tilewright.dialects.tile.layout_verification import verify_compatible


@operation
class AddPtrOp(Op):
    """Pointer plus a signed i32 or i64 count of elements; both scalars or tiles of one shape."""

    name = "tile.addptr"
    pointer = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))

    def verify_(self) -> None:
        require(self.pointer.type == self.result.type, "tile.addptr: pointer type changes")
        same_lanes(self, self.pointer, self.offset)
        require(
            isinstance(scalar_of(self.offset), IntegerType),
            "tile.addptr: the offset is not an integer",
        )


@operation
class LoadOp(SegmentedOp):
    """Read through a pointer or a tile of pointers.

    Lanes whose `mask` is false touch no memory and give `other` (0 without it).
    """

    pointer = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    volatile = opt_prop_def(BoolAttr)
    result = result_def()
    assembly_format = (
        "$pointer (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))? attr-dict"
        " `:` type($pointer) `to` type($result)"
    )

    def verify_(self) -> None:
        same_lanes(self, self.pointer, self.result, self.mask, self.other)
        _through_pointer(self, self.pointer, self.result)
        require_element(self, self.mask, i1, "the mask")
        require_element(self, self.other, scalar_of(self.result), "other")


@operation
class StoreOp(Op):
    """Write through a pointer or a tile of pointers; masked-off lanes touch no memory."""

    pointer = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    cache = opt_prop_def(StringAttr)
    eviction = opt_prop_def(StringAttr)
    assembly_format = "$pointer `,` $value (`mask` $mask^ `:` type($mask))? attr-dict `:` type($pointer) `,` type($value)"

    def verify_(self) -> None:
        same_lanes(self, self.pointer, self.value, self.mask)
        _through_pointer(self, self.pointer, self.value)
        require_element(self, self.mask, i1, "the mask")


EXCLUSIVE = "exclusive"
"""The `sem` of atomic operations on memory that no other thread accesses during the launch, which runs on one thread."""


RMW_OPERATIONS = {
    "add": "arith.addi", "fadd": "arith.addf", "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori",
    "max": "arith.maxsi", "min": "arith.minsi", "umax": "arith.maxui", "umin": "arith.minui",
    "fmax": "arith.maxnumf", "fmin": "arith.minnumf",
}  # fmt: skip
"""What each kind of atomic read-modify-write computes; "xchg" computes nothing."""


@operation
class AtomicRMWOp(Op):
    """Atomic read-modify-write; gives the old value (unspecified in masked-off lanes).

    `kind`: add fadd and or xor xchg max min umax umin fmax fmin. `sem`: "relaxed", "acquire", "release", "acq_rel", or
    "exclusive" (`EXCLUSIVE`, CPUs only).
    """

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
    KINDS: ClassVar = (*RMW_OPERATIONS, "xchg")

    def verify_(self) -> None:
        require(self.kind.data in self.KINDS, f"tile.atomic_rmw: {self.kind.data}")
        same_lanes(self, self.pointer, self.value, self.mask, self.result)
        _through_pointer(self, self.pointer, self.value)
        require_element(self, self.mask, i1, "the mask")
        require(self.value.type == self.result.type, "tile.atomic_rmw: result type")
        floats = self.kind.data.startswith("f") or self.kind.data == "xchg"
        integer = isinstance(scalar_of(self.value), IntegerType)
        require(floats or integer, f"tile.atomic_rmw: {self.kind.data} of {self.value.type}")


@operation
class AtomicCASOp(Op):
    """Atomic compare-and-swap; gives the old value."""

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

    def verify_(self) -> None:
        same_lanes(self, self.pointer, self.compare, self.value, self.result)
        _through_pointer(self, self.pointer, self.value)
        kinds = {v.type for v in (self.compare, self.value, self.result)}
        require(len(kinds) == 1, "tile.atomic_cas: value types differ")


@operation
class LoadViewOp(SegmentedOp):
    """A structured load (made by `raise-access`): addresses are sums of one term per dimension.

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
    assembly_format = (
        "$base $kinds `strides` `(` $strides `)` (`starts` `(` $starts^ `)`)? (`sizes` `(` $sizes^ `)`)?"
        " (`indices` `(` $indices^ `:` type($indices) `)`)? (`limits` `(` $limits^ `)`)? (`mask` $mask^ `:` type($mask))?"
        " (`other` $other^ `:` type($other))? attr-dict `:` type($base) `to` type($result)"
    )

    def verify_(self) -> None:
        _verify_tile_view(self, self.result)
        require_element(self, self.other, scalar_of(self.result), "other")
        if self.other is not None and isinstance(self.other.type, TensorType):
            same_lanes(self, self.result, self.other)


@operation
class StoreViewOp(SegmentedOp):
    """A structured store; the address and mask operands are those of `tile.load_view`."""

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
    assembly_format = (
        "$value `,` $base $kinds `strides` `(` $strides `)` (`starts` `(` $starts^ `)`)? (`sizes` `(` $sizes^ `)`)?"
        " (`indices` `(` $indices^ `:` type($indices) `)`)? (`limits` `(` $limits^ `)`)? (`mask` $mask^ `:` type($mask))?"
        " attr-dict `:` type($value) `,` type($base)"
    )

    def verify_(self) -> None:
        _verify_tile_view(self, self.value)


Load = LoadOp | LoadViewOp
Store = StoreOp | StoreViewOp
Atomic = AtomicRMWOp | AtomicCASOp
View = LoadViewOp | StoreViewOp
"""Structured accesses."""
_Access = TypeVar("_Access", bound=Operation)


def make_view(
    kind: type[_Access],
    places: Sequence[Sequence[SSAValue]],
    properties: Mapping[str, Attribute | None],
    result_types: Sequence[Attribute] = (),
) -> _Access:
    """A structured access from its groups of operands, in order (a third of the time of its class)."""
    segments = DenseArrayBase.from_list(i32, [len(group) for group in places])
    given = {name: value for name, value in properties.items() if value is not None}
    return kind.create(
        operands=[value for group in places for value in group],
        properties={**given, "operandSegmentSizes": segments},
        result_types=result_types,
    )


def pointer_of(op: Any) -> SSAValue:
    """The pointer, or pointers, of a load, store, atomic operation or copy."""
    return op.base if hasattr(op, "base") else op.pointer


def accessed(op: Any) -> SSAValue:
    """The value that a load gives or a store takes."""
    return op.results[0] if op.results else op.value


def view_kinds(op: Any) -> tuple[str, ...]:
    """The kind of each dimension of a structured access (of any dialect)."""
    return tuple(k.data for k in op.kinds)


def view_limits(op: Any) -> dict[int, SSAValue]:
    """Dimension -> lane limit, for the limited dimensions."""
    return dict(zip(ints(op.limited), op.limits, strict=True))


def with_limits(view: View, limits: Mapping[int, SSAValue]) -> View:
    """A structured access like `view`, in no block yet, with these lane limits by dimension."""
    last = view.other if isinstance(view, LoadViewOp) else view.value
    places = [
        [view.base], view.strides, view.starts, view.sizes, view.indices,
        [limits[d] for d in sorted(limits)],
        [] if view.mask is None else [view.mask], [] if last is None else [last],
    ]  # fmt: skip
    properties = {**view.properties, "limited": DenseArrayBase.from_list(i64, sorted(limits))}
    new = make_view(type(view), places, properties, [r.type for r in view.results])
    new.attributes.update(view.attributes)
    return new


def _through_pointer(op: Operation, pointer: SSAValue, value: SSAValue) -> None:
    kind = scalar_of(pointer)
    require(
        isinstance(kind, PtrType) and kind.pointee == scalar_of(value),
        f"{op.name}: {value.type} through {pointer.type}",
    )


ROW_ALIGNMENT = "tile.row_alignment"
"""Attribute of a view: for each dimension, bytes of which the address of the first element of every row along it is
promised to be a multiple (`tl.multiple_of` on pointers)."""
_KINDS = ("strided", "wrapped", "indexed")


def verify_view(op: Any, shape: tuple[int, ...]) -> None:
    """Verify a structured access of any dialect: an entry for each dimension that needs one."""
    kinds = view_kinds(op)
    require(len(kinds) == len(shape) == len(op.strides), f"{op.name}: one kind and stride a dim")
    require(all(k in _KINDS for k in kinds), f"{op.name}: kinds are {', '.join(_KINDS)}")
    wrapped = sum(k == "wrapped" for k in kinds)
    require(len(op.starts) == len(op.sizes) == wrapped, f"{op.name}: starts/sizes of wrapped dims")
    limited = ints(op.limited)
    require(len(op.limits) == len(limited), f"{op.name}: limits")
    distinct = len(set(limited)) == len(limited)
    require(distinct and all(0 <= d < len(shape) for d in limited), f"{op.name}: limited dims")


def verify_indices(op: Any, shape: tuple[int, ...]) -> dict[int, SSAValue]:
    """Indexed dimension -> its index tile: there is one for each."""
    indexed = [d for d, k in enumerate(view_kinds(op)) if k == "indexed"]
    require(
        [shape_of(v) for v in op.indices] == [(shape[d],) for d in indexed],
        f"{op.name}: one index tile an indexed dim",
    )
    for line in op.indices:
        require_element(op, line, i64, "an index tile")
    return dict(zip(indexed, op.indices, strict=True))


def _verify_tile_view(op: LoadViewOp | StoreViewOp, value: SSAValue) -> None:
    shape = shape_of(value)
    verify_view(op, shape)
    for d, line in verify_indices(op, shape).items():
        verify_compatible(op, value, line, ("in", (d,)))
    base = cast(PtrType, op.base.type)
    require(base.pointee == scalar_of(value), f"{op.name}: {value.type} through {base}")
    same_lanes(op, value, op.mask)
    require_element(op, op.mask, i1, "the mask")
