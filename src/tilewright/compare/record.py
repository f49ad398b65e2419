"""Record the largest launch of each kernel of a program that runs with Triton."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.compare.snapshot import Copier, bytes_in, tensors_in

_OWN_OPTIONS = ("grid", "warmup")


@dataclass
class Launch:
    """The largest launch of a kernel so far: what replays need."""

    kernel: Any
    """Triton's jit function, below autotuners and heuristics."""
    key: str
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    """Keyword arguments: parameters (the chosen configuration's among them) and launch options."""
    bytes: int
    device: Any = None
    launches: int = 1

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments in new memory, on the device of the launch."""
        return Copier(self.device)((self.arguments, self.options))

    def named(self) -> dict[str, Any]:
        """Parameters by name; positional arguments beyond the last parameter are left out."""
        return {**dict(zip(self.kernel.arg_names, self.arguments, strict=False)), **self.options}


@dataclass
class Recorder:
    """Launches by kernel. Launches of an autotuner that measures do not count."""

    skipped: frozenset[str] = frozenset()
    launches: dict[str, Launch] = field(default_factory=dict)
    tuning: int = 0
    pauses: int = 0

    def saw(self, kernel: Any, grid: Any, arguments: tuple[Any, ...], options: Any) -> None:
        """Take note of a launch that is about to run."""
        key = key_of(kernel)
        if self.tuning or self.pauses or key in self.skipped:
            return
        named = {n: v for n, v in options.items() if n not in _OWN_OPTIONS}
        size = bytes_in((arguments, named))
        found = self.launches.get(key)
        if found is not None:
            found.launches += 1
            if size <= found.bytes:
                return
        shape = _grid(kernel, grid, arguments, named)
        devices = [t.device for t in tensors_in((arguments, named))]
        kept, kept_options = Copier(_storage_device(devices, size))((arguments, named))
        count = found.launches if found is not None else 1
        device = devices[0] if devices else None
        self.launches[key] = Launch(kernel, key, shape, kept, kept_options, size, device, count)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not record meanwhile."""
        self.pauses += 1
        try:
            yield
        finally:
            self.pauses -= 1


def key_of(kernel: Any) -> str:
    """A kernel's name, the same in every run of the program."""
    function = kernel.fn
    module = getattr(function, "__module__", "")
    name = getattr(function, "__qualname__", function.__name__)
    return name if module == "__main__" else f"{module}.{name}"


def _grid(kernel: Any, grid: Any, arguments: Any, options: dict[str, Any]) -> tuple[int, ...]:
    """The launch grid as numbers."""
    if callable(grid):
        import inspect

        parameters = inspect.signature(kernel.fn).parameters.values()
        bound = {p.name: p.default for p in parameters if p.default is not p.empty}
        bound.update(zip(kernel.arg_names, arguments, strict=False))
        grid = grid({**bound, **options})
    return tuple(int(n) for n in (grid if isinstance(grid, (tuple, list)) else (grid,)))


def _storage_device(devices: list[Any], size: int) -> Any:
    """Where to keep a copy: on the GPU (None: with the originals) as long as there is plenty of memory."""
    if not any(device.type == "cuda" for device in devices):
        return None
    import torch

    free, _ = torch.cuda.mem_get_info()
    return None if 6 * size < free else torch.device("cpu")


@contextmanager
def recording(skipped: frozenset[str] = frozenset()) -> Generator[Recorder]:
    """Record the launches of Triton's kernels until the end of the block."""
    jit: Any = importlib.import_module("triton.runtime.jit")
    autotuner: Any = importlib.import_module("triton.runtime.autotuner")

    recorder = Recorder(skipped)
    kinds = [jit.JITFunction, *_interpreted()]
    undo = [_replace(kind, "run", _recording_run(kind.run, recorder)) for kind in kinds]
    bench = autotuner.Autotuner._bench
    undo.append(_replace(autotuner.Autotuner, "_bench", _tuning_bench(bench, recorder)))
    try:
        yield recorder
    finally:
        for step in undo:
            step()


def _interpreted() -> list[Any]:
    try:
        module: Any = importlib.import_module("triton.runtime.interpreter")
    except ImportError:
        return []
    return [module.InterpretedFunction]


def _replace(kind: Any, name: str, value: Any) -> Callable[[], None]:
    old = vars(kind).get(name, getattr(kind, name))
    setattr(kind, name, value)
    return lambda: setattr(kind, name, old)


def _recording_run(run: Any, recorder: Recorder) -> Any:
    def run_and_record(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **more: Any) -> Any:  # fmt: skip
        if not warmup:
            recorder.saw(self, grid, args, more)
        return run(self, *args, grid=grid, warmup=warmup, **more)

    return run_and_record


def _tuning_bench(bench: Any, recorder: Recorder) -> Any:
    def bench_unrecorded(self: Any, *args: Any, **more: Any) -> Any:
        recorder.tuning += 1
        try:
            return bench(self, *args, **more)
        finally:
            recorder.tuning -= 1

    return bench_unrecorded
