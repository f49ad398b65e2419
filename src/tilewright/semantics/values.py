"""`TensorValue`: a scalar, pointer or tile of a kernel, and its Python operators.

The operators dispatch to the `Semantics` that made the value, which is what lets eager mode run a
kernel's Python as it stands. The front end calls `Semantics` itself.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.errors import KernelNameError, KernelTypeError
from tilewright.semantics.promotion import literal_type

#: operators by how Python writes them: their meaning for operands known at compile time
PYTHON_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "<<": operator.lshift,
    ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "@": operator.matmul,
}  # fmt: skip
PYTHON_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip
#: operators of the syntax tree, as Python writes them
SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.MatMult: "@", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
#: operators that kernels may call by the name of the method: `x.__lshift__(4)`
OPERATOR_METHODS = frozenset({
    "__add__", "__and__", "__eq__", "__floordiv__", "__ge__", "__getitem__", "__gt__", "__invert__", "__le__",
    "__lshift__", "__lt__", "__mod__", "__mul__", "__ne__", "__neg__", "__not__", "__or__", "__pow__", "__radd__",
    "__rand__", "__req__", "__rfloordiv__", "__rge__", "__rgt__", "__rle__", "__rlshift__", "__rlt__", "__rmod__",
    "__rmul__", "__rne__", "__ror__", "__rpow__", "__rrshift__", "__rshift__", "__rsub__", "__rtruediv__", "__rxor__",
    "__sub__", "__truediv__", "__xor__",
})  # fmt: skip


def type_text(kind: Any) -> str:
    """A language type as messages show it: `fp32`, `pointer<fp16>`, `fp32[16, 32]`."""
    if isinstance(kind, dtypes.block_type):
        return f"{kind.scalar}[{', '.join(map(str, kind.shape))}]"
    return str(kind)


def describe(value: Any) -> str:
    """`value` in messages: its type, or the constant itself."""
    value = dtypes.unwrap_constexpr(value)
    if isinstance(value, TensorValue):
        return type_text(value.type)
    if value is None:
        return "None"
    if isinstance(value, bool | int | float):
        return f"the constant {value!r}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} ({', '.join(describe(item) for item in value)})"
    if isinstance(value, dtypes.dtype | dtypes.pointer_type | dtypes.block_type):
        return f"the type {type_text(value)}"
    return f"{value!r} (a {type(value).__name__})"


def evaluate(text: str, function: Callable[..., Any], *values: Any) -> Any:
    """Evaluate an operation of Python on values known at compile time. Raises KernelTypeError, with `text`, where Python raises."""
    try:
        return function(*values)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise KernelTypeError(f"`{text}` raised {type(error).__name__}: {error}") from error


def _operator(symbol: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._semantics().binary(symbol, self, other)


def _reflected(symbol: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._semantics().binary(symbol, other, self)


def _unary(symbol: str) -> Callable[[Any], Any]:
    return lambda self: self._semantics().unary(symbol, self)


def counter_type(bounds: Sequence[Any], help: str = "") -> dtypes.dtype:
    """The type of the counter of a range with these bounds: start, stop and step, or stop alone.

    Raises `KernelTypeError` if one is not an integer scalar.
    """
    wide = False
    names = ("start", "stop", "step") if len(bounds) > 1 else ("stop",)
    for value, what in zip(map(dtypes.unwrap_constexpr, bounds), names, strict=False):
        kind = value.type if isinstance(value, TensorValue) else None
        if isinstance(value, int):
            kind = literal_type(int(value))
        if kind is None or kind.is_block() or not kind.is_int():
            raise KernelTypeError(
                f"the {what} of a range must be an integer scalar, not {describe(value)}", help=help
            )
        wide |= kind.primitive_bitwidth > 32 or kind == dtypes.uint32
    return dtypes.int64 if wide else dtypes.int32


class TensorValue:
    """`handle` (opaque; belongs to a builder) of language type `type`.

    `semantics` is who made it, or None when operators are not needed.
    """

    __slots__ = ("handle", "semantics", "type")
    __tl_tensor__ = True
    __iter__ = None  # else Python would unpack a tile by subscripts
    __array_ufunc__ = None  # NumPy leaves `array + tile` to the tile's operators

    def __init__(self, handle: Any, type: Any, semantics: Any = None) -> None:
        self.handle = handle
        self.type = type
        self.semantics = semantics

    @property
    def dtype(self) -> Any:
        """Element type: a `dtype` or a `pointer_type`."""
        return self.type.scalar

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; `()` for a scalar."""
        return self.type.shape

    @property
    def numel(self) -> int:
        """Number of elements; 1 for a scalar."""
        count = 1
        for extent in self.type.shape:
            count *= extent
        return count

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.type.shape)

    @property
    def T(self) -> Any:
        """The transpose of a two-dimensional tile."""
        return self._semantics().trans(self)

    def _semantics(self) -> Any:
        if self.semantics is None:
            raise KernelTypeError(
                f"a value of type {type_text(self.type)} was used outside the kernel that made it"
            )
        return self.semantics

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in TensorValue.__slots__:
            raise AttributeError(name)
        try:
            return self._semantics().attribute(self, name)
        except KernelNameError as error:  # what Python's own getattr and hasattr expect
            raise AttributeError(str(error)) from None

    def __repr__(self) -> str:
        concrete = getattr(getattr(self.semantics, "builder", None), "concrete", None)
        if concrete is None:
            return f"<{type_text(self.type)}>"
        text = str(self._with_sign(concrete(self.handle)))
        return f"<{type_text(self.type)}{chr(10) if chr(10) in text else ' '}{text}>"

    def _with_sign(self, value: Any) -> Any:
        """A concrete value, whose integers are always signed, as this value's type reads it."""
        kind = self.type.scalar
        if not kind.is_int_unsigned() or kind.is_bool():
            return value
        if hasattr(value, "view"):
            return value.view(f"u{value.dtype.itemsize}")
        return value % (1 << kind.primitive_bitwidth)

    def numpy(self) -> Any:
        """The values as an array of their own, where the kernel runs as Python."""
        concrete = getattr(getattr(self.semantics, "builder", None), "concrete", None)
        if concrete is None:
            raise KernelTypeError(
                "numpy() works only where kernels run as Python", help="set TILEWRIGHT_INTERPRET=1"
            )
        value = concrete(self.handle)
        return self._with_sign(value.copy() if hasattr(value, "copy") else value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """`np.asarray(x)`, where the kernel runs as Python: see `numpy`."""
        return np.asarray(self.numpy(), dtype)

    def _concrete(self, what: str) -> Any:
        concrete = getattr(getattr(self.semantics, "builder", None), "concrete", None)
        if concrete is None:
            raise KernelTypeError(
                f"{what} needs a value known at compile time, but this {type_text(self.type)} is"
                " known only when the kernel runs",
                help="make it a tl.constexpr parameter",
            )
        if self.shape:
            raise KernelTypeError(
                f"{what} needs a scalar, but this is {type_text(self.type)}",
                help="reduce it first, e.g. tl.max(x)",
            )
        decides = getattr(self.semantics.builder, "decides", None)
        if decides is not None:
            decides(self.handle)
        return self._with_sign(concrete(self.handle))

    def __bool__(self) -> bool:
        return bool(self._concrete("a truth test"))

    def __int__(self) -> int:
        return int(self._concrete("int()"))

    def __float__(self) -> float:
        return float(self._concrete("float()"))

    def __index__(self) -> int:
        if not self.type.is_int():
            raise TypeError(f"{type_text(self.type)} cannot be an index or a loop bound")
        return int(self._concrete("an index or loop bound"))

    def __getitem__(self, key: Any) -> Any:
        return self._semantics().subscript(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise KernelTypeError(
            f"elements of a tile cannot be assigned ({type_text(self.type)})",
            help="build a new tile: x = tl.where(index == i, value, x)",
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"a scalar ({type_text(self.type)}) has no length")
        return self.shape[0]

    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __truediv__, __rtruediv__ = _operator("/"), _reflected("/")
    __floordiv__, __rfloordiv__ = _operator("//"), _reflected("//")
    __mod__, __rmod__ = _operator("%"), _reflected("%")
    __pow__, __rpow__ = _operator("**"), _reflected("**")
    __lshift__, __rlshift__ = _operator("<<"), _reflected("<<")
    __rshift__, __rrshift__ = _operator(">>"), _reflected(">>")
    __and__, __rand__ = _operator("&"), _reflected("&")
    __or__, __ror__ = _operator("|"), _reflected("|")
    __xor__, __rxor__ = _operator("^"), _reflected("^")
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(_operator, _COMPARISONS)
    __hash__ = object.__hash__
    __neg__, __pos__, __invert__ = map(_unary, "-+~")
    # Methods of Triton's tensors by which programs call operators; Python itself does not.
    __rlt__, __rle__, __rgt__, __rge__, __req__, __rne__ = map(_reflected, _COMPARISONS)
    __not__ = _unary("not")

    def __abs__(self) -> Any:
        return self._semantics().abs(self)
