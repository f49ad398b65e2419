"""What is running: the program, the line of the kernel, the memory; and the optional checks."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tilewright import config
from tilewright.errors import LaunchError, SourceLocation
from tilewright.interpreter.memory import Checks, Memory

CHECKS = ("masked", "unwritten", "undefined", "races", "views", "nonfinite", "overflow")
_PACKAGE = str(Path(__file__).resolve().parent.parent)

_chosen: ContextVar[frozenset[str]] = ContextVar("tilewright_debug_checks", default=frozenset())


@contextmanager
def checks(*names: str) -> Generator[None]:
    """Turn on checks for kernels that run as Python inside the `with`.

    Args:
        names: of "masked" (lanes masked off must be inside their array too), "unwritten" (see
            `mark_unwritten`), "undefined" (uses of lanes that the mask of a load without `other=`
            turned off), "races" (programs that meet at an address), "views" (a view may be
            used only within its own extent), "nonfinite" (the first NaN or infinity made of finite
            numbers), "overflow" (signed integer arithmetic that wraps); none: all but "views".

    Raises LaunchError for an unknown name.
    """
    chosen = check_names(names or [n for n in CHECKS if n != "views"])
    token = _chosen.set(_chosen.get() | chosen)
    try:
        yield
    finally:
        _chosen.reset(token)


def check_names(names: Any) -> frozenset[str]:
    """`names` as a set; "all" stands for all but "views". Raises LaunchError for unknown ones."""
    chosen: set[str] = set()
    for name in names:
        if name in ("all", "1", "on", "true"):
            chosen.update(n for n in CHECKS if n != "views")
        elif name in CHECKS:
            chosen.add(name)
        else:
            raise LaunchError(
                f"there is no debug check '{name}'", help=f"choose from {', '.join(CHECKS)}, all"
            )
    return frozenset(chosen)


def active_checks() -> Checks:
    """The checks of the surrounding `with checks(...)` and of TILEWRIGHT_DEBUG_CHECKS."""
    names = _chosen.get() | check_names(config.current().debug_checks)
    return Checks(**{name: name in names for name in CHECKS})


class EagerContext:
    """The state that operations see while a kernel runs as Python.

    Attributes:
        grid: extents of the launch; program: coordinates of the running program.
        memory: the arrays of the launch.
    """

    def __init__(self, grid: tuple[int, int, int], memory: Memory) -> None:
        self.grid = grid
        self.memory = memory
        self.program: tuple[int, int, int] = (0, 0, 0)
        self.codes: dict[CodeType, str] = {}

    @property
    def location(self) -> SourceLocation | None:
        """The kernel line that is running, with its callers when it is in a helper."""
        return self.location_from(sys._getframe(1))

    def location_from(self, frame: FrameType | None) -> SourceLocation | None:
        """The innermost kernel line among `frame` and its callers."""
        found = []
        while frame is not None:
            found.append((frame, frame.f_lasti, frame.f_lineno))
            frame = frame.f_back
        return self._innermost(reversed(found))

    def location_of_error(self, error: BaseException) -> SourceLocation | None:
        """The innermost kernel line that `error` came through."""
        found, trace = [], error.__traceback__
        while trace is not None:
            found.append((trace.tb_frame, trace.tb_lasti, trace.tb_lineno))
            trace = trace.tb_next
        return self._innermost(found)

    def _innermost(self, frames: Iterable[tuple[FrameType, int, int]]) -> SourceLocation | None:
        location: SourceLocation | None = None
        for frame, instruction, line in frames:  # from the outermost on
            name = self._kernel_name(frame)
            if name:
                location = place(frame.f_code, instruction, line, name, location)
        return location

    def _kernel_name(self, frame: FrameType) -> str:
        name = self.codes.get(frame.f_code)
        if name:
            return name
        if frame.f_code.co_name.startswith("<") and frame.f_back is not None:  # comprehensions
            outer = self.codes.get(frame.f_back.f_code)
            same = frame.f_back.f_code.co_filename == frame.f_code.co_filename
            return outer if outer and same else ""
        return ""


def place(
    code: CodeType, instruction: int, line: int, name: str, caller: SourceLocation | None
) -> SourceLocation:
    """Where an instruction of `code` stands in its file."""
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    column, end = 0, None
    if positions is not None and positions[0] == line and positions[2] is not None:
        column = positions[2]
        end = positions[3] if positions[1] == line else None
    return SourceLocation(code.co_filename, line, column, end, name, caller)
