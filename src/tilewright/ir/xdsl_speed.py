"""Faster forms of the methods of xDSL that a compilation calls most, with the same results.

- `walk` of operations and blocks makes one generator per block instead of three per operation.
- SSA values and operations are hashed and compared by identity, as in xDSL, but by `object`'s methods.
- `isinstance(x, SomeOp)` looks at base classes only. xDSL's classes are ABCs, which also ask for registered subclasses,
  of which there are none; that took a tenth of a compilation. Classes defined later inherit the metaclass.
- Indexing results makes no `super` object, `op.lhs` no view of all operands, and creating an operation imports nothing.
- `op.operands` is the tuple of operands itself, whose elements can be assigned, instead of a new view at each access.
- Properties that give one attribute call no Python function, and iterating a block's operations one per block.
- Creating an operation finds the default attributes of its class once.

Why xDSL's own classes are changed, and for whom that matters: ADR 20. A release of xDSL without the private names that
this reads is left as it is.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from xdsl.ir import core
from xdsl.irdl import operations
from xdsl.irdl.operations import VarIRConstruct

_OPERAND = VarIRConstruct.OPERAND


class PlainMeta(ABCMeta):
    """ABCMeta (abstract methods are checked) without virtual subclasses."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _walk_block(block: Any) -> Iterator[Any]:
    op = block._first_op
    outer: list[Any] = []  # what follows the operations whose regions are being walked
    while True:
        while op is None:
            if not outer:
                return
            op = outer.pop()
        following = op._next_op  # `op` may be erased by the caller
        yield op
        regions = op.regions
        if not regions:
            op = following
        elif len(regions) == 1 and (inner := _only_block(regions[0])) is not None:
            outer.append(following)
            op = inner._first_op
        else:
            for region in regions:
                for inner in region.blocks:
                    yield from _walk_block(inner)
            op = following


def _only_block(region: Any) -> Any:
    """The block of a region that has one; None if it has several or none."""
    first = region._first_block
    return None if first is None or first is not region._last_block else first


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
    if self.construct is _OPERAND:
        return tuple.__getitem__(op._operands, self.idx)
    return operations.get_op_constructs(op, self.construct)[self.idx]


class OperandValues(core.SSAValues[Any]):
    """The operands of an operation. Assigning an element changes the operation, which then has another tuple."""

    _op: Any

    @classmethod
    def of(cls, op: Any, values: Iterable[Any]) -> OperandValues:
        """The tuple of `values` for `op`, which is not changed."""
        found = tuple.__new__(cls, values)
        found._op = op
        return found

    def __setitem__(self, index: int, operand: Any) -> None:
        op = self._op
        current, use = op._operands, op._operand_uses[index]
        tuple.__getitem__(current, index).remove_use(use)
        operand.add_use(use)
        changed = [*current]
        changed[index] = operand
        op._operands = OperandValues.of(op, changed)


def _set_operands(self: Any, new: Sequence[Any]) -> None:
    values = OperandValues.of(self, new)
    uses = tuple([core.Use(self, index) for index in range(len(values))])
    for operand, use in zip(self._operands, self._operand_uses, strict=False):  # none after erasure
        operand.remove_use(use)
    for operand, use in zip(values, uses, strict=True):
        operand.add_use(use)
    self._operands, self._operand_uses = values, uses


def _ops(self: Any) -> Iterator[Any]:
    """The operations of a block, each of which the caller may erase."""
    op = self.block._first_op
    while op is not None:
        following = op._next_op
        yield op
        op = following


def _init_operation(
    self: Any,
    *,
    operands: Sequence[Any] = (),
    result_types: Sequence[Any] = (),
    properties: Mapping[str, Any] = {},
    attributes: Mapping[str, Any] = {},
    location: Any = None,
    successors: Sequence[Any] = (),
    regions: Sequence[Any] = (),
) -> None:
    """`Operation.__init__`, which assigns successors only where there are any."""
    self.operands = operands
    results = [core.OpResult(kind, self, index) for index, kind in enumerate(result_types)]
    self.results = core.SSAValues(results)
    self.properties, self.attributes = dict(properties), dict(attributes)
    self.location = _private(core)._unknown_loc() if location is None else location
    if successors:
        self.successors = list(successors)
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


def _private(module: Any) -> Any:
    """A module, whose private names are asked for."""
    return module


@functools.cache
def _defaults(kind: Any) -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]:
    """Properties and attributes that operations of a class have where none are given."""
    definition = kind.get_irdl_definition()

    def given(members: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        required = {n: d for n, d in members.items() if not isinstance(d, operations.OptionalDef)}
        values = ((name, member.default_value) for name, member in required.items())
        return tuple((name, value) for name, value in values if value is not None)

    return given(definition.properties), given(definition.attributes)


def _add_defaults(self: Any) -> None:
    properties, attributes = _defaults(type(self))
    for name, value in properties:
        self.properties.setdefault(name, value)
    for name, value in attributes:
        self.attributes.setdefault(name, value)
    core.Operation.__post_init__(self)


_ATTRIBUTES: dict[Any, dict[str, str]] = {
    core.Operation: {"next_op": "_next_op", "prev_op": "_prev_op"},
    core.Block: {"first_op": "_first_op", "last_op": "_last_op"},
    core.Use: {"operation": "_operation", "index": "_index"},
    core.SSAValue: {"type": "_type"},
    core.OpResult: {"owner": "op"},
    core.BlockArgument: {"owner": "block"},
}
"""Properties that give one attribute."""


def _is_known() -> bool:
    """Whether xDSL has the private names that the faster forms read."""
    fields = {
        core.Operation: ("_operands", "_operand_uses", "_next_op", "_prev_op", "regions"),
        core.Region: ("_first_block", "_last_block"),
        core.Block: ("_first_op", "_last_op"), core.Use: ("_operation", "_index"), core.SSAValue: ("_type",),
        core: ("_unknown_loc", "_IRNode", "BlockOps"),
        operations: ("BeforeVariadicSingleAccessor", "get_op_constructs", "OptionalDef"),
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
    xdsl.Operation.__init__ = _init_operation
    irdl.IRDLOperation.__post_init__ = _add_defaults
    xdsl.BlockOps.__iter__ = _ops
    xdsl.Operation.operands = property(attrgetter("_operands"), _set_operands)
    for kind, attributes in _ATTRIBUTES.items():
        for name, attribute in attributes.items():
            setattr(kind, name, property(attrgetter(attribute)))
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
