"""The process that runs the program: `python -m tilewright.compare.worker JOB.json`.

Events go to the job's file as lines of JSON: `recorded` with the kernels, `start` before each replay, `row` after each
step of it, `done`. The parent reads them also when this process has died.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import runpy
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright import config
from tilewright.compare.record import Launch, Recorder, recording
from tilewright.compare.replay import Replay, Row, row_of
from tilewright.compare.translate import Translator
from tilewright.errors import LaunchError


@dataclass(frozen=True)
class Job:
    """What a worker is to do."""

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
    with _as_gpu_program(), recording(frozenset(job.skipped)) as recorder:
        _run_program(job, say)
        launches = _chosen(recorder, job)
        say("recorded", kernels=[row_of(launch).as_dict() for launch in launches])
        translator = Translator()
        with recorder.paused():
            for launch in launches:
                say("start", kernel=launch.key)
                seconds = job.seconds if launch.device is not None and launch.device.type == "cuda" else 0.0  # fmt: skip
                row = Replay(launch, translator, seconds).run(lambda r: _tell(say, r))
                _tell(say, row)
                launch.arguments, launch.options = (), {}  # memory for the others
                if _context_lost(launch):
                    say("lost", kernel=launch.key)
                    return
    say("done")


def _tell(say: Events, row: Row) -> None:
    say("row", row=row.as_dict())


def _chosen(recorder: Recorder, job: Job) -> list[Launch]:
    import re

    return [x for x in recorder.launches.values() if re.search(job.pattern, x.key)]


def _run_program(job: Job, say: Events) -> None:
    """Run the program as `python PROGRAM` would. An exception is reported; what was launched before it counts."""
    path = Path(job.program)
    is_file = path.suffix == ".py" or path.exists()
    sys.argv = [job.program, *job.arguments]
    sys.path.insert(0, str(path.resolve().parent) if is_file else "")
    try:
        if is_file:
            _KEPT.append(runpy.run_path(job.program, run_name="__main__"))
        else:
            _KEPT.append(runpy.run_module(job.program, run_name="__main__", alter_sys=True))
    except SystemExit as end:
        if end.code not in (None, 0):
            say("failed", error=f"the program ended with exit status {end.code}")
    except Exception as error:
        traceback.print_exc()
        say("failed", error=f"{type(error).__name__}: {error}")


_KEPT: list[Any] = []
"""The program's globals: memory that kernels reach through pointers in memory stays allocated."""


def _gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _context_lost(launch: Launch) -> bool:
    """Whether a fault of a kernel has made the GPU unusable for this process."""
    if launch.device is None or launch.device.type != "cuda":
        return False
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _as_gpu_program() -> contextlib.AbstractContextManager[Any]:
    """Without a GPU: let "cuda" mean the CPU, and give Triton a driver that says so."""
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


class _CpuDriver:
    """Triton's driver interface as far as programs ask for it when kernels are interpreted."""

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_current_target(self) -> Any:
        from tilewright.language.target_info import GPUTarget

        return GPUTarget("cpu", "cpu", 1)

    def get_current_device(self) -> int:
        return 0

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
