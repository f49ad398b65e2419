"""Which NVIDIA target is meant: by name, or the device that is current.

What is known of targets is in `tilewright.targets.nvidia`. Nothing here needs a driver.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace

from tilewright.backends.nvidia.tools import fingerprint
from tilewright.targets import Feature, TargetInfo
from tilewright.targets import nvidia as chips
from tilewright.targets.nvidia import target_info

__all__ = ["TARGETS", "current_target", "num_ctas_on", "of_capability", "target_info", "toolchain"]

TARGETS = chips.NAMES
"""Names of targets."""
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # of CUdevice_attribute


def of_capability(major: int, minor: int, cores: int = 0) -> TargetInfo:
    """The best target that a device of a compute capability runs; `cores` are its SMs.

    Raises UnsupportedTarget where there is none.
    """
    info = chips.of_capability(10 * major + minor)
    return replace(info, cores=cores) if cores else info


def current_target() -> TargetInfo:
    """The device that is current (device 0 when none is), or the default on a machine without one."""
    found = _current_device()
    return target_info(chips.DEFAULT) if found is None else of_capability(*found)


def _current_device() -> tuple[int, int, int] | None:
    """(major, minor, SMs) of the current device, None without a driver or a device."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, values = ctypes.c_int(0), [ctypes.c_int(0) for _ in range(3)]
    if cuda.cuInit(0) != 0:
        return None
    if cuda.cuCtxGetDevice(ctypes.byref(device)) != 0:  # no context is current
        device.value = 0
    for value, attribute in zip(values, (_MAJOR, _MINOR, _MULTIPROCESSORS), strict=True):
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) != 0:
            return None
    major, minor, cores = (v.value for v in values)
    return major, minor, cores


def num_ctas_on(num_ctas: int, target: TargetInfo) -> int:
    """CTAs of a program: `num_ctas` where the target has clusters, else 1.

    How a program is spread over the chip changes no result, so chips without them ignore the option.
    """
    return num_ctas if target.has(Feature.CLUSTERS) else 1


def toolchain() -> str:
    """The assembler that makes cubins here, as part of cache keys; "" when the driver does it."""
    return fingerprint("ptxas")
