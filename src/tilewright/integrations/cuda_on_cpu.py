"""Run programs with `device="cuda"` without a GPU: torch allocates these tensors on the CPU.

    with cuda_on_cpu():
        x = torch.rand(1024, device="cuda")     # a CPU tensor; kernels run on the CPU
        assert x.is_cuda                        # queries report CUDA

A torch function mode replaces "cuda" device arguments by the CPU. The functions
of `torch.cuda` that such programs call (`synchronize`, events, properties) are replaced temporarily.
`torch.cuda.is_available()` stays false, so programs with a CPU path use it. Every torch call
takes a few microseconds more.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

_PACKAGE = str(Path(__file__).resolve().parent.parent)


class Event:
    """`torch.cuda.Event` by the clock: work on a CPU is done when the call returns."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end`."""
        return (end.seconds - self.seconds) * 1e3

    def synchronize(self) -> None:
        """Nothing is in flight."""

    def query(self) -> bool:
        return True


@contextlib.contextmanager
def cuda_on_cpu() -> Generator[None]:
    """Until the end of the block "cuda" means the CPU. Raises ImportError without torch."""
    torch: Any = importlib.import_module("torch")
    mode: Any = importlib.import_module("torch.overrides").TorchFunctionMode
    real, within = torch.Tensor.is_cuda.__get__, str(Path(torch.__file__).parent)

    class OnCpu(mode):
        def __torch_function__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
        ) -> Any:
            if func == real:
                return _asked_by_program(sys._getframe(1), within) or func(*args)
            if func is torch.Tensor.cuda:
                return args[0]
            return func(*map(_moved, args), **{k: _moved(v) for k, v in (kwargs or {}).items()})

    def _moved(value: Any) -> Any:
        if isinstance(value, str):
            return "cpu" if value == "cuda" or value.startswith("cuda:") else value
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "cuda" else value
        return value

    with mock.patch.multiple(torch.cuda, create=True, **_REPLACED), OnCpu():
        yield


def _asked_by_program(frame: Any, within: str) -> bool:
    """Whether `frame`, or for code in the folder `within` (torch's other modes) its caller, is outside of this package."""
    while frame.f_code.co_filename.startswith(within) and frame.f_back is not None:
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(_PACKAGE) and (
        "_tw_extra" not in frame.f_code.co_varnames  # launchers, which stand in the kernel's file
    )


def _properties(device: Any = None) -> SimpleNamespace:
    """Sizes that programs choose grids by: cores count as SMs."""
    return SimpleNamespace(
        name=platform.processor() or platform.machine(),
        multi_processor_count=os.cpu_count() or 1,
        major=0,
        minor=0,
        warp_size=1,
        total_memory=_memory(),
        shared_memory_per_block=48 << 10,
        max_threads_per_multi_processor=1,
    )


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 0


def _nothing(*_: Any, **__: Any) -> None:
    """Replacement of functions that synchronize with or initialize a GPU."""


def _no_context(*_: Any, **__: Any) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A distinct function with the same behavior, because torch.compile keeps rules per function object."""
    return lambda *args, **more: function(*args, **more)


_REPLACED: Mapping[str, Any] = {
    "synchronize": _own(_nothing),
    "empty_cache": _own(_nothing),
    "set_device": _own(_nothing),
    "reset_peak_memory_stats": _own(_nothing),
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "max_memory_allocated": lambda *_: 0,
    "memory_allocated": lambda *_: 0,
    "get_device_name": lambda *_: _properties().name,
    "get_device_capability": lambda *_: (0, 0),
    "get_device_properties": _properties,
    "current_stream": lambda *_: SimpleNamespace(cuda_stream=0, synchronize=_nothing),
    "device": _own(_no_context),
    "stream": _own(_no_context),
    "Event": Event,
}
