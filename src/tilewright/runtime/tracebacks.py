"""Trim errors for users: without this package's frames, with the line that called."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar, cast

from tilewright import config, dtypes
from tilewright.errors import (
    CompilationError,
    InternalError,
    SourceLocation,
    StaticAssertError,
    TilewrightError,
)
from tilewright.runtime.dynamo import dynamo_disabled
from tilewright.runtime.interface import innermost

F = TypeVar("F", bound=Callable[..., Any])
_PACKAGE = str(Path(__file__).resolve().parent.parent)


def _is_own(frame: FrameType) -> bool:
    code = frame.f_code
    # this package's `with` statements add frames of contextlib
    names = (_PACKAGE, contextlib.__file__)
    return code.co_filename.startswith(names) or "_tw_extra" in code.co_varnames


def caller_location() -> SourceLocation | None:
    """Location of the user's call into this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    if frame is None:
        return None
    return SourceLocation.of_instruction(frame.f_code, frame.f_lasti, frame.f_lineno)


def warn_caller(text: str) -> None:
    """Warn at the line of the user's call into this package, however many of its functions are between."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_own(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def without_own_frames(error: BaseException) -> BaseException:
    """`error` with this package's frames cut from its traceback, unless the settings keep them.

    Errors raised by a user's function (a grid, a heuristic, a hook) are shortened, too; an internal
    error keeps all frames.
    """
    for_triton = dtypes.language_module == "triton.language"
    asserted = isinstance(error, StaticAssertError)  # by the program, which has its message
    if for_triton and isinstance(error, CompilationError) and not (error.__cause__ or asserted):
        error.__cause__ = plain_cause(error)
    if config.current().full_traceback:
        return error
    traces: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        traces.append(trace)
        trace = trace.tb_next
    ours = isinstance(error, TilewrightError)
    if not ours and (not traces or _is_own(traces[-1].tb_frame)):
        return error
    chain: TracebackType | None = None
    for trace in reversed(traces):
        if not _is_own(trace.tb_frame):
            chain = TracebackType(chain, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    error.__traceback__ = chain
    if not ours:
        return error
    if isinstance(error, InternalError):
        error.__cause__ = None
    if error.__cause__ is None:
        error.__suppress_context__ = True
    elif without_own_frames(error.__cause__) is error.__cause__:
        cause: TracebackType | None = error.__cause__.__traceback__
        if cause is not None and cause.tb_next is None and _is_own(cause.tb_frame):
            error.__cause__.__traceback__ = None  # Python's own error in a constant expression
    return error


def located(error: TilewrightError) -> BaseException:
    """`error` as a function of this package raises it: at the user's call if it has no location, without own frames."""
    if error.location is None:
        error.location = caller_location()
    return without_own_frames(error)


def plain_cause(error: CompilationError) -> Exception:
    """The equivalent error without a source location, as the cause of `error`.

    Programs for Triton match its text in `error.__cause__`, whichever nested call of the kernel failed. Other programs
    get no cause, which would print the error twice.
    """
    for kind in (TypeError, NameError):
        if isinstance(error, kind):
            return kind(error.message)
    return ValueError(error.message)


def user_facing(method: F) -> F:
    """Decorator of user-called methods of a kernel or its wrapper; see `at_definition`."""
    return cast(F, _UserFacing(method))


class _UserFacing:
    """Descriptor that stores the function of `at_definition` in an instance on first access."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        functools.update_wrapper(cast(Any, self), method)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.method
        kernel = innermost(getattr(instance, "function", instance))
        shown = self.method.__get__(instance, owner)
        if hasattr(kernel, "definition_line"):
            shown = at_definition(shown, kernel)
        instance.__dict__[self.method.__name__] = shown
        return shown


def at_definition(function: Callable[..., Any], kernel: Any) -> Callable[..., Any]:
    """Wrap `function` so that its tracebacks show only the kernel's `def` line of this package's frames.

    The `shown` method of the kernel's launcher filters errors.
    """
    name, file, line = kernel.launcher.name, kernel.file, kernel.definition_line
    source = f"""
def {name}(*_tw_extra, **_tw_keywords):
    try:
        return _tw_function(*_tw_extra, **_tw_keywords)
    except Exception as _tw_e:
        _tw_shown = _tw_strip(_tw_e)
    raise _tw_shown
"""
    scope: dict[str, Any] = {
        "__name__": kernel.fn.__module__, "_tw_function": function,
        "_tw_strip": kernel.launcher.shown,
    }  # fmt: skip
    exec(on_one_line(compile(source, file, "exec"), line), scope)
    shown = functools.update_wrapper(scope[name], function)
    shown.__qualname__ = f"{name}.{function.__name__}"
    return dynamo_disabled(shown)


#: of CPython's table of locations (from 3.11 on; Objects/locations.md there): an entry without columns for 8 units
#: of code, on the line of the entry before
_LINE_ONLY, _MOST_UNITS = 0x80 | 13 << 3, 8


def on_one_line(code: CodeType, line: int) -> CodeType:
    """`code`, and the functions in it, with every instruction on one line and without columns."""
    if sys.implementation.name != "cpython":
        return code
    whole, rest = divmod(len(code.co_code) // 2, _MOST_UNITS)
    table = bytes((_LINE_ONLY | _MOST_UNITS - 1, 0)) * whole
    if rest:
        table += bytes((_LINE_ONLY | rest - 1, 0))
    inside = [on_one_line(c, line) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_firstlineno=line, co_linetable=table, co_consts=tuple(inside))
