"""Public errors: one class per kind of fault, all derived from `TilewrightError` (docs/reference/errors.md).

A message says what was wrong with the actual types, shapes or values; `help` says what to do.
"""

from __future__ import annotations

import itertools
import linecache
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any
from unicodedata import east_asian_width


@dataclass(frozen=True)
class SourceLocation:
    """A span of kernel source. `line` counts from 1, `column` and `end_column` from 0 (in characters)."""

    file: str
    line: int
    column: int = 0
    end_column: int | None = None
    function: str = ""
    caller: SourceLocation | None = None
    """Where the function that contains this span was called from, when it was inlined."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    @classmethod
    def of_instruction(
        cls,
        code: CodeType,
        instruction: int,
        line: int,
        function: str = "",
        caller: SourceLocation | None = None,
    ) -> SourceLocation:
        """Of an instruction of Python's (`f_lasti`) on a line (`f_lineno`)."""
        positions = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
        column, end = 0, None
        if positions is not None and positions[0] == line and positions[2] is not None:
            column = positions[2]
            end = positions[3] if positions[1] == line else None
        return cls(code.co_filename, line, column, end, function, caller)


def _source_line(location: SourceLocation) -> str | None:
    line = linecache.getline(location.file, location.line)
    if not line and Path(location.file).is_file():
        linecache.checkcache(location.file)
        line = linecache.getline(location.file, location.line)
    return line.rstrip("\n") if line else None


def _display_width(text: str) -> int:
    return sum(2 if east_asian_width(ch) in "WF" else 1 for ch in text)


def excerpt(location: SourceLocation) -> str:
    """The source line of `location` with carets under its span, or "" when the source is gone."""
    line = _source_line(location)
    if line is None:
        return ""
    line = line.expandtabs(1)
    end = location.end_column if location.end_column is not None else location.column + 1
    end = max(location.column + 1, min(end, len(line)))
    gutter = f"{location.line:>5} | "
    pad = " " * (len(gutter) + _display_width(line[: location.column]))
    return f"{gutter}{line}\n{pad}{'^' * max(1, _display_width(line[location.column : end]))}"


_STANDARD_LIBRARY = str(Path(__file__).parent / "language" / "standard") + "/"


def outside_library(location: SourceLocation | None) -> SourceLocation | None:
    """The innermost call outside `tl`'s own kernel functions (`tl.sort`), or `location` if there is none."""
    inner = location
    while inner is not None and inner.file.startswith(_STANDARD_LIBRARY):
        inner = inner.caller
    return inner or location


class TilewrightError(Exception):
    """Base of all errors raised on purpose. `help` is one sentence that suggests a fix, or "".

    `context` is a last line with circumstances, such as the argument types. A `location` inside of `tl` itself
    becomes the one of the call in the kernel.
    """

    @property
    def location(self) -> SourceLocation | None:
        """The span of source that the message is about."""
        return self._location

    @location.setter
    def location(self, location: SourceLocation | None) -> None:
        self._location = outside_library(location)

    def __init__(
        self, message: str, *, help: str = "", location: SourceLocation | None = None
    ) -> None:
        self.message = message
        self.help = help
        self.location = location
        self.context = ""
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without calling `__init__`, whose parameters differ between subclasses: an error that a worker process
        cannot hand back leaves `multiprocessing.Pool` waiting forever."""
        return type(self).__new__, (type(self), *self.args), vars(self)

    def __str__(self) -> str:
        parts = [f"{self.location}: {self.message}" if self.location else self.message]
        if self.location:
            text = excerpt(self.location)
            if text:
                parts.append(text)
        if self.help:
            parts.append(f"help: {self.help}")
        caller = self.location.caller if self.location else None
        while caller is not None:
            where = f" in {caller.function}" if caller.function else ""
            parts.append(f"called from {caller}{where}")
            text = excerpt(caller)
            if text:
                parts.append(text)
            caller = caller.caller
        if self.context:
            parts.append(self.context)
        return "\n".join(parts)


class CompilationError(TilewrightError):
    """The kernel's source cannot be compiled."""

    @property
    def error_message(self) -> str:
        """`message`, by Triton's name."""
        return self.message


