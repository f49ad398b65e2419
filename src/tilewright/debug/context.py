"""The current program, kernel line and memory of eager mode, and the optional checks."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType

from tilewright import config
from tilewright.errors import LaunchError, SourceLocation
from tilewright.interpreter.memory import Checks, Memory

CHECKS = ("masked", "unwritten", "undefined", "races", "views", "nonfinite", "overflow")

_chosen: ContextVar[frozenset[str]] = ContextVar("tilewright_debug_checks", default=frozenset())


#: checks that correct kernels may fail, which "all" leaves out: masks may keep lanes out of an
#: array on purpose, and a view's pointer may be meant for the memory around it
ON_REQUEST = ("masked", "views")


@contextmanager
def checks(*names: str) -> Generator[None]:
    """Enable checks for interpreted kernels inside the `with`.

    Args:
        names: "masked" (masked-off lanes must be in bounds, too), "unwritten" (see
            `mark_unwritten`), "undefined" (uses of masked-off lanes of a load without `other=`),
            "races" (conflicting accesses by unordered programs), "views" (accesses through a view must
            stay within its extent), "nonfinite" (the first NaN or infinity computed from finite
            numbers), "overflow" (signed integer arithmetic that wraps); "all" or no names: all but
            "masked" and "views". "-races" excludes a check.

    Raises LaunchError for an unknown name.
    """
    token = _chosen.set(check_names(names or ("all",), _chosen.get()))
    try:
        yield
    finally:
        _chosen.reset(token)


def check_names(names: Iterable[str], before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Apply `names` to the set `before`, in order.

    "all" selects all checks except `ON_REQUEST`; "-name" removes one, from "all" if the set is
    empty. Raises LaunchError for unknown names.
    """
    usual = frozenset(CHECKS) - frozenset(ON_REQUEST)
    chosen = set(before)
    for at, name in enumerate(names):
        plain = name.removeprefix("-").strip()
        if plain in ("all", "1", "on", "true"):
            found = usual
        elif plain in CHECKS:
            found = frozenset((plain,))
        else:
            raise LaunchError(f"unknown debug check '{name}'", help=_names_help(plain))
        if plain == name:
            chosen |= found
        else:
            chosen = (set(usual) if not chosen and not at else chosen) - found
    return frozenset(chosen)


def _names_help(name: str) -> str:
    close = difflib.get_close_matches(name, (*CHECKS, "all"), 1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}choose from {', '.join(CHECKS)}, all; -name leaves one out"


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
                location = SourceLocation.of_instruction(
                    frame.f_code, instruction, line, name, location
                )
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
