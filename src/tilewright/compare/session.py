"""The parent process of a comparison: starts workers, watches their time, collects rows."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tilewright import config
from tilewright.compare.worker import Job
from tilewright.errors import LaunchError


@dataclass
class Comparison:
    """The rows of a program, as mappings (of `replay.Row`)."""

    program: str
    gpu: str = ""
    """Empty: results only, on the CPU."""
    failure: str = ""
    """The error that ended the program under Triton, or ""."""
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Limits:
    """Seconds."""

    program: float = 600.0
    """For the program itself, under Triton."""
    kernel: float = 120.0
    """For the replay of one kernel, its compilation by both included."""
    timing: float = 1.0
    """For timing one kernel."""


@dataclass(frozen=True)
class Choice:
    """Which launches are replayed."""

    pattern: str = ""
    """Compare only kernels whose name matches this regular expression."""
    specializations: int = 1
    """Maximum number of launches per kernel that differ in constants or types."""
    configurations: int = 0
    """Maximum number of configurations per autotuner; 0: all."""


def compare_program(
    program: str,
    arguments: tuple[str, ...] = (),
    limits: Limits | None = None,
    choice: Choice | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Comparison:
    """Run a program with Triton and replay the largest launch of each kernel under both compilers.

    `progress` is called with each finished row. The row of a kernel that kills its process or exceeds its time limit
    reports that, and the program is re-run for the remaining kernels. Raises LaunchError if Triton is not installed,
    the program does not exist, or no kernel was launched.
    """
    if importlib.util.find_spec("triton") is None:
        raise LaunchError(
            "tilewright compare runs the program with Triton, which is not installed",
            help="pip install triton",
        )
    if importlib.util.find_spec("torch") is None:
        raise LaunchError("Triton needs torch, which is not installed", help="pip install torch")
    if program.endswith(".py") and not Path(program).is_file():
        raise LaunchError(f"there is no file {program}")
    with tempfile.TemporaryDirectory(prefix="tilewright-compare-") as folder:
        session = _Session(Path(folder), limits or Limits(), progress or (lambda row: None))
        choice, events = choice or Choice(), str(Path(folder) / "events")
        job = Job(
            program, arguments, events, (), choice.pattern, session.limits.timing,
            configurations=choice.configurations, specializations=choice.specializations,
        )  # fmt: skip
        found = session.run(job)
    if not found.rows:
        raise LaunchError(
            found.failure or f"{program} launched no kernel of Triton's",
            help=session.log or "run the program with Python first; --kernel may exclude all kernels",
        )  # fmt: skip
    return found


@dataclass
class _Session:
    folder: Path
    limits: Limits
    progress: Callable[[dict[str, Any]], None]
    log: str = ""

    def run(self, job: Job) -> Comparison:
        """Start workers until every kernel has its row."""
        found = Comparison(job.program)
        while True:
            worker = WorkerProcess(self.folder, job)
            ended = worker.wait(self.limits.program, self.limits.kernel)
            self.log = worker.log()
            found.gpu, found.failure = worker.gpu, found.failure or worker.failure
            for row in worker.rows.values():
                found.rows.append(row)
                self.progress(row)
            if ended == "done" or not worker.started:
                found.failure = found.failure or ("" if ended in ("done", "lost") else ended)
                return found
            job = replace(job, skipped=(*job.skipped, *worker.rows))


_POLL_SECONDS = 0.05
_LOG_LINES = 12


class Process(Protocol):
    """The part of `subprocess.Popen` in use."""

    pid: int
    returncode: int | None
    stdin: Any

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def kill(self) -> None: ...


def start_process(job: Path, log: Path) -> Process:
    """Start a worker."""
    import torch

    environment = config.environment_of_child(MPLBACKEND="Agg")  # plots open no windows
    if not torch.cuda.is_available():
        environment["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "tilewright.compare.worker", str(job)],
            stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip


class WorkerProcess:
    """A worker process and its events so far.

    Args:
        start: starts a process for a job file, with a file for the program's output.
    """

    def __init__(
        self, folder: Path, job: Job, start: Callable[[Path, Path], Process] = start_process
    ) -> None:
        self.job, self.rows = job, dict[str, dict[str, Any]]()
        self.gpu = self.failure = self.started = ""
        self.state = "running"
        """`recorded`, `ready` (holds before timing), `done`, `lost` (a kernel broke the GPU's context)."""
        self.mark = time.monotonic()
        """The time of the last event."""
        self._known: dict[str, dict[str, Any]] = {}
        self._events, self._log = Path(job.events), folder / "log"
        self._events.write_text("", encoding="utf-8")
        job.save(folder / "job.json")
        self._position = 0
        self.process = start(folder / "job.json", self._log)
        if not job.hold:
            self.process.stdin.close()

    def poll(self) -> bool:
        """Take in new events. Returns whether the process is alive."""
        alive = self.process.poll() is None
        self._read()
        return alive

    def wait(self, program_seconds: float, kernel_seconds: float) -> str:
        """Wait for the end: `done`, `lost`, or why it was ended."""
        while self.poll():
            limit = kernel_seconds if self.started else program_seconds
            if time.monotonic() - self.mark > limit:
                return self.end(f"no result within {limit:g} s")
            time.sleep(_POLL_SECONDS)
        return self.ended()

    def ended(self) -> str:
        """`done`, `lost`, or how a process that is not alive has ended."""
        if self.state in ("done", "lost"):
            return self.state
        return self._blame("fault", f"the process ended with status {self.process.returncode}")

    def end(self, reason: str) -> str:
        """Terminate the process; report `reason` in the row of the kernel being replayed."""
        self.process.kill()
        self.process.wait()
        self._read()
        return self._blame("time limit", reason)

    def go(self, seconds: float) -> None:
        """Let a worker that holds time its kernels."""
        self.state = "timing"
        with contextlib.suppress(BrokenPipeError):  # the process has exited; `poll` reports it
            self.process.stdin.write(f"{seconds:.2f}\n".encode())
            self.process.stdin.flush()
        self.mark = time.monotonic()

    def pause(self) -> None:
        """Stop the process where it is."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on; the pause does not count as its time."""
        self._send(signal.SIGCONT)
        self.mark = time.monotonic()

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def log(self) -> str:
        """The last lines of the program's output."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.rstrip().splitlines()[-_LOG_LINES:])

    def _blame(self, status: str, reason: str) -> str:
        """Add a row for the kernel being replayed."""
        if self.started:
            row = self.rows.get(self.started) or self._known[self.started]
            compiled = row["triton"]["registers"] is not None or row["triton_error"] is not None
            side = "tilewright" if compiled else "triton"
            row["status"], row[side]["error"] = status, reason
            self.rows[self.started] = row
        return reason

    def _read(self) -> None:
        """Take in new events."""
        with self._events.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.splitlines():
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        self.mark = time.monotonic()
        match event["event"]:
            case "begin":
                self.gpu = event["gpu"]
            case "failed":
                self.failure = event["error"]
            case "recorded":
                self._known = {row["kernel"]: row for row in event["kernels"]}
                self.state = "recorded"
            case "start":
                self.started = event["kernel"]
            case "row":
                self.rows[event["row"]["kernel"]] = event["row"]
            case "ready":
                self.started, self.state = "", "ready"
            case "done" | "lost":
                self.state = event["event"]
            case _:
                pass
