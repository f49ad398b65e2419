"""Report internal compiler errors with the kernel line of the operation that was being processed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tilewright.errors import InternalError, PassError, SourceLocation, TilewrightError
from tilewright.ir.location import location_of, source_location


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
        op = operation_at_fault(error)
        if op is not None and not isinstance(op, ModuleOp):
            doing = f"{doing}, at {op.name}"
        location = getattr(error, "location", None) or location_at_fault(error)
        raise InternalError(doing, error, location) from error


def operation_at_fault(error: BaseException) -> Operation | None:
    """Return the operation that the innermost frame with an operation was processing when `error` was raised."""
    return next(_operations(error), None)


def location_at_fault(error: BaseException) -> SourceLocation | None:
    """Return the location of the innermost operation that has one, else of the operation that encloses it."""
    found = [op for op in _operations(error) if op.name != "func.func"]
    own = next((at for op in found if (at := source_location(op.location)) is not None), None)
    return own or (location_of(found[0]) if found else None)


def _operations(error: BaseException) -> Iterator[Operation]:
    """Yield the operations in the frames of a traceback, innermost first."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed(frames):
        values = frame.f_locals
        named = [values[name] for name in ("op", "operation") if name in values]
        for value in (*named, *values.values()):
            if isinstance(value, SSAValue):
                value = value.owner
            if isinstance(value, Operation) and not isinstance(value, ModuleOp):
                yield value
