"""The parent process of a comparison: starts workers, watches their time, collects rows."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.compare.process import WorkerProcess
from tilewright.compare.worker import Job
from tilewright.errors import LaunchError


@dataclass
class Comparison:
    """The rows of a program, as mappings (`replay.Row.as_dict`)."""

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
