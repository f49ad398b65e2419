"""The process that runs the program: `python -m tilewright.compare.worker JOB.json`.

Events go to the job's file as lines of JSON: `recorded` with the kernels, `start` before each replay, `row` after each
step of it, `done`. The parent can read them even if this process crashes. With `hold`, the worker writes `ready` once
all results are compared, and times the kernels once the parent has sent the time limit in seconds to its input.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright import config
from tilewright.compare.program import run_program
from tilewright.compare.record import Launch, recording
from tilewright.compare.replay import Replay, Row, row_of, synchronize
from tilewright.compare.translate import Translator
from tilewright.errors import LaunchError
from tilewright.integrations.triton_driver import ActiveDriver


@dataclass(frozen=True)
class Job:
    """The task of a worker."""

    program: str
    """A file, or a module with `-m`'s meaning."""
    arguments: tuple[str, ...]
    events: str
    """The file that events are appended to."""
    skipped: tuple[str, ...] = ()
    """Kernels that have their rows already."""
    pattern: str = ""
    """Only kernels whose name matches this regular expression."""
    seconds: float = 0.0
    """For timing each kernel; 0: results only."""
    hold: bool = False
    """Wait for the parent before timing."""
    configurations: int = 0
    """Maximum number per autotuner; 0: all."""
    specializations: int = 1
    """Launches of a kernel that differ in constants or types."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Job:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        for name in ("arguments", "skipped"):
            content[name] = tuple(content[name])
        return Job(**content)


class Events:
    """Appends events to the job's file; each is complete once the call returns."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, event: str, **content: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **content}, default=str) + "\n")


def work(job: Job) -> None:
    """Run the program with Triton, then replay its kernels."""
    say = Events(job.events)
    say("begin", gpu=_gpu_name())
    options = frozenset(job.skipped), job.specializations, job.configurations
    with _as_gpu_program(), recording(*options) as recorder:
        error = run_program(job.program, job.arguments, lambda: bool(recorder.launches))
        if error:
            say("failed", error=error)
        launches = [x for x in recorder.launches.values() if re.search(job.pattern, x.key)]
        say("recorded", kernels=[asdict(row_of(launch)) for launch in launches])
        translator = Translator()
        held: list[Replay] = []
        with recorder.paused():
            for launch in launches:
                say("start", kernel=launch.key)
                replay = Replay(launch, translator, recorder.candidates(launch))
                _tell(say, replay.check(lambda row: _tell(say, row)))
                if _context_lost(launch):
                    say("lost", kernel=launch.key)
                    return
                timed = bool(job.seconds) and _on_gpu(launch) and replay.can_be_timed
                if timed and not job.hold:
                    _time(replay, job.seconds, say)
                if timed and job.hold:
                    held.append(replay)
                else:
                    _forget(launch)  # memory for the others
            if job.hold:
                _time_when_told(held, job.seconds, say)
    say("done")


def _time(replay: Replay, seconds: float, say: Events) -> None:
    try:
        replay.time(seconds)
    except Exception as error:
        replay.row.tilewright.error = f"not timed: {type(error).__name__}: {error}"[:400]
    _tell(say, replay.row)


def _time_when_told(replays: list[Replay], seconds: float, say: Events) -> None:
    """Wait for the seconds that timing may take, then time one kernel after another."""
    if any(map(_on_gpu, (replay.launch for replay in replays))):
        import torch

        torch.cuda.empty_cache()
    say("ready", kernels=len(replays))
    limit = float(sys.stdin.readline() or 0.0)
    end = time.monotonic() + limit
    each = min(seconds, max(0.2, limit / max(1, len(replays)) / 1.6))
    for replay in replays:
        say("start", kernel=replay.launch.key)
        if time.monotonic() > end:
            replay.row.tilewright.error = "not timed: no time left"
            _tell(say, replay.row)
        else:
            _time(replay, each, say)
        _forget(replay.launch)


def _forget(launch: Launch) -> None:
    """Free the copies of a launch's arguments."""
    launch.arguments, launch.options, launch.tuned = (), {}, None


def _on_gpu(launch: Launch) -> bool:
    return launch.device is not None and launch.device.type == "cuda"


def _tell(say: Events, row: Row) -> None:
    say("row", row=asdict(row))


def _gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _context_lost(launch: Launch) -> bool:
    """Whether a fault of a kernel has made the GPU unusable for this process."""
    try:
        synchronize(launch.device)
    except RuntimeError:
        return True
    return False


def _as_gpu_program() -> contextlib.AbstractContextManager[Any]:
    """Without a GPU: map "cuda" to the CPU and install a matching Triton driver."""
    import torch

    if torch.cuda.is_available():
        return contextlib.nullcontext()
    from tilewright.integrations.cuda_on_cpu import cuda_on_cpu

    knobs: Any = importlib.import_module("triton.knobs")
    knobs.runtime.interpret = True  # from here on the variable would make tilewright interpret, too
    config.set_variable("TRITON_INTERPRET", None)
    driver: Any = importlib.import_module("triton.runtime.driver")
    getattr(driver, "driver", driver).set_active(_CpuDriver())
    return cuda_on_cpu()


class _CpuDriver(ActiveDriver):
    """Triton's driver interface as far as programs ask for it when kernels are interpreted."""

    def get_benchmarker(self) -> Any:
        """Configurations are not timed in an interpreter: the first wins."""
        return lambda call, quantiles=None, **_: [1.0] * len(quantiles or (0,))

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda


def main() -> None:
    """Entry of the process."""
    try:
        importlib.import_module("triton.runtime.jit")
    except ImportError as error:
        raise LaunchError(f"Triton cannot be imported: {error}") from error
    work(Job.load(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
