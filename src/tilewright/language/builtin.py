"""Dispatch of the language's functions.

`tl.load` and the like are stubs: signature and documentation, no implementation. Each carries
`__tl_builtin__ = "<method of Semantics>"`. The front end calls that
method directly; in eager mode (`active_semantics` is set) the stub calls it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeVar

from tilewright.compile_time import constexpr
from tilewright.errors import CompilationError, TilewrightError

#: the `Semantics` that eager mode runs kernels with; None: kernels are not being run as Python
active_semantics: ContextVar[Any] = ContextVar("active_semantics", default=None)

#: keyword arguments that functions written for Triton forward to its compiler
_COMPILER_KEYWORDS = frozenset(("_semantic", "_builder", "_generator"))

F = TypeVar("F", bound=Callable[..., Any])


class OutsideKernelError(TilewrightError, RuntimeError):
    """A name of the kernel language was called by host code."""


def builtin(method: Any = None, *, host: Callable[..., Any] | None = None) -> Any:
    """Make a stub of the function below.

    `method` is the method of `Semantics` if it has another name; `host` is called outside kernels
    instead of raising `OutsideKernelError`. A bare `@builtin`, as in user programs, creates
    an `extern` that receives compile-time values as `constexpr`.
    """
    if callable(method):
        return _user_builtin(method)

    def decorate(fn: F) -> F:
        name = method or fn.__name__

        @functools.wraps(fn)
        def stub(*args: Any, **kwargs: Any) -> Any:
            semantics = active_semantics.get()
            if semantics is not None:
                given = {k: v for k, v in kwargs.items() if k not in _COMPILER_KEYWORDS}
                return getattr(semantics, name)(*args, **given)
            if host is not None:
                return host(*args, **kwargs)
            raise OutsideKernelError(
                f"tl.{fn.__name__} was called outside a kernel",
                help="call it in a function decorated with @jit and launch that: kernel[grid](...)",
            )

        marked: Any = stub
        marked.__tl_builtin__ = name
        return marked

    return decorate


def stub_like(model: F, name: str, text: str, method: str = "") -> F:
    """The stub `name` with the parameters of `model`, documented by `text`. `method`: as in `builtin`."""
    model = inspect.unwrap(model)
    copy: Any = FunctionType(model.__code__, model.__globals__, name, model.__defaults__)
    copy.__qualname__, copy.__doc__, copy.__annotations__ = name, text, model.__annotations__
    return builtin(method or name)(copy)


def _user_builtin(fn: F) -> F:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*map(_as_triton, args), **{k: _as_triton(v) for k, v in kwargs.items()})

    wrapped: Any = call
    return extern(wrapped)


def _as_triton(value: Any) -> Any:
    plain = value is None or isinstance(value, bool | int | float | str)
    return constexpr(value) if plain else value


def must_use_result(fn: Any, reason: str | bool = True) -> Any:
    """Make it an error to call `fn` in a kernel and leave its result unused.

    `@must_use_result("reason and fix")` adds this text to the error.
    """
    if isinstance(fn, str):
        return lambda function: must_use_result(function, fn)
    fn._must_use_result = reason
    return fn


def unused_result_error(function: Any, text: str) -> CompilationError | None:
    """The error for a call, written `text`, of a function whose result must be used; else None."""
    mark = getattr(function, "_must_use_result", False)
    if not mark:
        return None
    help = mark if isinstance(mark, str) else f"assign it, as in `x = {text}(...)`"
    return CompilationError(f"The result of {text} is not being used.", help=help)


def extern(fn: F) -> F:
    """Make a Python function callable from kernels at compile time (`tl.core.extern`).

    It receives the values, and its calls of `tl` functions become part of the kernel.
    """
    setattr(fn, "__tl_extern__", True)  # noqa: B010
    return fn
