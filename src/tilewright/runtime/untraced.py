"""Keep torch.compile out of this package.

It follows whatever a function calls, as far as it can: left to itself, through this compiler, for
half a minute and with warnings of what it cannot follow. Nothing of torch is imported for it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_told: list[Any] = []


def _dynamo() -> Any:
    """`torch._dynamo` where something has loaded it, told once to leave this package's files alone."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    if getattr(dynamo, "disable", None) is None:  # perhaps it is being imported
        return None
    if dynamo not in _told:
        _told.append(dynamo)
        rules: Any = sys.modules.get("torch._dynamo.trace_rules")
        if hasattr(rules, "add"):
            rules.add("tilewright")
    return dynamo


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, and all that it calls, for calls that torch.compile may be looking at."""

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        dynamo = _dynamo()
        work: Any = function if dynamo is None else dynamo.disable(function)
        return work(*arguments, **keywords)

    return call


def untraced_code(function: Callable[P, R]) -> Callable[P, R]:
    """`function` itself, marked: torch.compile runs it as it is (but looks at what it calls).

    It stands in a file of the user's, and is called at every launch: a wrapper would cost.
    """
    if _dynamo() is not None:
        skip: Any = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "skip_code", None)
        if skip is not None:
            skip(function.__code__)
        vars(function)["_torchdynamo_disable"] = True
    return function