class StaticAssertError(CompilationError):
    """A `tl.static_assert` did not hold."""


class UnsupportedSyntax(CompilationError):
    """A Python construct that the kernel language does not have."""


class KernelTypeError(CompilationError, TypeError):
    """Types or shapes in a kernel do not fit each other."""


class KernelNameError(CompilationError, NameError):
    """A name in a kernel is not defined or may not be used there."""


class LaunchError(TilewrightError, TypeError):
    """A kernel was called wrongly: arguments, grid or options."""


class UnknownKeywordError(LaunchError, KeyError):
    """A launch has a keyword that is neither a parameter of the kernel nor an option."""


class KeywordConflictError(LaunchError, ValueError):
    """A launch gives a value that the autotuner chooses."""


class IntegerOverflowError(LaunchError, OverflowError):
    """An integer argument does not fit the type of its parameter."""


class LaunchOptionError(LaunchError, AssertionError):
    """An option of a launch has a value that it cannot have. In Triton an assertion checks it."""


class KernelFault(TilewrightError, RuntimeError):
    """A kernel failed while it ran."""


class DeviceAssertError(KernelFault):
    """A `tl.device_assert` did not hold."""


class OutOfBoundsError(KernelFault, IndexError):
    """An access outside its allocation."""


class RaceError(KernelFault):
    """Two unordered programs access the same address and at least one of them writes."""


class UnwrittenMemoryError(KernelFault):
    """A read of uninitialized memory."""


class UndefinedValueError(KernelFault):
    """A use of lanes that a load without `other=` left undefined."""


class DeadlockError(KernelFault):
    """A program waits for a value that only a later program could write."""


class NumericalFault(KernelFault, ArithmeticError):
    """A NaN or infinity made of finite numbers, or an offset that wrapped."""


class InterpreterError(TilewrightError):
    """The interpreter met IR or a Python construct that it cannot run."""


class PassError(TilewrightError):
    """A list of passes, or IR given as text, is wrong; or a pass met IR that it cannot handle."""


class InternalError(PassError, RuntimeError):
    """A bug in tilewright, found while compiling a kernel. `original` is the exception."""

    def __init__(
        self, doing: str, original: BaseException, location: SourceLocation | None = None
    ) -> None:
        self.original = original
        text = getattr(original, "message", None) or str(original).strip() or "no message"
        kind = "" if isinstance(original, TilewrightError) else f"{type(original).__name__}: "
        super().__init__(
            f"tilewright failed {doing}: {kind}{text}",
            help="this is a bug in tilewright, not in the kernel: please report it with this text. "
            "TILEWRIGHT_FULL_TRACEBACK=1 shows where it happened, TILEWRIGHT_INTERPRET=1 runs the "
            "kernel without being compiled",
            location=location,
        )


class ClaimError(PassError, RuntimeError):
    """A pass relied on something that does not hold (`tile.assumes`): a bug of that pass."""

    def __init__(
        self, by: str, claim: str, text: str, location: SourceLocation | None = None
    ) -> None:
        self.by, self.claim = by, claim
        super().__init__(
            f"{by} claims '{claim}', which does not hold: {text}",
            help=f"this is a bug in tilewright's pass {by}, not in the kernel: please report it with "
            f"this text; --disable {by} does without the pass where it may be left out",
            location=location,
        )


REGISTERS = "registers a thread"
"""The resource of which a thread has too few, as `OutOfResources` names it."""


class OutOfResources(TilewrightError, RuntimeError):
    """A configuration needs more of a resource than the target has."""

    def __init__(
        self, required: int, limit: int, name: str, help: str = "use smaller blocks or fewer stages"
    ) -> None:
        self.required, self.limit, self.name = required, limit, name
        super().__init__(
            f"out of resource: {name}, Required: {required}, Hardware limit: {limit}", help=help
        )


class UnsupportedTarget(TilewrightError, RuntimeError):
    """This machine, or the named target, cannot run the kernel."""


class AutotuneError(TilewrightError, RuntimeError):
    """`autotune` has no configuration that it can use."""


class IntegrationError(TilewrightError, ImportError):
    """Another library is in a state in which it cannot be joined with tilewright."""
