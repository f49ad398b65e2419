"""Values of the front end: distinguishing, comparing, joining where control flow merges.

A value is a `TensorValue` (known when the kernel runs), a tuple or list of values, or any other
Python object, which is known at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Block, SSAValue

from tilewright import dtypes
from tilewright.dtypes import like
from tilewright.errors import KernelTypeError
from tilewright.semantics.named import plain
from tilewright.semantics.promotion import literal_type
from tilewright.semantics.values import TensorValue, describe

if TYPE_CHECKING:
    from tilewright.frontend.frame import BuilderState

NUMBERS = (bool, int, float)


@dataclass(frozen=True)
class Leaf:
    """The place of a joined tensor in a template."""

    type: Any


@dataclass
class Joined:
    """Two values made to fit: a template with `Leaf`s, their types, and each side's handles."""

    template: Any
    types: list[Any]
    handles: tuple[list[SSAValue], list[SSAValue]]


def is_tensor(value: Any) -> bool:
    return isinstance(value, TensorValue)


def has_tensor(value: Any) -> bool:
    """Whether `value` is, or a tuple or list in it holds, something known only at run time."""
    if isinstance(value, tuple | list):
        return any(has_tensor(item) for item in value)
    return isinstance(value, TensorValue)


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are the same handle, or equal compile-time values of one type."""
    if a is b:
        return True
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        return (
            isinstance(a, TensorValue)
            and isinstance(b, TensorValue)
            and a.handle is b.handle
            and a.type == b.type
        )
    a, b = plain(a), plain(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return repr(a) == repr(b)  # tells 0.0 from -0.0, and NaN equals itself
    try:
        return bool(a == b)
    except Exception:  # a foreign object may refuse to be compared
        return False


def same_constants(a: Any, b: Any) -> bool:
    """Whether two values are the same to the compiler: equal compile-time values, and tensors of equal types."""
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        return a.type == b.type
    if isinstance(a, tuple | list) and type(a) is type(b):
        return len(a) == len(b) and all(same_constants(x, y) for x, y in zip(a, b, strict=True))
    return same_value(a, b)


def leaves(value: Any) -> Iterator[TensorValue]:
    """The tensors in `value`, in order."""
    if isinstance(value, TensorValue):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)


def map_tensors(function: Callable[[TensorValue], Any], value: Any) -> Any:
    """`value` with what `function` gives for each tensor in it."""
    if isinstance(value, TensorValue):
        return function(value)
    if isinstance(value, tuple | list):
        return like(value, [map_tensors(function, item) for item in value])
    return value


def rebuild(state: BuilderState, template: Any, handles: Iterator[SSAValue]) -> Any:
    """`template` with its `Leaf`s replaced by tensors of the next `handles`."""
    if isinstance(template, Leaf):
        return TensorValue(next(handles), template.type, state.semantics)
    if isinstance(template, tuple | list):
        return like(template, [rebuild(state, item, handles) for item in template])
    return template


def number_fits(value: Any, kind: Any) -> bool:
    """Whether the Python number `value` can take the tensor type `kind` without promoting it."""
    scalar = kind.scalar
    if scalar.is_ptr():
        return False
    if scalar.is_bool():
        return isinstance(value, bool)
    if scalar.is_int():
        if isinstance(value, float):
            return False
        width = scalar.primitive_bitwidth
        low, high = (
            (0, 2**width) if scalar.is_int_unsigned() else (-(2 ** (width - 1)), 2 ** (width - 1))
        )
        return low <= value < high
    return True


def constant(state: BuilderState, value: Any, kind: Any) -> TensorValue:
    """The Python number `value` as a tensor of language type `kind`, at the insertion point."""
    scalar = kind.scalar
    if scalar.is_ptr():
        zero = state.builder.constant(value, dtypes.int64)
        handle = state.builder.op("tile.int_to_ptr", [zero], scalar)
    else:
        handle = state.builder.constant(value, scalar)
    if kind.is_block():
        handle = state.builder.op("tile.splat", [handle], kind)
    return TensorValue(handle, kind, state.semantics)


def filler(state: BuilderState, value: Any) -> Any:
    """A value of `value`'s structure and types that is never read."""
    return map_tensors(lambda tensor: constant(state, 0, tensor.type), value)


def join_types(
    state: BuilderState,
    what: str,
    values: tuple[Any, Any],
    blocks: Sequence[Block],
    places: tuple[str, str],
) -> Joined:
    """Make two values of one structure and type, adding constants to the end of their `blocks`.

    Raises `KernelTypeError` that begins with `what` and calls the sides `places`.
    """
    joined = Joined(None, [], ([], []))
    joined.template = _join(state, what, values, blocks, places, joined)
    return joined


def _join(
    state: BuilderState,
    what: str,
    values: tuple[Any, Any],
    blocks: Sequence[Block],
    places: tuple[str, str],
    joined: Joined,
) -> Any:
    a, b = values
    if same_value(a, b):
        return a
    if isinstance(a, tuple | list) and type(a) is type(b) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return like(a, [_join(state, f"{what}[{i}]", p, blocks, places, joined) for i, p in pairs])
    kind = _common_type(a, b)
    if kind is None:
        raise KernelTypeError(
            f"{what}: {describe(a)} {places[0]}, {describe(b)} {places[1]}",
            help=_join_help(a, b),
        )
    for value, block, handles in zip(values, blocks, joined.handles, strict=True):
        with state.builder.block(block):
            if not isinstance(value, TensorValue):
                value = constant(state, value, kind)
            elif value.type != kind:
                value = state.semantics.convert(value, kind.scalar)
        handles.append(value.handle)
    joined.types.append(kind)
    return Leaf(kind)


def widened(a: Any, b: Any) -> Any:
    """float64 in the common shape of two floating types, one of which is float64; else None.

    Kernels that keep fp32 accumulators thus run on fp64 arrays in fp64; no other type changes
    by itself where control flow merges.
    """
    kinds = (a.scalar, b.scalar)
    floats = all(kind.is_floating() for kind in kinds)
    if floats and a.shape == b.shape and dtypes.float64 in kinds:
        return dtypes.float64.with_shape(a.shape)
    return None


def _common_type(a: Any, b: Any) -> Any:
    """The language type both values can have, or None."""
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        return a.type if a.type == b.type else widened(a.type, b.type)
    for tensor, number in ((a, b), (b, a)):
        if isinstance(tensor, TensorValue):
            fits = isinstance(number, NUMBERS) and number_fits(number, tensor.type)
            return tensor.type if fits else None
    if not (isinstance(a, NUMBERS) and isinstance(b, NUMBERS)):
        return None
    kinds = [literal_type(v) for v in (a, b)]
    for kind in (*kinds, dtypes.int64, dtypes.float32, dtypes.float64):
        if all(number_fits(v, kind) for v in (a, b)) and all(
            kind.primitive_bitwidth >= k.primitive_bitwidth for k in kinds
        ):
            return kind
    return None


def _join_help(a: Any, b: Any) -> str:
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        if a.type.scalar != b.type.scalar:
            return "convert one side with .to(...)"
        return "both sides need one shape; broadcast one of them"
    if a is None or b is None:
        return "give it a value of one type on every path"
    return "a runtime condition cannot choose between these; make the condition a tl.constexpr"
