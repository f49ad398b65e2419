"""Exclude this package's functions from the tracing of torch.compile (Dynamo).

Dynamo traces into every call: otherwise it would trace this compiler for
half a minute and warn about untraceable code. This module does not import torch.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_waiting: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions marked before torch was imported."""


def dynamo_disabled(function: Callable[P, R]) -> Callable[P, R]:
    """`function` itself, marked: torch.compile runs it and its callees untraced.

    Launches call such functions, some of them attributed to user files, and a wrapper would add overhead. Functions
    marked before torch was loaded are registered with the first one marked after; a launch of tensors marks one.
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
    """Make torch's frame evaluation hook skip a code object."""
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    elif hasattr(frames, "skip_code"):  # older versions of torch
        frames.skip_code(code)
