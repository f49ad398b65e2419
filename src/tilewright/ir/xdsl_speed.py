"""Faster forms of the methods of xDSL that a compilation calls most, with the same results.

- `walk` of operations and blocks makes one generator per block instead of three per operation.
- SSA values and operations are hashed and compared by identity, as in xDSL, but by `object`'s methods.
- `isinstance(x, SomeOp)` looks at base classes only. xDSL's classes are ABCs, which also ask for registered subclasses,
  of which there are none; that took a tenth of a compilation. Classes defined later inherit the metaclass.
- Indexing results makes no `super` object, `op.lhs` no view of all operands, and creating an operation imports nothing.

Why xDSL's own classes are changed, and for whom that matters: ADR 20. A release of xDSL without the private names that
this reads is left as it is.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Iterator
from typing import Any

from xdsl.ir import core
from xdsl.irdl import operations
from xdsl.irdl.operations import VarIRConstruct


class PlainMeta(ABCMeta):
    """ABCMeta (abstract methods are checked) without virtual subclasses."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _walk_block(block: Any) -> Iterator[Any]:
    op = block._first_op
    while op is not None:
        following = op._next_op  # `op` may be erased by the caller
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from _walk_block(inner)
        op = following


def _walk(op: Any) -> Iterator[Any]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            yield from _walk_block(block)


def _forward(fast: Any, general: Any) -> Any:
    """`fast` where neither order is reversed."""

    def walk(self: Any, *, reverse: bool = False, region_first: bool = False) -> Iterator[Any]:
        if reverse or region_first:
            return general(self, reverse=reverse, region_first=region_first)
        return fast(self)

    walk.__doc__ = general.__doc__
    return walk


def _getitem(self: Any, index: Any) -> Any:
    found = tuple.__getitem__(self, index)
    return core.SSAValues(found) if type(found) is tuple else found


def _single(self: Any, op: Any, _: Any = None) -> Any:
    """An operand or result by its accessor, which is a descriptor of the class of `op`."""
    if self.construct is VarIRConstruct.OPERAND:
        return op._operands[self.idx]
    return operations.get_op_constructs(op, self.construct)[self.idx]


def _is_known() -> bool:
    """Whether xDSL has the private names that the faster forms read."""
    fields = {
        core.Operation: ("_operands", "_next_op", "regions"), core.Block: ("_first_op",),
        core: ("_unknown_loc", "_IRNode"), operations: ("BeforeVariadicSingleAccessor", "get_op_constructs"),
    }  # fmt: skip
    return all(
        hasattr(owner, name) or name in getattr(owner, "__annotations__", ())
        for owner, names in fields.items()
        for name in names
    )


def _install() -> None:
    xdsl: Any = core
    irdl: Any = operations
    xdsl.Operation.walk = _forward(_walk, xdsl.Operation.walk)
    xdsl.Block.walk = _forward(_walk_block, xdsl.Block.walk)
    xdsl.SSAValues.__getitem__ = _getitem
    xdsl._unknown_loc = functools.cache(xdsl._unknown_loc)
    irdl.BeforeVariadicSingleAccessor.__get__ = _single
    for kind in (xdsl.SSAValue, xdsl._IRNode, irdl.IRDLOperation):
        kind.__hash__ = object.__hash__
        kind.__eq__ = object.__eq__
    for kind in (xdsl.Attribute, xdsl.SSAValue, xdsl._IRNode):
        _simplify(kind)


def _simplify(kind: Any) -> None:
    """Give a class and those that it has been derived into so far the plain metaclass."""
    if type(kind) is ABCMeta and kind.__module__.startswith(("xdsl.", "tilewright.")):
        kind.__class__ = PlainMeta
    for derived in type.__subclasses__(kind):
        _simplify(derived)


if _is_known():
    _install()
