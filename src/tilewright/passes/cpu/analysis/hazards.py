"""May two accesses of one group overlap when chunks of one run between chunks of the other?

Aliasing rules (docs/gpu.md): a load may move across a store only if their structured
accesses are provably disjoint, or lane-wise the same address, or a run-time guard has compared
their byte ranges. `relation` answers what is known before the program runs.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.aliasing import no_alias, same_addresses
from tilewright.passes.cpu.analysis.classify import LOADS, WRITES

SAME, DISJOINT, GUARD, UNKNOWN = "same", "disjoint", "guard", "unknown"


def accesses_within(op: Operation) -> list[Operation]:
    """The memory operations in `op`, itself included, those in nested regions too."""
    return [o for o in op.walk() if isinstance(o, (*LOADS, *WRITES))]


def writes_memory(op: Operation) -> bool:
    return any(isinstance(o, WRITES) for o in op.walk())


def is_bounded(op: Operation) -> bool:
    """Whether the byte range of an access can be computed from scalars alone."""
    return isinstance(op, tile.LoadViewOp | tile.StoreViewOp) and all(
        k.data == "strided" for k in op.kinds
    )


def relation(first: Operation, second: Operation, nested: bool) -> str:
    """`SAME` lanes touch the same addresses, `DISJOINT` none ever, `GUARD` compare ranges at run time, or
    `UNKNOWN`.

    `nested`: one of the two sits in a loop of its own, so that its range is not known outside.
    """
    if no_alias(_pointer(first), _pointer(second)):
        return DISJOINT
    if nested or not (is_bounded(first) and is_bounded(second)):
        return UNKNOWN
    return SAME if same_addresses(first, second) else GUARD


def _pointer(access: Operation) -> SSAValue:
    """The pointer, or the tile of pointers, of a load, a store or an atomic operation."""
    if isinstance(access, tile.LoadViewOp | tile.StoreViewOp):
        return access.base
    return access.operands[0]


__all__ = [
    "DISJOINT", "GUARD", "SAME", "UNKNOWN", "accesses_within", "is_bounded", "relation", "writes_memory",
]  # fmt: skip
