"""Context of lowering an operation, and the IR builder: value numbering of integer arithmetic, constant folding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.types import I32, Builder, Value, call, mangled
from tilewright.targets import TargetInfo


@dataclass
class MathContext:
    """The module being written (for declarations), the target, and whether `a*b+c` may fuse."""

    target: TargetInfo
    module: ir.Module
    fp_fusion: bool = True
    products: dict[int, tuple[Value, Value]] = field(default_factory=dict)
    """Products in narrow types, by identity: the rounded value, and the fp32 number it came from."""
    small: dict[int, Value] = field(default_factory=dict)
    """64-bit vectors of numbers that fit in 33 bits, by identity."""

    @property
    def on_nvidia(self) -> bool:
        """Whether the code is for an NVIDIA GPU."""
        return self.target.triple.startswith("nvptx")

    @property
    def flags(self) -> tuple[str, ...]:
        """Fast-math flags of additions and products."""
        return ("contract",) if self.fp_fusion else ()

    def intrinsic(self, b: Builder, name: str, *arguments: Any) -> Value:
        """`llvm.<name>` overloaded on the type that all arguments and the result have."""
        kind = arguments[0].type
        return call(b, f"llvm.{name}.{mangled(kind)}", kind, *arguments)


#: methods whose instructions are pure functions of the arguments
_PURE = (
    "add", "sub", "mul", "shl", "lshr", "ashr", "and_", "or_", "xor", "zext", "sext", "trunc",
    "ptrtoint", "icmp_signed", "icmp_unsigned",
)  # fmt: skip


class SharingBuilder(ir.IRBuilder):
    """An `ir.IRBuilder` that reuses equal integer arithmetic, comparisons and casts of the same block.
    Instructions with flags or names are not reused. An operand may be a number: a constant of the other's type."""

    def __init__(self, block: Any = None) -> None:
        super().__init__(block)
        self._made: dict[tuple[Any, ...], Any] = {}
        self._made_in: Any = None
        self._made_by_block: dict[Any, dict[tuple[Any, ...], Any]] = {}

    def shared(self, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return `make(self, *arguments)`, or its earlier result in this block."""
        block: Any = self._block
        if block is not self._made_in:
            self._made, self._made_in = self._made_by_block.setdefault(block, {}), block
        key = (make, *map(_identity, arguments))
        found = self._made.get(key)
        if found is None or not self._is_at_end(block):  # it may be after the insertion point
            found = self._made[key] = make(self, *arguments)
        return found

    def _is_at_end(self, block: Any) -> bool:
        """Whether instructions are inserted after all others of a block but its terminator."""
        behind = len(block.instructions) - self._anchor
        return not behind or (behind == 1 and block.is_terminated)

    def gep(
        self,
        ptr: Any,
        indices: Any,
        inbounds: bool = False,
        name: str = "",
        source_etype: Any = None,
    ) -> Any:
        if inbounds or name or source_etype is None or len(indices) != 1:
            return super().gep(ptr, indices, inbounds, name, source_etype)
        (index,) = indices
        index = ir.Constant(I32, index) if isinstance(index, int) else index
        return self.shared(_element_pointer, (ptr, index, source_etype))


def _element_pointer(builder: Any, pointer: Any, index: Any, element: Any) -> Any:
    return ir.IRBuilder.gep(builder, pointer, [index], source_etype=element)


def _identity(argument: Any) -> Any:
    """Return the key of an argument: the number of a constant (or its text, which is slower to compare), else the
    argument itself."""
    if type(argument) is ir.Constant and type(argument.type) is ir.IntType:
        return argument.type.width, argument.constant
    return argument


def _with_constants(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of which the last two are operands: a number among them as a constant of the other's type."""
    *first, x, y = arguments
    if isinstance(y, int):
        return *first, x, ir.Constant(x.type, y)
    if isinstance(x, int):
        return *first, ir.Constant(y.type, x), y
    return arguments


def _accepting_numbers(make: Callable[..., Any], shares: bool) -> Callable[..., Any]:
    def method(self: SharingBuilder, *arguments: Any, **more: Any) -> Any:
        arguments = _with_constants(arguments)
        return (
            self.shared(make, arguments) if shares and not more else make(self, *arguments, **more)
        )

    return method


for _name in (*_PURE, "udiv", "urem", "select"):
    _method = _accepting_numbers(getattr(ir.IRBuilder, _name), _name in _PURE)
    setattr(SharingBuilder, _name, _method)
