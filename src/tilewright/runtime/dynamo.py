"""Keep torch.compile out of this package.

It follows whatever a function calls, as far as it can: left to itself, through this compiler, for
half a minute and with warnings of what it cannot follow. Nothing of torch is imported for it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_waiting: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions that were marked before torch was there to be told."""


def dynamo_disabled(function: Callable[P, R]) -> Callable[P, R]:
    """`function` itself, marked: torch.compile runs it, and what it calls, as it is.

    Launches go through such functions, some of which stand in files of the user's: a wrapper would cost. Those
    marked before torch was loaded are told to it with the first one after: a launch of tensors makes one.
    """
    vars(function)["_torchdynamo_disable"] = True
    _waiting.add(function)
    frames: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if frames is not None:
        for each in list(_waiting):
            _skip(frames, each.__code__)
        _waiting.clear()
    return function


def _skip(frames: Any, code: Any) -> None:
    """Tell torch's hook of frames."""
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    elif hasattr(frames, "skip_code"):  # older versions of torch
        frames.skip_code(code)
