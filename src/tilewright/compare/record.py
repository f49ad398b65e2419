"""Record the largest launch of each kernel of a program that runs with Triton."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tilewright.compare.snapshot import Copier, Viewer, bytes_in, tensors_in

_OWN_OPTIONS = ("grid", "warmup")
_COMPILED_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


@dataclass
class TunedCall:
    """The call of an autotuner that a launch comes from."""

    tuner: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    """Keyword arguments; the grid is one."""


@dataclass
class Launch:
    """The largest launch of a kernel so far, with the data for a replay."""

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
    tuned: TunedCall | None = None
    configuration: str = ""
    """Of an autotuner."""

    def fresh(self, *values: Any) -> tuple[Any, ...]:
        """Copy arguments to new memory on the device of the launch, preserving aliasing."""
        return Copier(self.device)(values)

    def named(self) -> dict[str, Any]:
        """Parameters by name; positional arguments beyond the last parameter are left out."""
        return {**dict(zip(self.kernel.arg_names, self.arguments, strict=False)), **self.options}


@dataclass
class Recorder:
    """The largest launch of each kernel. Launches by a tuning autotuner are ignored.

    Args:
        specializations: maximum number of launches kept per kernel that differ in constants or types.
    """

    skipped: frozenset[str] = frozenset()
    specializations: int = 1
    launches: dict[str, Launch] = field(default_factory=dict)
    tuning: str = ""
    """The configuration that an autotuner measures."""
    calls: list[TunedCall] = field(default_factory=list)
    """Of autotuners, the innermost last."""
    collected: list[Launch] | None = None
    """Launches that were recorded in place of running."""
    pauses: int = 0
    _forms: dict[str, list[Any]] = field(default_factory=dict)

    def saw(self, kernel: Any, grid: Any, arguments: tuple[Any, ...], options: Any) -> None:
        """Take note of a launch that is about to run."""
        if self.tuning or self.pauses:
            return
        call = self.calls[-1] if self.calls else None
        key = self._key(kernel, arguments if call is None else call.arguments, options, call)
        if key is None or key in self.skipped:
            return
        named = {n: v for n, v in options.items() if n not in _OWN_OPTIONS}
        size = bytes_in((arguments, named))
        found = self.launches.get(key)
        if found is not None:
            found.launches += 1
            if size <= found.bytes:
                return
        devices = [t.device for t in tensors_in((arguments, named))]
        if _is_captured(devices):
            return
        shape = grid_of(kernel, grid, arguments, named)
        copier = Copier(_storage_device(devices, size))
        kept, kept_options = copier((arguments, named))
        if call is not None:
            call = TunedCall(call.tuner, copier(call.arguments), copier(call.options))
        count = found.launches if found is not None else 1
        device = devices[0] if devices else None
        self.launches[key] = Launch(
            kernel, key, shape, kept, kept_options, size, device, count, call
        )

    def _key(self, kernel: Any, arguments: Any, options: Any, call: TunedCall | None) -> str | None:
        """The kernel's name, numbered by specialization. None for one too many."""
        name = key_of(kernel)
        if self.specializations < 2:
            return name
        form = _form(kernel, arguments, options if call is None else call.options)
        forms = self._forms.setdefault(name, [])
        if form not in forms:
            if len(forms) == self.specializations:
                return None
            forms.append(form)
        number = forms.index(form)
        return f"{name}#{number + 1}" if number else name

    def candidates(self, launch: Launch) -> list[Launch]:
        """A launch for each configuration of the autotuner above it, or the launch alone.

        They share the memory of the recorded arguments. Hooks of configurations run for each of them.
        """
        call = launch.tuned
        if call is None:
            return [launch]
        self.collected, tuner = [], call.tuner
        chosen: dict[Any, Any] = getattr(tuner, "cache", {})
        remembered = dict(chosen)
        chosen.clear()
        try:
            tuner.run(*call.arguments, **call.options)
            found = self.collected
        finally:
            self.collected = None
            chosen.clear()
            chosen.update(remembered)
        for one in found:
            one.key, one.device, one.launches = launch.key, launch.device, launch.launches
        return found or [launch]

    def collect(self, kernel: Any, grid: Any, arguments: tuple[Any, ...], options: Any) -> None:
        """Take note of a launch that is not to run, unless it is the one that follows the tuning."""
        if self.collected is None or not self.tuning:
            return
        named = {n: v for n, v in options.items() if n not in _OWN_OPTIONS}
        shape = grid_of(kernel, grid, arguments, named)
        kept, kept_options = Viewer()((arguments, named))
        self.collected.append(
            Launch(kernel, "", shape, kept, kept_options, 0, configuration=self.tuning)
        )

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


