"""Errors as users get them: without this package's frames, with the line that called."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType, TracebackType

from tilewright import config
from tilewright.errors import SourceLocation, TilewrightError

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def _is_own(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(_PACKAGE) or "_tw_extra" in code.co_varnames


def caller_location() -> SourceLocation | None:
    """Where the user's code called into this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    if frame is None:
        return None
    line, column, end = frame.f_lineno, 0, None
    positions = list(frame.f_code.co_positions())
    if 0 <= frame.f_lasti // 2 < len(positions):
        start, stop, first, last = positions[frame.f_lasti // 2]
        if start is not None and first is not None:
            line, column = start, first
            end = last if start == stop else None
    return SourceLocation(frame.f_code.co_filename, line, column, end)


def without_own_frames(error: TilewrightError) -> TilewrightError:
    """`error` with this package's frames cut from its traceback, unless the settings keep them."""
    if config.current().full_traceback:
        return error
    kept = []
    trace = error.__traceback__
    while trace is not None:
        if not _is_own(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    chain: TracebackType | None = None
    for trace in reversed(kept):
        chain = TracebackType(chain, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    error.__traceback__ = chain
    if error.__cause__ is None:
        error.__suppress_context__ = True
    return error
