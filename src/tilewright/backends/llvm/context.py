"""What lowering an operation needs besides its operands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.types import Builder, Value, mangled
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

    def declare(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        """A function of that name and type, declared once a module."""
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        return found

    def intrinsic(self, b: Builder, name: str, *arguments: Any) -> Value:
        """`llvm.<name>` overloaded on the type that all arguments and the result have."""
        kind = arguments[0].type
        fn = self.declare(f"llvm.{name}.{mangled(kind)}", kind, [a.type for a in arguments])
        return b.call(fn, arguments)
