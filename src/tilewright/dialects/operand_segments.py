"""Quick access to the operand groups of operations that have several (`operandSegmentSizes`).

The accessors that xDSL generates read the sizes out of their bytes every time. Passes ask for
`op.strides` or `op.mask` more often than for anything else, so the places are remembered here by those bytes.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, TypeVar

from xdsl.ir import Operation
from xdsl.irdl import AttrSizedOperandSegments, OptOperandDef, VarOperandDef

_Kind = TypeVar("_Kind", bound=type[Operation])


@functools.lru_cache(maxsize=4096)
def _places(sizes: bytes) -> tuple[slice, ...]:
    """Where each group lies among the operands; `sizes` are i32."""
    places, start = [], 0
    for size in struct.unpack(f"<{len(sizes) // 4}i", sizes):
        places.append(slice(start, start + size))
        start += size
    return tuple(places)


def fast_operand_segments(kind: _Kind) -> _Kind:
    """Decorates an operation whose sizes are a property: the same accessors, faster."""
    definition: Any = kind.get_irdl_definition()  # type: ignore[attr-defined]
    if not any(isinstance(option, AttrSizedOperandSegments) for option in definition.options):
        raise TypeError(f"{definition.name} has no operandSegmentSizes")
    for position, (name, operand) in enumerate(definition.operands):
        setattr(kind, name, _accessor(position, operand))
    return kind


def _accessor(position: int, definition: Any) -> property:
    def place(op: Any) -> slice:
        return _places(op.properties["operandSegmentSizes"].data.data)[position]

    def several(op: Any) -> Any:
        return op.operands[place(op)]

    def one(op: Any) -> Any:
        return op.operands[place(op).start]

    def one_or_none(op: Any) -> Any:
        at = place(op)
        return op.operands[at.start] if at.stop > at.start else None

    if isinstance(definition, VarOperandDef):
        return property(one_or_none if isinstance(definition, OptOperandDef) else several)
    return property(one)
