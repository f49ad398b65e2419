"""Inline PTX. The constraints of its operands follow from their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.types import VOID, Builder, Value

_LETTERS: dict[ir.Type, str] = {
    ir.IntType(1): "b", ir.IntType(16): "h", ir.IntType(32): "r", ir.IntType(64): "l",
    ir.FloatType(): "f", ir.DoubleType(): "d",
}  # fmt: skip


def inline_ptx(
    b: Builder,
    text: str,
    operands: Sequence[Value] = (),
    result: ir.Type | Sequence[ir.Type] = VOID,
    *,
    side_effect: bool = False,
    memory: bool = False,
    convergent: bool = False,
    tied: range = range(0),
) -> Any:
    """Emit instructions in whose text results are `$0`, `$1`, …, followed by the operands.

    Returns the value, or the list of values where `result` is a list of types.
    `side_effect`: LLVM keeps it. `memory`: it accesses memory, too. `convergent`: threads do it together: LLVM may not
    move it into or out of branches. `tied`: the operands that are in the registers of the results, in order.
    """
    kinds = [result] if isinstance(result, ir.Type) else list(result)
    outputs = [f"={_LETTERS[kind]}" for kind in kinds if kind != VOID]
    inputs = [
        str(i - tied.start) if i in tied else _LETTERS[value.type]
        for i, value in enumerate(operands)
    ]
    constraints = ",".join([*outputs, *inputs, *(["~{memory}"] if memory else [])])
    several = len(kinds) != 1
    function = ir.FunctionType(
        registers(b.module, kinds) if several else kinds[0], [v.type for v in operands]
    )
    made: Any = b.asm(function, text, constraints, list(operands), side_effect=side_effect)
    if convergent:
        made.attributes.add("convergent")
    if several:
        return [b.extract_value(made, i) for i in range(len(kinds))]
    return made if isinstance(result, ir.Type) else [made]


def registers(module: ir.Module, kinds: list[ir.Type]) -> ir.Type:
    """The type of several registers that one instruction gives.

    Many of them get a name: LLVM's text spells a type out at each use, and an instruction of a
    tensor core has up to 128 registers, each taken out by an instruction of its own.
    """
    if len(kinds) <= 8 or any(kind != kinds[0] for kind in kinds):
        return ir.LiteralStructType(kinds)
    name = f"{kinds[0]}x{len(kinds)}"
    kind = module.context.get_identified_type(name)
    if kind.is_opaque:
        kind.set_body(*kinds)
    return kind


def names(count: int, first: int = 0) -> str:
    """`{$0, $1}`: a vector of `count` operands from operand `first` on; a single one without braces."""
    listed = ", ".join(f"${first + i}" for i in range(count))
    return f"{{{listed}}}" if count > 1 else listed
