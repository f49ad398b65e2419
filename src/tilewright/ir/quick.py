"""What passes do all the time with xDSL's classes, in fewer steps.

A kernel of twenty operations is walked fifty times on its way through the pipeline, and asked for an
operand by name some hundred times. xDSL 0.74 passes an operation through three generators on its way
out of a walk, makes a view of all operands for one of them, and looks through the definition of an
operation that is made for defaults, which hardly any has. `install` puts functions of the same meaning in
the places of these, because everybody walks and makes operations with xDSL's classes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues, Use
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.irdl import operations as irdl_operations

_WALKS: dict[type, Any] = {kind: kind.walk for kind in (Operation, Block, Region)}  # type: ignore[attr-defined]
"""xDSL's own, for the orders that are asked for rarely."""
_ERASE = SSAValue.erase


def _inside(block: Block) -> Iterator[Operation]:
    """Operations of a block and below, each before what is in it; the one given may be erased meanwhile."""
    op = block.first_op
    while op is not None:
        following = op.next_op
        if op.regions:
            yield from _walk_operation(op)
        else:
            yield op
        op = following


def _walk_operation(
    self: Operation, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """`Operation.walk`."""
    if reverse or region_first:
        yield from _WALKS[Operation](self, reverse=reverse, region_first=region_first)
        return
    yield self
    for region in self.regions:
        for block in region.blocks:
            yield from _inside(block)


def _walk_block(
    self: Block, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """`Block.walk`."""
    if reverse or region_first:
        return _WALKS[Block](self, reverse=reverse, region_first=region_first)
    return _inside(self)


def _walk_region(
    self: Region, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """`Region.walk`."""
    if reverse or region_first:
        yield from _WALKS[Region](self, reverse=reverse, region_first=region_first)
        return
    for block in self.blocks:
        yield from _inside(block)


def _make_operation(
    self: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = MappingProxyType({}),
    attributes: Mapping[str, Attribute] = MappingProxyType({}),
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> None:
    """`Operation.__init__`, which need not look for operands and successors that were there before."""
    values = self._operands = SSAValues(operands)
    if values:
        uses = self._operand_uses = tuple([Use(self, i) for i in range(len(values))])
        for value, use in zip(values, uses, strict=True):
            value.add_use(use)
    self.results = SSAValues([OpResult(kind, self, i) for i, kind in enumerate(result_types)])
    self.properties, self.attributes = dict(properties), dict(attributes)
    self.location = UNKNOWN_LOC if location is None else location
    if successors:
        self.successors = list(successors)
    self.regions = ()
    for region in regions:
        self.add_region(region)
    self.__post_init__()


def _erase_value(self: SSAValue, safe_erase: bool = True) -> None:
    """`SSAValue.erase`: one that nothing uses leaves nothing to replace."""
    if self.first_use is not None:
        _ERASE(self, safe_erase)


def _named(self: Any, obj: Any, kind: Any = None) -> Any:
    """An operand or a result by its name, of operations that have none of variable number before it."""
    if self.construct is irdl_operations.VarIRConstruct.OPERAND:
        return obj._operands[self.idx]
    if self.construct is irdl_operations.VarIRConstruct.RESULT:
        return obj.results[self.idx]
    return self.index(irdl_operations.get_op_constructs(obj, self.construct))


@functools.cache
def _defaults(kind: type[IRDLOperation]) -> tuple[tuple[bool, str, Any], ...]:
    """(whether a property, name, value) of what an operation has where it is not given."""
    definition = kind.get_irdl_definition()
    return tuple(
        (is_property, name, found.default_value)
        for is_property, table in ((True, definition.properties), (False, definition.attributes))
        for name, found in table.items()
        if not isinstance(found, OptionalDef) and found.default_value is not None
    )


def _fill_in(self: Any) -> None:
    """`IRDLOperation.__post_init__`."""
    for is_property, name, value in _defaults(type(self)):
        (self.properties if is_property else self.attributes).setdefault(name, value)
    Operation.__post_init__(self)  # what xDSL's implicit builders put there


@functools.cache
def install() -> None:
    """Put these functions in their places. Does nothing the second time."""
    for kind, walk in ((Operation, _walk_operation), (Block, _walk_block), (Region, _walk_region)):
        kind.walk = walk  # type: ignore[method-assign,assignment]
    Operation.__init__ = _make_operation  # type: ignore[method-assign]
    SSAValue.erase = _erase_value  # type: ignore[method-assign]
    irdl_operations.BeforeVariadicSingleAccessor.__get__ = _named  # type: ignore[method-assign]
    IRDLOperation.__post_init__ = _fill_in  # type: ignore[method-assign]
