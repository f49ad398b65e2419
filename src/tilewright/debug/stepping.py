"""Let pdb's `step` go from a kernel to its helper: hide this package's frames in between.

Works on any debugger made of `bdb.Bdb`. TILEWRIGHT_FULL_TRACEBACK=1 leaves such frames in.
"""

from __future__ import annotations

import bdb
import builtins
import functools
import pdb
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tilewright import config

_OWN = str(Path(__file__).resolve().parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
#: a name that only `rewrite.HELPERS` puts among builtins
_MARK = "__tilewright_and__"
_PACKAGES = ("site-packages", "dist-packages")


def hide_own_frames() -> None:
    """Let the debugger that is tracing this thread, if any, pass over this package's frames."""
    trace = sys.gettrace()
    debugger = getattr(trace, "__self__", None)
    if isinstance(debugger, bdb.Bdb) and not config.current().full_traceback:
        _hide_in(debugger)


def breakpoint_function() -> Callable[..., Any]:
    """`breakpoint` inside kernels: Python's, with a debugger that hides own frames.

    Python's very own where the user has chosen another hook than pdb.
    """
    if sys.breakpointhook is not sys.__breakpointhook__ or config.breakpoint_hook():
        return builtins.breakpoint
    return builtins.breakpoint if config.current().full_traceback else _breakpoint


def _breakpoint(*args: Any, **keywords: Any) -> None:
    debugger = getattr(sys.gettrace(), "__self__", None)
    if not isinstance(debugger, pdb.Pdb):
        debugger = pdb.Pdb()
    _hide_in(debugger)
    debugger.set_trace(sys._getframe().f_back)


def _hide_in(debugger: bdb.Bdb) -> None:
    if getattr(debugger.stop_here, "hides_tilewright", False):
        return
    stops = debugger.stop_here

    @functools.wraps(stops)
    def stop_here(frame: FrameType) -> bool:
        return stops(frame) and not _is_hidden(frame)

    setattr(stop_here, "hides_tilewright", True)  # noqa: B010
    debugger.stop_here = stop_here


def _is_hidden(frame: FrameType) -> bool:
    """Whether `frame` is this package's, or a library's that this package calls."""
    caller: FrameType | None = frame
    while caller is not None and not _is_kernel(caller) and _is_library(caller.f_code.co_filename):
        caller = caller.f_back
    return (
        caller is not None and not _is_kernel(caller) and caller.f_code.co_filename.startswith(_OWN)
    )


def _is_kernel(frame: FrameType) -> bool:
    """Whether `frame` runs a kernel or helper as Python (`python_names` are its builtins)."""
    return _MARK in frame.f_builtins


def _is_library(file: str) -> bool:
    """Whether `file` is installed code, or code made at run time ("<string>")."""
    if file.startswith(_OWN):
        return False
    installed = any(part in _PACKAGES for part in Path(file).parts)
    return installed or file.startswith(("<", *_LIBRARIES))
