"""`triton.runtime.driver`: what programs ask about the machine they run on."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tilewright.errors import UnsupportedTarget
from tilewright.language.target_info import GPUTarget


@functools.cache
def _host() -> Any:
    """TargetInfo of this machine, None where no back end can say."""
    try:
        from tilewright.backends import registry

        return registry.get("cpu").target()
    except (ImportError, AttributeError, LookupError):
        return None


def _gpu() -> Any:
    """The CUDA driver where torch has a GPU, else None: then programs make their arrays on the CPU."""
    available = getattr(getattr(sys.modules.get("torch"), "cuda", None), "is_available", None)
    if available is None or not available():
        return None
    from tilewright.runtime.drivers.cuda import driver as cuda_driver

    try:
        return cuda_driver()
    except UnsupportedTarget:
        return None


def cpu_target() -> GPUTarget:
    """`GPUTarget("cpu", <CPU name>, 1)`."""
    return GPUTarget("cpu", getattr(_host(), "cpu", "") or platform.machine(), 1)


class DeviceUtils:
    """`driver.active.utils`."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Sizes that occupancy formulas read.

        On a CPU cores count as SMs and L2 as shared memory.
        """
        gpu = _gpu()
        if gpu is not None:
            return gpu.properties(int(device))
        host = _host()
        return {
            "multiprocessor_count": getattr(host, "cores", None) or os.cpu_count() or 1,
            "max_shared_mem": getattr(host, "l2_bytes", 1 << 20),
            "max_num_regs": getattr(host, "vector_registers", 32),
            "warpSize": 1,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


class ActiveDriver:
    """`driver.active`: about the current GPU where torch has one, else about the CPU."""

    def __init__(self) -> None:
        self.utils = DeviceUtils()

    def get_current_target(self) -> GPUTarget:
        """`GPUTarget("cuda", 90, 32)`, or `GPUTarget("cpu", <CPU name>, 1)`."""
        gpu = _gpu()
        if gpu is not None:
            major, minor = gpu.device(self.get_current_device()).capability
            return GPUTarget("cuda", 10 * major + minor, 32)
        return cpu_target()

    def get_current_device(self) -> int:
        return 0 if _gpu() is None else sys.modules["torch"].cuda.current_device()

    def get_current_stream(self, device: Any = None) -> int:
        """torch's current CUstream; 0 on the CPU."""
        if _gpu() is None:
            return 0
        from tilewright.runtime.devices import stream_function

        index = self.get_current_device() if device is None else getattr(device, "index", device)
        return stream_function("torch")(int(index))

    def get_active_torch_device(self) -> Any:
        """`torch.device("cuda", i)` or `torch.device("cpu")`; the text "cpu" without torch."""
        torch = sys.modules.get("torch")
        if torch is not None and _gpu() is not None:
            return torch.device("cuda", self.get_current_device())
        return "cpu" if torch is None else torch.device("cpu")

    def get_device_interface(self) -> Any:
        """`torch.cuda` or `torch.cpu`. Raises RuntimeError in a process without torch."""
        torch = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("get_device_interface() needs torch, which is not imported")
        return torch.cpu if _gpu() is None else torch.cuda

    def get_benchmarker(self) -> Any:
        """`do_bench`."""
        from tilewright.runtime.timing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """A buffer larger than the caches, for `clear_cache`."""
        if _gpu() is not None:
            torch = sys.modules["torch"]
            return torch.empty(64 << 20, dtype=torch.int32, device=self.get_active_torch_device())
        import numpy as np

        return np.zeros(32 << 20, dtype=np.int64)

    def clear_cache(self, cache: Any) -> None:
        """Write the buffer, which evicts everything else from the caches."""
        cache[...] = 0

    def map_python_to_cpp_type(self, ty: str) -> str:
        """C's name of a signature type."""
        names = {
            "i1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
            "u1": "uint8_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t",
            "u64": "uint64_t", "fp16": "double", "bf16": "double", "fp32": "double",
            "fp64": "double",
        }  # fmt: skip
        return "void*" if ty.startswith("*") else names[ty]

    @staticmethod
    def is_active() -> bool:
        return True


class DriverConfig:
    """`triton.runtime.driver`: holds the active driver."""

    def __init__(self, chosen: ActiveDriver) -> None:
        self.default = self.active = chosen

    def set_active(self, driver: Any) -> None:
        self.active = driver

    def reset_active(self) -> None:
        self.active = self.default


class _Inactive(ActiveDriver):
    @staticmethod
    def is_active() -> bool:
        return False


class Backend(NamedTuple):
    """An entry of `triton.backends.backends`, of which programs ask `driver.is_active()`; there is no compiler class."""

    compiler: None
    driver: type[ActiveDriver]


class _Backends(Mapping[str, Backend]):
    """`triton.backends.backends`: "nvidia" and "cpu", the active one by whether torch has a GPU now."""

    def __getitem__(self, name: str) -> Backend:
        if name not in ("nvidia", "cpu"):
            raise KeyError(name)
        is_active = (_gpu() is not None) == (name == "nvidia")
        return Backend(None, ActiveDriver if is_active else _Inactive)

    def __iter__(self) -> Iterator[str]:
        return iter(("nvidia", "cpu"))

    def __len__(self) -> int:
        return 2


backends = _Backends()
active = ActiveDriver()
driver = DriverConfig(active)