def _form(kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Types of tensors and values of constants, comparable with those of other launches."""
    notes = getattr(kernel.fn, "__annotations__", {})
    named = {**dict(zip(kernel.arg_names, arguments, strict=False)), **options}
    shown: list[tuple[str, str]] = []
    for name, value in named.items():
        if tensors := list(tensors_in(value)):
            shown.append((name, str([t.dtype for t in tensors])))
        elif "constexpr" in str(notes.get(name, "")) or value is None:
            shown.append((name, repr(value)))
    return shown


def grid_of(kernel: Any, grid: Any, arguments: Any, options: dict[str, Any]) -> tuple[int, ...]:
    """The launch grid as numbers."""
    if callable(grid):
        parameters = inspect.signature(kernel.fn).parameters.values()
        bound = {p.name: p.default for p in parameters if p.default is not p.empty}
        bound.update(zip(kernel.arg_names, arguments, strict=False))
        grid = grid({**bound, **options})
    return tuple(int(n) for n in (grid if isinstance(grid, (tuple, list)) else (grid,)))


def _is_captured(devices: list[Any]) -> bool:
    """Whether launches are captured in a CUDA graph, which forbids copies. Programs also launch before the capture."""
    if not any(device.type == "cuda" for device in devices):
        return False
    import torch

    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _storage_device(devices: list[Any], size: int) -> Any:
    """The device for a copy: the GPU (None: that of the originals) while it has plenty of free memory."""
    if not any(device.type == "cuda" for device in devices):
        return None
    import torch

    free, _ = torch.cuda.mem_get_info()
    return None if 6 * size < free else torch.device("cpu")


@contextmanager
def recording(
    skipped: frozenset[str] = frozenset(), specializations: int = 1, configurations: int = 0
) -> Generator[Recorder]:
    """Record the launches of Triton's kernels until the end of the block.

    Autotuners run each configuration once instead of timing it; `Recorder.candidates` returns them all for timing
    later. `configurations`: maximum number per autotuner created in the block, evenly spaced; 0: all.
    """
    jit: Any = importlib.import_module("triton.runtime.jit")
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner

    recorder = Recorder(skipped, specializations)
    kinds = [jit.JITFunction, *_interpreted()]
    changes = [(kind, "run", _recording_run(kind.run, recorder)) for kind in kinds]
    changes.append((tuner, "_bench", _run_once(tuner._bench, recorder)))
    changes.append((tuner, "run", _noted_call(tuner.run, recorder)))
    if (compiled := _compiled_kernel()) is not None:
        run = _recording_compiled(compiled.__getitem__, recorder)
        changes.append((compiled, "__getitem__", run))
    if configurations:
        changes.append((tuner, "__init__", _thinned(tuner.__init__, configurations)))
    with ExitStack() as replaced:
        for change in changes:
            replaced.enter_context(mock.patch.object(*change))
        yield recorder


def _interpreted() -> list[Any]:
    try:
        module: Any = importlib.import_module("triton.runtime.interpreter")
    except ImportError:
        return []
    return [module.InterpretedFunction]


def _compiled_kernel() -> Any:
    """Triton's class of kernels returned by `warmup`, which programs launch directly."""
    try:
        module: Any = importlib.import_module("triton.compiler.compiler")
    except ImportError:
        return None
    return getattr(module, "CompiledKernel", None)


def _recording_compiled(getitem: Any, recorder: Recorder) -> Any:
    def launch_and_record(self: Any, grid: Any) -> Any:
        run = getitem(self, grid)
        kernel = getattr(self.src, "fn", None)

        def record_and_run(*args: Any, **more: Any) -> Any:
            if kernel is not None:
                named = {n: getattr(self.metadata, n, None) for n in _COMPILED_OPTIONS}
                given = {n: value for n, value in named.items() if value is not None}
                recorder.saw(kernel, grid, args, given)
            return run(*args, **more)

        return record_and_run

    return launch_and_record


def _recording_run(run: Any, recorder: Recorder) -> Any:
    def run_and_record(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **more: Any) -> Any:  # fmt: skip
        if recorder.collected is not None:
            return recorder.collect(self, grid, args, more)
        if not warmup:
            recorder.saw(self, grid, args, more)
        return run(self, *args, grid=grid, warmup=warmup, **more)

    return run_and_record


def _noted_call(run: Any, recorder: Recorder) -> Any:
    def run_noted(self: Any, *args: Any, **more: Any) -> Any:
        if len(self.configs) < 2:
            return run(self, *args, **more)
        self.cache_results = False  # disk cache is pointless, because nothing is timed
        recorder.calls.append(TunedCall(self, args, more))
        try:
            return run(self, *args, **more)
        finally:
            recorder.calls.pop()

    return run_noted


def _run_once(bench: Any, recorder: Recorder) -> Any:
    def bench_unrecorded(self: Any, *args: Any, config: Any, **more: Any) -> Any:
        recorder.tuning = str(config)
        own = vars(self).pop("do_bench", None)
        self.do_bench = _once
        try:
            return bench(self, *args, config=config, **more)
        finally:
            recorder.tuning = ""
            del self.do_bench
            if own is not None:
                self.do_bench = own

    return bench_unrecorded


def _once(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> list[float]:
    """Run a configuration; all of them take equally long."""
    call()
    return [1.0] * len(quantiles or (0,))


def _thinned(init: Any, count: int) -> Any:
    """An autotuner's constructor that keeps `count` configurations, the first and the last among them."""
    signature = inspect.signature(init)

    def init_thinned(self: Any, *args: Any, **more: Any) -> None:
        bound = signature.bind(self, *args, **more)
        every = list(bound.arguments.get("configs") or [])
        if len(every) > count:
            step = (len(every) - 1) / max(1, count - 1)
            bound.arguments["configs"] = [every[round(i * step)] for i in range(count)]
        init(*bound.args, **bound.kwargs)

    return init_thinned
