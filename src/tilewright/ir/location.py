"""Source locations of operations: `errors.SourceLocation` to MLIR location attributes and back.

Lines and columns in attributes count from 1, as MLIR and editors count them. An operation of an
inlined function carries `callsite(callee at caller)`, nested as deep as the inlining went. Internal compiler errors
are reported with the location of the operation that was being processed (`internal_errors`).
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.errors import InternalError, PassError, SourceLocation, TilewrightError


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
        found = (
            source_location(part, function)
            for part in cast(ArrayAttr[Attribute], attribute.locations)
        )
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


@contextmanager
def internal_errors(doing: str, *, pass_errors: bool = True) -> Generator[None]:
    """Convert every exception that is not a user error into an `InternalError`.

    A PassError is a user error while a pipeline is assembled, and an internal error while a pass runs:
    `pass_errors` selects whether it is converted. `doing` describes the activity ("in pass vectorize"). The
    operation at fault, which determines the kernel line, is the one that the innermost function on the
    traceback was processing.
    """
    try:
        yield
    except (InternalError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, TilewrightError) and not (
            pass_errors and isinstance(error, PassError)
        ):
            raise
        op = next(_operations(error), None)
        if op is not None and not isinstance(op, ModuleOp):
            doing = f"{doing}, at {op.name}"
        location = getattr(error, "location", None) or location_at_fault(error)
        raise InternalError(doing, error, location) from error


def location_at_fault(error: BaseException) -> SourceLocation | None:
    """Return the location of the innermost operation that has one, else of the operation that encloses it."""
    found = [op for op in _operations(error) if op.name != "func.func"]
    own = next((at for op in found if (at := source_location(op.location)) is not None), None)
    return own or (location_of(found[0]) if found else None)


def _operations(error: BaseException) -> Iterator[Operation]:
    """Yield the operations in the frames of a traceback, innermost first."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        values = frame.f_locals
        named = [values[name] for name in ("op", "operation") if name in values]
        for value in (*named, *values.values()):
            if isinstance(value, SSAValue):
                value = value.owner
            if isinstance(value, Operation) and not isinstance(value, ModuleOp):
                yield value
