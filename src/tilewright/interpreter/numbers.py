"""Integer and floating arithmetic, comparisons and casts of scalars and tiles.

Integers wrap; division by zero and shifts too wide give an unspecified number and never stop. Floats
narrower than fp32 are computed in fp32 and rounded after each operation, as machines do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.memory import PointerValue
from tilewright.interpreter.registry import Attributes, Kinds, implements


def unsigned(value: Any) -> np.ndarray:
    """The bits of a signed integer as an unsigned one."""
    array = np.asarray(value)
    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    return array.view(np.dtype(f"u{array.dtype.name}")) if array.dtype.kind == "i" else array


def is_narrow(array: Any) -> bool:
    """Whether arithmetic on the type is done in fp32."""
    kind = np.asarray(array).dtype
    return kind.itemsize < 4 and kind.kind not in "iub"


def wide(value: Any) -> np.ndarray:
    """A narrow float as fp32; anything else unchanged."""
    array = np.asarray(value)
    return array.astype(np.float32) if is_narrow(array) else array


_LARGEST = {
    np.dtype(kind): float(ml_dtypes.finfo(kind).max)
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
}


def converted(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    """`array` in a type, rounded to nearest. 8-bit floats saturate: larger values and infinities become the largest."""
    largest = _LARGEST.get(kind)
    if largest is not None and array.dtype != kind:
        array = np.clip(wide(array), -largest, largest)
    return array.astype(kind, copy=False)


def result(kinds: Kinds, value: Any) -> list[Any]:
    """`value` in the type of the first result."""
    return [converted(np.asarray(value), numpy_dtype(kinds[0]))[()]]


def _elementwise(
    name: str, function: Callable[..., Any], view: Callable[[Any], np.ndarray] = np.asarray
) -> None:
    """`name` means `function` of the operands as `view` shows them."""

    def meaning(ctx: Any, attributes: Attributes, kinds: Kinds, *values: Any) -> Any:
        with np.errstate(all="ignore"):
            return result(kinds, function(*map(view, values)))

    implements(name)(meaning)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Truncating quotient; an unspecified number where b is 0."""
    safe = np.where(b == 0, np.asarray(1, b.dtype), b)
    quotient = a // safe
    inexact = a - quotient * safe != 0
    return np.where(inexact & ((a < 0) != (safe < 0)), quotient + np.asarray(1, a.dtype), quotient)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    safe = np.where(b == 0, np.asarray(1, b.dtype), b)
    return a - _divide(a, safe) * safe


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    def meaning(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        width = a.dtype.itemsize * 8
        return function(a, (b & np.asarray(width - 1, b.dtype)).astype(a.dtype))

    return meaning


def _wrap_bool(function: Callable[..., Any]) -> Callable[..., Any]:
    """Arithmetic modulo 2 for i1."""

    def meaning(*values: np.ndarray) -> np.ndarray:
        if values[0].dtype != np.bool_:
            return function(*values)
        numbers = function(*(v.astype(np.int8) for v in values))
        return (numbers & 1).astype(bool)

    return meaning


_elementwise("arith.addi", _wrap_bool(np.add))
_elementwise("arith.subi", _wrap_bool(np.subtract))
_elementwise("arith.muli", _wrap_bool(np.multiply))
_elementwise("arith.divsi", _wrap_bool(_divide))
_elementwise("arith.remsi", _wrap_bool(_remainder))
_elementwise("arith.divui", lambda a, b: a // np.where(b == 0, 1, b).astype(b.dtype), unsigned)
_elementwise("arith.remui", lambda a, b: a % np.where(b == 0, 1, b).astype(b.dtype), unsigned)
_elementwise("arith.andi", np.bitwise_and)
_elementwise("arith.ori", np.bitwise_or)
_elementwise("arith.xori", np.bitwise_xor)
_elementwise("arith.shli", _shift(np.left_shift))
_elementwise("arith.shrsi", _shift(np.right_shift))
_elementwise("arith.shrui", _shift(np.right_shift), unsigned)
_elementwise("arith.minsi", np.minimum)
_elementwise("arith.maxsi", np.maximum)
_elementwise("arith.minui", np.minimum, unsigned)
_elementwise("arith.maxui", np.maximum, unsigned)
_elementwise("arith.addf", np.add, wide)
_elementwise("arith.subf", np.subtract, wide)
_elementwise("arith.mulf", np.multiply, wide)
_elementwise("arith.divf", np.divide, wide)
_elementwise("arith.negf", np.negative, wide)
_elementwise("arith.maximumf", np.maximum, wide)
_elementwise("arith.minimumf", np.minimum, wide)
_elementwise("arith.maxnumf", np.fmax, wide)
_elementwise("arith.minnumf", np.fmin, wide)
_elementwise("tile.remf", np.fmod, wide)


@implements("tile.umulhi")
def _high_product(ctx: Any, attributes: Any, kinds: Kinds, a: Any, b: Any) -> Any:
    x, y = unsigned(a), unsigned(b)
    bits = x.dtype.itemsize * 8
    product = x.astype(object) * y.astype(object)
    high = np.asarray(product, object) >> bits if np.ndim(product) else int(product) >> bits
    return [np.asarray(high).astype(x.dtype).view(np.dtype(f"int{bits}"))[()]]


@implements("arith.constant")
def _constant(ctx: Any, attributes: Attributes, kinds: Kinds) -> Any:
    kind = numpy_dtype(kinds[0])
    value = attributes["value"]
    if kind.kind == "i":
        bits = kind.itemsize * 8
        value = (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        return [kind.type(value)]
    with np.errstate(all="ignore"):
        if kind == np.bool_:
            return [np.bool_(int(value) & 1)]
        return [converted(np.asarray(value, np.float64), kind)[()]]


# ---- comparisons and selects ------------------------------------------------------------------------

_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _addresses(value: Any) -> np.ndarray:
    return value.addresses if isinstance(value, PointerValue) else np.asarray(value)


@implements("tile.cmpi")
def _compare_integers(ctx: Any, attributes: Attributes, kinds: Kinds, a: Any, b: Any) -> Any:
    predicate = attributes["predicate"]
    x, y = _addresses(a), _addresses(b)
    if predicate in ("eq", "ne"):
        return [_COMPARE[predicate](x, y)[()]]
    if predicate[0] == "u":
        x, y = unsigned(x), unsigned(y)
    elif x.dtype == np.bool_:
        x, y = -x.astype(np.int8), -y.astype(np.int8)  # i1 true is -1 when signed
    return [_COMPARE[predicate[1:]](x, y)[()]]


@implements("tile.cmpf")
def _compare_floats(ctx: Any, attributes: Attributes, kinds: Kinds, a: Any, b: Any) -> Any:
    predicate = attributes["predicate"]
    x, y = wide(a), wide(b)
    unordered = np.isnan(x) | np.isnan(y)
    if predicate == "uno":
        return [unordered[()]]
    if predicate == "ord":
        return [(~unordered)[()]]
    value = _COMPARE[predicate[1:]](x, y)
    return [(value & ~unordered if predicate[0] == "o" else value | unordered)[()]]


@implements("tile.select")
def _select(ctx: Any, attributes: Any, kinds: Kinds, condition: Any, a: Any, b: Any) -> Any:
    if isinstance(a, PointerValue) or isinstance(b, PointerValue):
        return [PointerValue.combine(lambda x, y: np.where(condition, x, y), [a, b])]
    return [np.where(condition, a, b).astype(np.asarray(a).dtype, copy=False)[()]]


# ---- casts ------------------------------------------------------------------------------------------


@implements("arith.extsi", "arith.trunci")
def _resize(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    kind, array = numpy_dtype(kinds[0]), np.asarray(value)
    if kind == np.bool_:
        return [(array & 1).astype(bool)[()]]
    if array.dtype == np.bool_:
        return [(-array.astype(np.int8)).astype(kind)[()]]
    return [array.astype(kind)[()]]


@implements("arith.extui")
def _extend_unsigned(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    return [unsigned(value).astype(numpy_dtype(kinds[0]))[()]]


@implements("arith.sitofp")
def _from_signed(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    array = np.asarray(value)
    array = -array.astype(np.int8) if array.dtype == np.bool_ else array
    return [_round(array, numpy_dtype(kinds[0]))[()]]


@implements("arith.uitofp")
def _from_unsigned(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    return [_round(unsigned(value), numpy_dtype(kinds[0]))[()]]


def _round(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Integers to floats, rounded once."""
    with np.errstate(all="ignore"):
        if kind.itemsize >= 4:
            return array.astype(kind)
        if array.dtype.itemsize == 8:  # fp64 drops bits of large ones: one stands for the lowest 12
            high = array & ~array.dtype.type(0xFFF)
            sticky = high | ((array != high).astype(array.dtype) << array.dtype.type(11))
            large = np.abs(array.astype(np.float64)) > 2.0**53
            array = np.where(large, sticky, array)
        return to_narrow(array.astype(np.float64), kind)


@implements("arith.fptosi", "arith.fptoui")
def _to_integer(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    array, kind = wide(value).astype(np.float64), numpy_dtype(kinds[0])
    with np.errstate(all="ignore"):
        safe = np.where(np.isfinite(array), np.trunc(array), 0.0)
        if kind == np.bool_:
            return [(safe != 0)[()]]
        big = safe >= 2.0**63
        whole = np.where(big, safe - 2.0**64, safe).astype(np.int64)
        return [whole.astype(kind)[()]]


def to_narrow(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    """fp64 rounded once to a type of less than 32 bits: through fp32 rounded to odd."""
    single = array.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.int32).copy() if single.ndim else np.asarray(single).view(np.int32)
    grew = np.abs(back) > np.abs(array)
    inexact = (back != array) & ~np.isnan(array)
    odd = ((bits - grew.astype(np.int32)) | inexact.astype(np.int32)).view(np.float32)
    return converted(np.where(np.isinf(array) | np.isnan(array), single, odd), kind)


@implements("arith.extf", "arith.truncf")
def _resize_float(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    array, kind = np.asarray(value), numpy_dtype(kinds[0])
    with np.errstate(all="ignore"):
        if array.dtype == np.float64 and kind.itemsize < 4:
            return [to_narrow(array, kind)[()]]
        return [converted(wide(array), kind)[()]]


@implements("tile.fp_cast")
def _cast_rounding(ctx: Any, attributes: Attributes, kinds: Kinds, value: Any) -> Any:
    (near,) = _resize_float(ctx, {}, kinds, value)
    if attributes["rounding"] != "rtz":
        return [near]
    near = np.asarray(near)
    with np.errstate(all="ignore"):
        back, size = (np.abs(wide(v).astype(np.float64)) for v in (near, value))
        grew = back > size
    bits = near.view(np.dtype(f"int{near.dtype.itemsize * 8}"))
    return [(bits - grew.astype(bits.dtype)).view(near.dtype)[()]]


@implements("tile.bitcast")
def _bitcast(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    if isinstance(value, PointerValue):
        return [value]
    array, kind = np.asarray(value), numpy_dtype(kinds[0])
    if np.bool_ in (array.dtype, kind):
        return [array.astype(kind)[()]]
    return [array.view(kind)[()]]


@implements("tile.int_to_ptr")
def _to_pointer(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    return [ctx.memory.pointer(np.asarray(value).astype(np.int64))]


@implements("tile.ptr_to_int")
def _to_address(ctx: Any, attributes: Any, kinds: Kinds, value: PointerValue) -> Any:
    return [value.addresses.astype(numpy_dtype(kinds[0]))[()]]


@implements(
    "tile.hint", "tile.optimization_barrier", "gpu.convert_layout", "gpu.split_over_lanes", "gpu.sum_over_lanes"
)  # fmt: skip
def _hint(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    return [value]
