"""`AsyncCompileMode`: `kernel.warmup` hands compilations to an executor instead of waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar, Token
from typing import Any, Self

from tilewright.errors import LaunchError


class AsyncCompileMode:
    """In a `with`, `kernel.warmup(...)` compiles in `executor` and returns a `FutureKernel`.

    A launch waits for a pending compilation of its kernel, or compiles it if there is none. The end of the `with`
    waits for all, and raises the first error unless `ignore_errors`.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor, self.ignore_errors = executor, ignore_errors
        self._futures: dict[Any, FutureKernel] = {}
        self._token: Token[AsyncCompileMode | None] | None = None

    def submit(self, key: Any, compile: Callable[[], Any]) -> FutureKernel:
        """Submit a compilation to the executor, unless one with the same key has been submitted."""
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
    """A kernel being compiled; attribute access waits for and forwards to the compiled kernel."""

    def __init__(self, future: Future[Any]) -> None:
        self.future = future

    def result(self) -> Any:
        """The compiled kernel. Raises the error of its compilation."""
        return self.future.result()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "future":
            raise AttributeError(name)
        return getattr(self.result(), name)


active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("active_mode", default=None)


def compile_in_mode(key: Any, compile: Callable[[], Any]) -> Any:
    """The result of `compile`; in an `AsyncCompileMode`, a `FutureKernel` for it, one per key."""
    mode = active_mode.get()
    return compile() if mode is None else mode.submit(key, compile)
