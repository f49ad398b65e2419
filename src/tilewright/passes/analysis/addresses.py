"""Which accesses are known to touch the same addresses, and whose memory they touch."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.dialects import tile

_MEMORY = (
    tile.LoadOp, tile.LoadViewOp, tile.StoreOp, tile.StoreViewOp, tile.AtomicRMWOp, tile.AtomicCASOp,
)  # fmt: skip


def root_of(pointer: SSAValue) -> BlockArgument | None:
    """The kernel argument that a pointer (or a tile of pointers) was made from, if it is one alone."""
    value = pointer
    while True:
        op = value.owner
        if isinstance(op, Block):
            is_argument = isinstance(op.parent_op(), FuncOp) and isinstance(value, BlockArgument)
            return value if is_argument else None  # type: ignore[return-value]
        if isinstance(op, tile.AddPtrOp):
            value = op.pointer
        elif isinstance(
            op, tile.SplatOp | tile.BroadcastOp | tile.ExpandDimsOp | tile.HintOp | tile.BitcastOp
        ):
            value = op.operands[0]
        else:
            return None


def is_apart(root: BlockArgument) -> bool:
    """Whether an argument has the attribute `tile.apart`.

    Whoever launches such a kernel has made sure that the memory behind the argument is reached through no
    other, and that no two lanes of one access through it are one address.
    """
    function = root.owner.parent_op()
    attributes = function.arg_attrs if isinstance(function, FuncOp) else None
    if attributes is None or root.owner is not function.body.block:  # type: ignore[union-attr]
        return False
    return "tile.apart" in attributes.data[root.index].data  # type: ignore[union-attr]


def are_apart(first: SSAValue, second: SSAValue) -> bool:
    """Whether two pointers lead to different memory, because one comes from an argument that is apart."""
    x, y = root_of(first), root_of(second)
    return x is not None and y is not None and x is not y and (is_apart(x) or is_apart(y))


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
    if isinstance(x, _MEMORY) or len(x.results) != 1:
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
