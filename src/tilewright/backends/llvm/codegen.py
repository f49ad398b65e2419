"""State and dispatch of emitting one kernel, common to all targets that LLVM compiles for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.types import Builder, Value
from tilewright.dialects import tile
from tilewright.errors import PassError
from tilewright.passes.analysis.edit import NO_UNROLL
from tilewright.targets import TargetInfo


class Codegen:
    """Emits LLVM IR for one function, operation by operation.

    An SSA value stands for a list of LLVM values, its parts: one on a CPU, one per register that a thread has of a
    tile on a GPU. Element-wise operations are lowered part by part, others by the target's `handlers`.
    """

    function: Any
    builder: Builder

    def __init__(
        self,
        module: ir.Module,
        source: func.FuncOp,
        target: TargetInfo,
        fuse: bool,
        handlers: Mapping[type[Operation], Callable[[Any, Any], None]],
    ) -> None:
        self.module, self.source, self.target = module, source, target
        self.handlers = handlers
        self.math = MathContext(target=target, module=module, fp_fusion=fuse)
        self.values: dict[SSAValue, list[Value]] = {}

    # ---- values ----

    def parts(self, value: SSAValue) -> list[Value]:
        """The LLVM values that an SSA value stands for."""
        return self.values[value]

    def bind(self, value: SSAValue, parts: list[Value]) -> None:
        self.values[value] = parts

    def scalar(self, value: SSAValue) -> Value:
        """The LLVM value of an SSA value that has one."""
        return self.values[value][0]

    def carried(self, value: SSAValue, to: SSAValue) -> list[Value]:
        """The LLVM values that a loop carries from `value` to `to`, its block argument or result."""
        return self.parts(value)

    def bind_carried(self, value: SSAValue, parts: list[Value]) -> None:
        """Bind a block argument or result of a loop to its value from `carried`."""
        self.bind(value, parts)

    # ---- control flow ----

    def as_written(self, op: scf.ForOp) -> bool:
        """Whether LLVM is not to unroll a loop."""
        return NO_UNROLL in op.attributes

    def leave_loop(self, op: scf.ForOp, parts: list[list[Value]]) -> list[list[Value]]:
        """The results of a loop that ran, from the values its last iteration yields; emitted at the exit."""
        return parts

    def leave_branch(self, block: Block, parts: list[Value]) -> list[Value]:
        """The results of a branch, from the values it yields; emitted at its end."""
        return parts

    # ---- operations ----

    def op(self, op: Operation) -> None:
        """Emit one operation. Raises PassError for an operation that the target does not have."""
        handler = self.handlers.get(type(op))
        if handler is not None:
            handler(self, op)
        elif op.regions or not op.name.startswith(("arith.", "math.", "tile.")):
            raise PassError(f"the code generator for {self.target.name} does not know {op.name}")
        else:
            self.elementwise(op)

    def elementwise(self, op: Operation) -> None:
        """Emit an element-wise operation."""
        for result, parts in zip(op.results, self.lowered(op), strict=True):
            self.bind(result, parts)

    def lowered(
        self, op: Operation, first: Sequence[Value] = (), same: Mapping[int, int] | None = None
    ) -> list[list[Value]]:
        """The parts of the results of an element-wise operation; scalar operands are the same for all parts.

        `first`: parts of the result that are known already. `same`: parts that repeat an earlier one, and that one.
        """
        operands = [self.parts(v) for v in op.operands]
        results: list[list[Value]] = [[] for _ in op.results]
        if first:
            results[0] += first
        same = same or {}
        types = [tile.element_of(r) for r in op.results], [tile.element_of(v) for v in op.operands]
        for i in range(len(first), max((len(p) for p in operands), default=1)):
            values = [p[i] if len(p) > 1 else p[0] for p in operands]
            made = [results[0][same[i]]] if i in same else lower_elementwise(
                self.builder, op.name, values, op.properties, *types, self.math
            )  # fmt: skip
            for parts, value in zip(results, made, strict=True):
                parts.append(value)
        return results
