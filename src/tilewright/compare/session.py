"""The parent process of a comparison: starts workers, watches their time, collects rows."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright import config
from tilewright.compare.worker import Job
from tilewright.errors import LaunchError

_POLL_SECONDS = 0.05
_LOG_LINES = 12


@dataclass
class Comparison:
    """The rows of a program, as mappings (`replay.Row.as_dict`)."""

    program: str
    gpu: str = ""
    """Empty: results only, on the CPU."""
    failure: str = ""
    """What ended the program under Triton, if something did."""
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


def compare_program(
    program: str,
    arguments: tuple[str, ...] = (),
    pattern: str = "",
    limits: Limits | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Comparison:
    """Run a program with Triton and replay the largest launch of each kernel under both compilers.

    `progress` is called with each finished row. A kernel that kills its process or exceeds its time gets a row that
    says so, and the program is run again for the others. Raises LaunchError where Triton is not installed, there is no
    such program, or nothing was launched.
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
        job = Job(program, arguments, str(Path(folder) / "events"), (), pattern)
        found = session.run(replace(job, seconds=session.limits.timing))
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
            worker = _Worker(self.folder, job, self.limits)
            ended = worker.wait()
            self.log = worker.log()
            found.gpu, found.failure = worker.gpu, found.failure or worker.failure
            for row in worker.rows.values():
                found.rows.append(row)
                self.progress(row)
            if ended == "done" or not worker.started:
                found.failure = found.failure or ("" if ended in ("done", "lost") else ended)
                return found
            job = replace(job, skipped=(*job.skipped, *worker.rows))


class _Worker:
    """A worker process and its events so far."""

    def __init__(self, folder: Path, job: Job, limits: Limits) -> None:
        self.limits, self.rows = limits, dict[str, dict[str, Any]]()
        self.gpu = self.failure = self.started = ""
        self._known: dict[str, dict[str, Any]] = {}
        self._events, self._log = Path(job.events), folder / "log"
        self._events.write_text("", encoding="utf-8")
        job.save(folder / "job.json")
        self._position, self._state = 0, "running"
        environment = config.environment_of_child()
        if not _has_gpu():
            environment["TRITON_INTERPRET"] = "1"  # read when Triton is imported
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tilewright.compare.worker", str(folder / "job.json")],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
            )  # fmt: skip
        self._mark = time.monotonic()

    def wait(self) -> str:
        """Wait for the end: `done`, `lost` (a kernel broke the GPU's context), or why it was ended."""
        while True:
            alive = self._process.poll() is None
            self._read()
            if not alive:
                break
            limit = self.limits.kernel if self.started else self.limits.program
            if time.monotonic() - self._mark > limit:
                self._process.kill()
                self._process.wait()
                self._read()
                return self._end("time limit", f"no result within {limit:g} s")
            time.sleep(_POLL_SECONDS)
        if self._state in ("done", "lost"):
            return self._state
        return self._end("fault", f"the process ended with status {self._process.returncode}")

    def log(self) -> str:
        """The last lines of what the program printed."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.rstrip().splitlines()[-_LOG_LINES:])

    def _end(self, status: str, reason: str) -> str:
        """Give the kernel that was being replayed a row."""
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
        self._mark = time.monotonic()
        match event["event"]:
            case "begin":
                self.gpu = event["gpu"]
            case "failed":
                self.failure = event["error"]
            case "recorded":
                self._known = {row["kernel"]: row for row in event["kernels"]}
            case "start":
                self.started = event["kernel"]
            case "row":
                self.rows[event["row"]["kernel"]] = event["row"]
            case "done" | "lost":
                self._state = event["event"]
            case _:
                pass


def _has_gpu() -> bool:
    """Whether torch has a GPU."""
    import torch

    return torch.cuda.is_available()
