"""Context of lowering an operation, and the IR builder: value numbering of integer arithmetic, constant folding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.types import Builder, Value, call, mangled
from tilewright.targets import TargetInfo


@dataclass
class MathContext:
    """The module being written (for declarations), the target, and whether `a*b+c` may fuse."""

    target: TargetInfo
    module: ir.Module
    fp_fusion: bool = True
    products: dict[int, tuple[Value, Value]] = field(default_factory=dict)
    """Products in narrow types, by identity: the rounded value, and the fp32 number it came from."""

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
    Instructions with flags or names are not reused."""

    def __init__(self, block: Any = None) -> None:
        super().__init__(block)
        self._made: dict[tuple[Any, ...], Any] = {}
        self._made_in: Any = None

    def shared(self, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return `make(self, *arguments)`, or its earlier result in this block."""
        block: Any = self._block
        if block is not self._made_in:
            self._made, self._made_in = {}, block
        key = (make, *map(_identity, arguments))
        found = self._made.get(key)
        # the earlier result may be after the insertion point
        if found is None or self._anchor != len(block.instructions):
            found = self._made[key] = make(self, *arguments)
        return found


def _identity(argument: Any) -> Any:
    """Return the key of an argument: the number of a constant (or its text, which is slower to compare), else the
    argument itself."""
    if type(argument) is ir.Constant and type(argument.type) is ir.IntType:
        return argument.type.width, argument.constant
    return argument


def _sharing(make: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SharingBuilder, *arguments: Any, **more: Any) -> Any:
        return make(self, *arguments, **more) if more else self.shared(make, arguments)

    return method


for _name in _PURE:
    setattr(SharingBuilder, _name, _sharing(getattr(ir.IRBuilder, _name)))
