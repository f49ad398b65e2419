"""`AsyncCompileMode`: `kernel.warmup` hands compilations to an executor instead of waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar, Token
from typing import Any, Self

from tilewright.errors import LaunchError


class AsyncCompileMode:
    """In a `with`, `kernel.warmup(...)` compiles in `executor` and gives a `FutureKernel`.

    A launch compiles what it needs and nobody has begun to, and waits for what somebody has. The end of the `with`
    waits for all, and raises the first error unless `ignore_errors`.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor, self.ignore_errors = executor, ignore_errors
        self._futures: dict[Any, FutureKernel] = {}
        self._token: Token[AsyncCompileMode | None] | None = None

    def submit(self, key: Any, compile: Callable[[], Any]) -> FutureKernel:
        """Let the executor compile; what it has begun under the same key is not begun again."""
        if key not in self._futures:
            self._futures[key] = FutureKernel(self.executor.submit(compile))
        return self._futures[key]

    def __enter__(self) -> Self:
        if active_mode.get() is not None:
            raise LaunchError("AsyncCompileMode inside of another", help="use one for both")
        self._token = active_mode.set(self)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._token is not None:
            active_mode.reset(self._token)
        errors = [f.future.exception() for f in self._futures.values()]
        failed = next((e for e in errors if e is not None), None)
        if failed is not None and not self.ignore_errors and raised[0] is None:
            raise failed


class FutureKernel:
    """A kernel that is being compiled; its attributes are those of the compiled one, once it is there."""

    def __init__(self, future: Future[Any]) -> None:
        self.future = future

    def result(self) -> Any:
        """The compiled kernel. Raises what its compilation did."""
        return self.future.result()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "future":
            raise AttributeError(name)
        return getattr(self.result(), name)


active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("active_mode", default=None)


def compile_in_mode(key: Any, compile: Callable[[], Any]) -> Any:
    """What `compile` gives; in an `AsyncCompileMode` a `FutureKernel` of it, one for each key."""
    mode = active_mode.get()
    return compile() if mode is None else mode.submit(key, compile)
