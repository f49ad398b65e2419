"""Execute a producer warp (`gpu.producer_warp`) as a coroutine, as late as possible.

It runs in a Python thread, but never concurrently with the program's warps: it is resumed when they wait for an
mbarrier, and runs until it waits itself or has done a step. A stage that a consumer has read and released
(`gpu.mbarrier_arrive`) is free once the producer has observed the end of the phase.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from tilewright.dialects import gpu
from tilewright.interpreter import Executor
from tilewright.interpreter.shared_memory import fault


class ProducerWarp:
    """The producer warp: a thread that runs when resumed, until it waits."""

    def __init__(self, run: Executor, body: Any) -> None:
        self._run, self._body = run, body
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self.over = False
        self.inside = False
        """Whether the caller is the producer warp."""
        self._blocked = False
        self._given_up = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self._mine.acquire()
        try:
            if not self._given_up:
                self._run.block(self._body)
        except _GivenUp:
            pass
        except BaseException as error:  # raised in the program when it resumes
            self._error = error
        self.over = True
        self._theirs.release()

    def resume(self) -> None:
        """Resume it until it waits. Raises its exceptions."""
        before = self._run.current
        self.inside = True
        self._mine.release()
        self._theirs.acquire()
        self.inside = False
        self._run.at(before)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def stop(self) -> None:
        """Let the program go on (called by the warp itself)."""
        before = self._run.current
        self._theirs.release()
        self._mine.acquire()
        if self._given_up:
            raise _GivenUp
        self._run.at(before)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Stop until something holds (called by the warp itself); once in any case, to be late."""
        self.stop()
        while not holds():
            self._blocked = True
            self.stop()
        self._blocked = False

    def catch_up(self, enough: Callable[[], bool]) -> None:
        """Let it run until it has done enough, is over, or cannot go on."""
        while not (enough() or self.over):
            self.resume()
            if self._blocked:
                return

    def give_up(self) -> None:
        """End the thread, the program having failed."""
        if not self.over:
            self._given_up = True
            self._mine.release()
            self._thread.join()


class _GivenUp(BaseException):
    """Raised in the thread of a role whose program is over."""


def _produce(run: Executor, op: gpu.ProducerWarpOp) -> list[Any]:
    run.shared.role = ProducerWarp(run, op.body.block)
    return []


def finish(run: Executor) -> None:
    """The program has ended; so must the other warp. Raises InterpreterError where it cannot."""
    role: ProducerWarp | None = run.shared.role
    if role is not None:
        role.catch_up(lambda: False)
        if not role.over:
            raise fault(run, "ends, but the producer warp waits for a stage (deadlock)")


def give_up(run: Executor) -> None:
    """Terminate it."""
    if run.shared.role is not None:
        run.shared.role.give_up()


HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {
    gpu.ProducerWarpOp: _produce,
}
