"""May two accesses of one group overlap when chunks of one run between chunks of the other?

Contract of execution (design §4a.3): a load may move across a store only if their structured
accesses are provably disjoint, or lane-wise the same address, or a run-time guard has compared
their byte ranges. `relation` answers what is known before the program runs.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.cpu.analysis.classify import LOADS, WRITES

SAME, GUARD, UNKNOWN = "same", "guard", "unknown"


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
    """`SAME` lanes touch the same addresses, `GUARD` compare ranges at run time, or `UNKNOWN`.

    `nested`: one of the two sits in a loop of its own, so that its range is not known outside.
    """
    if nested or not (is_bounded(first) and is_bounded(second)):
        return UNKNOWN
    return SAME if same_addresses(first, second) else GUARD


def same_addresses(first: Operation, second: Operation) -> bool:
    """Whether lane i of both accesses is the same address, by the operands alone."""
    views = (tile.LoadViewOp, tile.StoreViewOp)
    if not (isinstance(first, views) and isinstance(second, views)):
        return False
    if len(first.strides) != len(second.strides):
        return False
    return same_scalar(first.base, second.base) and all(
        same_scalar(a, b) for a, b in zip(first.strides, second.strides, strict=True)
    )


def same_scalar(a: SSAValue, b: SSAValue) -> bool:
    """Whether two scalars are equal because they are one value, or equal constants, or the same
    operation on equal scalars."""
    if a is b:
        return True
    x, y = a.owner, b.owner
    if not (isinstance(x, Operation) and isinstance(y, Operation)):
        return False
    if x.name != y.name or x.regions or len(x.operands) != len(y.operands) or a.type != b.type:
        return False
    if isinstance(x, (*LOADS, *WRITES)) or len(x.results) != 1:
        return False
    if x.properties != y.properties or x.attributes != y.attributes:
        return False
    return all(same_scalar(p, q) for p, q in zip(x.operands, y.operands, strict=True))


def constant_of(value: SSAValue) -> int | None:
    """The integer a scalar is known to be, or None."""
    op = value.owner
    if isinstance(op, Operation) and op.name == "arith.constant":
        attr = op.properties["value"]
        if isinstance(attr, IntegerAttr):
            return attr.value.data
    return None
