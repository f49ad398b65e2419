"""Runs cases in processes of their own, and stops all others while one of them times its kernels."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.compare.session import WorkerProcess
from tilewright.compare.worker import Job

GOOD = ("agrees", "nondeterministic")
_SETTLE_SECONDS = 0.4
"""Between stopping processes and timing: what they have queued on the GPU runs meanwhile."""
_PR_SET_PDEATHSIG = 1
_RETRIES = 3
"""Of a case whose process a kernel has ended, without that kernel."""


class Forked:
    """A process that starts from what this one has imported. Meant for `WorkerProcess`."""

    returncode: int | None = None

    def __init__(self, work: Callable[[Job], None], job: Path, log: Path) -> None:
        end, begin = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                os.close(begin)
                code = _in_child(work, job, log, end)
            os._exit(code)
        os.close(end)
        self.stdin = os.fdopen(begin, "wb")

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        code = self._reap(0)
        return -1 if code is None else code

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(BrokenPipeError):
                    self.stdin.close()
        return self.returncode


def _in_child(work: Callable[[Job], None], job: Path, log: Path, end: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(AttributeError, OSError):  # Linux: end with the parent
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(end, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdin = os.fdopen(0)
    try:
        work(Job.load(job))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


@dataclass
class Case:
    """A program, and what is known of it so far."""

    name: str
    job: Job
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: str = ""
    seconds: float = 0.0
    tries: int = 0
    alone: bool = False
    """Whether it ran out of memory beside others."""
    gpu: str = ""

    def record(self) -> dict[str, Any]:
        rows = [_short(row) for row in self.rows.values()]
        return {"failure": self.failure, "seconds": round(self.seconds, 1), "rows": rows}


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the first missed form of its accesses only."""
    row = dict(row)
    missed = [a for a in row.pop("accesses", []) if a.get("missed")]
    if missed:
        first = missed[0]
        row["access"] = f"{first['line']}: {first['forms'][0]}; {first['missed'][0]['code']}"
    return row


@dataclass
class Running:
    """A case's process."""

    case: Case
    worker: WorkerProcess
    begun: float = field(default_factory=time.monotonic)
    paused: float = 0.0

    def age(self) -> float:
        return time.monotonic() - self.begun - self.paused


@dataclass
class Pool:
    """Args:
    jobs: processes at once; limit: seconds in all; case_limit: of one case before timing; timing: of one case's timing;
    batch: cases that wait before the others are stopped.
    """

    work: Callable[[Job], None]
    jobs: int
    limit: float
    case_limit: float
    timing: float
    finished: Callable[[Case], None]
    batch: int = 8
    began: float = field(default_factory=time.monotonic)

    def run(self, todo: list[Case]) -> None:
        """Run cases until all are finished or the time is over. Those that were not finished are not reported."""
        running: list[Running] = []
        ready: list[Running] = []
        with tempfile.TemporaryDirectory(prefix="third-party-speed-") as folder:
            try:
                while todo or running or ready:
                    late = self._left() < min(45.0, self.limit / 4)
                    if late:
                        self._give_up(running)
                        todo.clear()
                    self._start(todo, running, ready, Path(folder))
                    time.sleep(0.05)
                    for one in tuple(running):
                        self._step(one, running, ready, todo)
                    if ready and (len(ready) >= self.batch or not running):
                        self._time(ready, running, todo)
            finally:
                self._give_up([*running, *ready])

    def _left(self) -> float:
        return self.limit - (time.monotonic() - self.began)

    def _start(self, todo: list[Case], running: list[Running], ready: list[Running], folder: Path) -> None:  # fmt: skip
        while todo and len(running) < self.jobs:
            if any(one.case.alone for one in running):
                return
            if todo[0].alone and (running or ready):
                return
            case = todo.pop(0)
            own = folder / f"{case.name.replace('/', '_')}_{case.tries}"
            own.mkdir()
            job = replace(case.job, events=str(own / "events"))
            worker = WorkerProcess(own, job, lambda job, log: Forked(self.work, job, log))
            running.append(Running(case, worker))

    def _step(self, one: Running, running: list[Running], ready: list[Running], todo: list[Case]) -> None:  # fmt: skip
        alive, state = one.worker.poll(), one.worker.state
        if state == "ready" and alive:
            running.remove(one)
            ready.append(one)
        elif not alive or one.age() > self.case_limit:
            running.remove(one)
            self._finish(one, todo)

    def _time(self, ready: list[Running], running: list[Running], todo: list[Case]) -> None:
        """Stop what runs, and let one case after another time its kernels."""
        stopped = time.monotonic()
        for one in running:
            one.worker.pause()
        time.sleep(_SETTLE_SECONDS)
        while ready:
            one = ready.pop(0)
            give = max(0.3, min(self.timing, self._left() - 8))
            one.worker.go(give)
            end = time.monotonic() + give + 10
            while one.worker.poll() and time.monotonic() < end:
                time.sleep(0.01)
            self._finish(one, todo)
        for one in running:
            one.paused += time.monotonic() - stopped
            one.worker.resume()

    def _finish(self, one: Running, todo: list[Case]) -> None:
        """Take over a case's rows; a case that a kernel has ended is run again without it."""
        worker, case = one.worker, one.case
        if worker.poll():
            worker.end(f"not done within its time ({one.age():.0f} s, {worker.state})")
            outcome = "time limit"
        else:
            outcome = worker.ended()
        case.seconds += one.age()
        case.failure, case.gpu = worker.failure, worker.gpu
        fresh = [r for r in worker.rows.values() if not _unfinished(r)]
        exhausted = any("OutOfMemory" in text for text in _errors(worker))
        case.tries += 1
        if exhausted and not case.alone:
            case.alone = True
            todo.append(case)
            return
        case.rows |= {row["kernel"]: row for row in fresh}
        again = outcome != "done" and bool(worker.started) and case.tries <= _RETRIES
        if again and worker.started in case.rows:
            case.job = replace(case.job, skipped=tuple(case.rows))
            todo.insert(0, case)
            return
        case.rows |= {row["kernel"]: row for row in worker.rows.values()}
        if outcome != "done":
            case.failure = case.failure or f"{outcome}: {worker.log()[-300:]}"
        self.finished(case)

    def _give_up(self, running: list[Running]) -> None:
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                one.worker.process.kill()
            one.worker.process.wait()
        running.clear()


def _unfinished(row: dict[str, Any]) -> bool:
    """Whether a row's kernel has not been timed although its results agree."""
    return row["status"] in ("", *GOOD) and row["ratio"] is None and not row["tilewright"]["error"]


def _errors(worker: WorkerProcess) -> list[str]:
    sides = [row[side] for row in worker.rows.values() for side in ("triton", "tilewright")]
    texts = [text for side in sides for text in (side["error"], *side["failed"].values())]
    return [*texts, worker.failure]
