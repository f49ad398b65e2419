"""Source locations of operations: `errors.SourceLocation` to MLIR location attributes and back.

Lines and columns in attributes count from 1, as MLIR and editors count them. An operation of an
inlined function carries `callsite(callee at caller)`, nested as deep as the inlining went.
"""

from __future__ import annotations

import functools

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from tilewright.errors import SourceLocation


@functools.lru_cache(maxsize=4096)
def location_attribute(location: SourceLocation) -> FileLineColLoc | CallSiteLoc:
    """The attribute for `location`, with its callers.

    Operations of one inlined function have the same callers, so that a long chain is made once.
    """
    here = FileLineColLoc(
        StringAttr(location.file), IntAttr(location.line), IntAttr(location.column + 1)
    )
    if location.caller is None:
        return here
    return CallSiteLoc(here, location_attribute(location.caller))


def source_location(attribute: Attribute | None, function: str = "") -> SourceLocation | None:
    """The `SourceLocation` an attribute stands for, or None when it is unknown.

    `function` is put into the innermost location; attributes do not hold it.
    """
    if isinstance(attribute, FileLineColLoc):
        column = max(0, attribute.column.data - 1)
        return SourceLocation(
            attribute.filename.data, attribute.line.data, column, function=function
        )
    if isinstance(attribute, CallSiteLoc):
        callee = source_location(attribute.callee, function)
        if callee is None:
            return source_location(attribute.caller)
        return SourceLocation(
            callee.file,
            callee.line,
            callee.column,
            callee.end_column,
            callee.function,
            _appended(callee.caller, source_location(attribute.caller)),
        )
    if isinstance(attribute, NameLoc):
        return source_location(attribute.location, attribute.desc.data)
    if isinstance(attribute, FusedLoc):
        found = (source_location(part, function) for part in attribute.locations)  # pyright: ignore
        return next((location for location in found if location is not None), None)
    return None


def _appended(chain: SourceLocation | None, caller: SourceLocation | None) -> SourceLocation | None:
    if chain is None:
        return caller
    return SourceLocation(
        chain.file,
        chain.line,
        chain.column,
        chain.end_column,
        chain.function,
        _appended(chain.caller, caller),
    )


def location_of(op: Operation) -> SourceLocation | None:
    """Where in the kernel's source `op` comes from; its nearest enclosing op's place if unknown."""
    current: Operation | None = op
    while current is not None:
        found = source_location(current.location)
        if found is not None:
            return found
        current = current.parent_op()
    return None
