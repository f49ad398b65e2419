"""Common to all parts of `Semantics`: making values, constants, broadcasting, argument checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import constexpr, unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.builder import Builder
from tilewright.semantics.named import NamedFloat, NamedInt, named, plain
from tilewright.semantics.promotion import fits_64_bits, literal_type
from tilewright.semantics.values import TensorValue, counter_type, describe, type_text


class SemanticsBase:
    """Holds the builder.

    `call(function, args)` runs a user's function (a `KernelFunction` or a `tl` name) on semantic
    values and returns its result: the front end inlines it, eager mode calls it. `call_on_lanes(function,
    args, shape)` gives a tuple of tiles of `shape` of what a function of scalars gives for each lane; without it
    the function is called for one lane after the other. `debug` keeps `device_assert`. `dot_precision` is what `tl.dot` means by default.
    """

    def __init__(
        self,
        builder: Builder,
        *,
        call: Callable[[Any, Sequence[Any]], Any] | None = None,
        call_on_lanes: Callable[[Any, Sequence[Any], tuple[int, ...]], tuple[Any, ...]]
        | None = None,
        debug: bool = False,
        dot_precision: str = "ieee",
        any_extents: bool = False,
    ) -> None:
        self.builder = builder
        self.debug = debug
        self.any_extents = any_extents
        self.dot_precision = dot_precision
        self._call = call
        self._call_on_lanes = call_on_lanes

    # ---- making values -------------------------------------------------------------------------

    def tensor(self, handle: Any, kind: Any) -> TensorValue:
        """A value of this semantics from a builder's handle."""
        return TensorValue(handle, kind, self)

    def emit(
        self, name: str, operands: Sequence[TensorValue | None], kind: Any, /, **attributes: Any
    ) -> TensorValue:
        """One operation with one result of type `kind`."""
        handles = [None if v is None else v.handle for v in operands]
        return TensorValue(self.builder.op(name, handles, kind, **attributes), kind, self)

    def constant(self, value: Any, kind: t.dtype) -> TensorValue:
        """A scalar constant of a scalar type."""
        return TensorValue(self.builder.constant(value, kind), kind, self)

    def counters(self, *bounds: Any) -> Iterator[TensorValue]:
        """The counters of a range in the interpreter, of the type that they have in compiled code."""
        kind = counter_type(bounds)
        if len(bounds) == 3 and int(bounds[2]) == 0:
            raise KernelTypeError("the step of a range must not be zero")
        for number in range(*bounds):
            yield self.constant(number, kind)

    def filled(self, value: Any, kind: Any) -> TensorValue:
        """A constant of a scalar or tile type (of numbers)."""
        return self.splat(self.constant(value, kind.scalar), kind.shape)

    def assigned(self, value: Any) -> Any:
        """The value of a name bound to `value`: an integer that int32 does not hold is a scalar of its literal
        type, as in Triton (`mask = ~(1 << 31)` is uint32 arithmetic); other numbers take part in promotion with theirs.
        """
        if type(value) is tuple:
            return tuple(map(self.assigned, value))
        number = named(unwrap_constexpr(value))
        if isinstance(number, NamedInt) and not -(1 << 31) <= number < 1 << 31:
            return (
                self.constant(plain(number), literal_type(number))
                if fits_64_bits(number)
                else value
            )
        if isinstance(number, NamedInt | NamedFloat):
            return constexpr(number) if isinstance(value, constexpr) else number
        return value

    def to_tensor(self, value: Any) -> TensorValue:
        value = unwrap_constexpr(value)
        if isinstance(value, TensorValue):
            return value
        if isinstance(value, bool | int | float):
            return self.constant(value, literal_type(value))
        raise KernelTypeError(
            f"a number or a tensor was expected, got {describe(value)}",
            help="pass a tensor, a Python number or a tl.constexpr",
        )

    def call_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Run a user's function on semantic values."""
        name = getattr(function, "__tl_builtin__", None)
        if name is not None:
            return getattr(self, name)(*args)
        if self._call is not None:
            return self._call(function, args)
        return getattr(function, "fn", function)(*args)

    # ---- shapes --------------------------------------------------------------------------------

    def splat(self, x: TensorValue, shape: Sequence[int]) -> TensorValue:
        """A tile of a scalar; the scalar itself for `()`."""
        if not len(shape):
            return x
        return self.emit("tile.splat", [x], x.type.scalar.with_shape(tuple(shape)))

    def expand_rank(self, x: TensorValue, rank: int) -> TensorValue:
        """Leading extents of 1 until `x` has `rank` dimensions."""
        while x.ndim < rank:
            x = self.emit("tile.expand_dims", [x], x.type.with_shape((1, *x.shape)), axis=0)
        return x

    def broadcast_shape(
        self, x: TensorValue, shape: Sequence[int], what: str = "a value"
    ) -> TensorValue:
        """`x` repeated to exactly `shape`. `what` names it in errors."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if not x.shape:
            return self.splat(x, shape)
        fits = x.ndim <= len(shape) and all(
            a in (1, b) for a, b in zip(x.shape[::-1], shape[::-1], strict=False)
        )
        if not fits:
            help = "extents must be equal or 1, counted from the last dimension"
            if x.ndim == 1 and len(shape) == 2 and x.shape[0] == shape[0]:
                help += "; x[:, None] makes a column of it"
            raise KernelTypeError(
                f"{what} of shape {list(x.shape)} ({type_text(x.type)}) does not broadcast to"
                f" {list(shape)}",
                help=help,
            )
        x = self.expand_rank(x, len(shape))
        if x.shape == shape:
            return x
        return self.emit("tile.broadcast", [x], x.type.with_shape(shape))

    def broadcast_same_rank(
        self, x: TensorValue, shape: Sequence[int], what: str = "a value"
    ) -> TensorValue:
        """`broadcast_shape` of a scalar or of a tile that has as many dimensions as `shape`: what is stored must not
        repeat along dimensions that its shape does not show."""
        if x.shape and x.ndim != len(shape):
            raise KernelTypeError(
                f"{what}: Cannot broadcast, rank mismatch: {list(x.shape)}, {list(shape)}",
                help="insert dimensions of extent 1: x[None, :] makes a row of it, x[:, None] a column",
            )
        return self.broadcast_shape(x, shape, what)

    def common_shape(
        self, values: Sequence[TensorValue], what: str, shown: Sequence[Any] | None = None
    ) -> tuple[int, ...]:
        """The shape that all `values` broadcast to. Raises KernelTypeError naming them.

        `shown` are the user's operands when `values` have been converted.
        """
        rank = max((v.ndim for v in values), default=0)
        shape = [1] * rank
        for value in values:
            for position, extent in enumerate(value.shape, rank - value.ndim):
                if shape[position] == 1:
                    shape[position] = extent
                elif extent not in (1, shape[position]):
                    kinds = " and ".join(describe(v) for v in shown or values)
                    raise KernelTypeError(
                        f"shapes do not fit in {what}: {kinds} (dimension {position}:"
                        f" {shape[position]} and {extent})",
                        help="index with [:, None] or [None, :] so that extents are equal or 1",
                    )
        return tuple(shape)

    def broadcast_all(
        self, values: Sequence[TensorValue], what: str, shown: Sequence[Any] | None = None
    ) -> list[TensorValue]:
        """All `values` in their common shape."""
        shape = self.common_shape(values, what, shown)
        return [self.broadcast_shape(v, shape) for v in values]

    # ---- checking arguments --------------------------------------------------------------------

    def known_int(self, value: Any, what: str) -> int:
        """A Python int known at compile time. `what` names it in errors."""
        value = unwrap_constexpr(value)
        if isinstance(value, TensorValue):
            raise KernelTypeError(
                f"{what} must be known at compile time, but is a runtime {type_text(value.type)}",
                help="make it a tl.constexpr parameter of the kernel",
            )
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise KernelTypeError(f"{what} must be an int, got {describe(value)}")
        return value.__index__()

    def known_ints(self, values: Any, what: str) -> tuple[int, ...]:
        """A tuple of Python ints from a sequence or a single int."""
        values = unwrap_constexpr(values)
        if isinstance(values, tuple | list):
            return tuple(self.known_int(v, f"{what}[{i}]") for i, v in enumerate(values))
        return (self.known_int(values, what),)

    def known_bool(self, value: Any, what: str) -> bool:
        """A Python bool known at compile time."""
        value = unwrap_constexpr(value)
        if isinstance(value, TensorValue):
            raise KernelTypeError(
                f"{what} must be known at compile time, but is a runtime {type_text(value.type)}"
            )
        return bool(value)

    def known_text(self, value: Any, what: str, allowed: Sequence[str] = ()) -> str:
        """A string known at compile time, one of `allowed` if given; None counts as ""."""
        value = unwrap_constexpr(value)
        value = "" if value is None else value
        if not isinstance(value, str):
            raise KernelTypeError(f"{what} must be a string, got {describe(value)}")
        if allowed and value not in allowed:
            options = ", ".join(repr(a) for a in allowed)
            raise KernelTypeError(
                f"{what} {value!r} is not supported", help=f"use one of {options}"
            )
        return value

    def known_dtype(self, value: Any, what: str = "dtype") -> Any:
        """A scalar or pointer type."""
        value = unwrap_constexpr(value)
        if isinstance(value, t.block_type):
            value = value.scalar
        if not isinstance(value, t.dtype | t.pointer_type):
            raise KernelTypeError(
                f"{what} must be a type such as tl.float32, got {describe(value)}",
                help=_type_meant(value),
            )
        self.check_supported(value)
        return value

    def check_supported(self, kind: Any, what: str = "the type") -> None:
        """Reject the 8-bit floats of other chips, and pointers to them. `what` precedes the type."""
        scalar = kind.scalar
        element = scalar.element_ty if scalar.is_ptr() else scalar
        if element in t.FOREIGN:
            raise KernelTypeError(
                f"{what} {type_text(kind)} is not supported in this architecture",
                help="the 8-bit floats are tl.float8e4nv (e4m3fn) and tl.float8e5 (e5m2)",
            )

    def shape_argument(self, shape: Any, what: str) -> tuple[int, ...]:
        """A checked tile shape: positive constant extents, each a power of two unless `any_extents`."""
        extents = self.known_ints(shape, f"{what}: shape")
        for place, extent in enumerate(extents):
            if extent <= 0:
                raise KernelTypeError(
                    f"{what}: extent {extent} of shape {list(extents)} is not positive"
                )
            if extent & (extent - 1) and not self.any_extents:
                raise KernelTypeError(
                    f"{what}: Shape element {place} must be a power of 2, but is {extent}",
                    help="round it up with triton.next_power_of_2 and mask the rest",
                )
        return extents

    def dimension(self, axis: Any, rank: int, what: str) -> int:
        """`axis` in 0 … rank-1, negative ones counted from the end."""
        number = self.known_int(axis, f"{what}: axis")
        if not -rank <= number < rank:
            raise KernelTypeError(
                f"{what}: invalid axis {number}, out of range for a value with {rank} dimensions",
                help=f"axes are {-rank} to {rank - 1}" if rank else "a scalar has no axes",
            )
        return number % rank

    def tile_argument(self, x: Any, what: str) -> TensorValue:
        """A tile (not a scalar)."""
        x = self.to_tensor(x)
        if not x.shape:
            raise KernelTypeError(f"{what} needs a tile, got the scalar {type_text(x.type)}")
        return x


def _type_meant(value: Any) -> str:
    """The language's spelling for a type of torch or NumPy, or for the name of one, as help; "" if unknown."""
    text = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    for parse in (t.from_array_name, t.from_short_name):
        try:
            found = parse(text)
        except (KeyError, IndexError):
            continue
        if isinstance(found, t.dtype):
            return f"write tl.{found.in_language}"
    return ""
