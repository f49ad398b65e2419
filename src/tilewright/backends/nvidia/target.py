"""NVIDIA targets: what passes and the assembler need to know of a chip.

Figures are those of the CUDA C++ programming guide, "Compute capabilities". Nothing here needs a
driver: with one, `current_target` is the device that is current.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace

from tilewright.backends.base import TargetInfo
from tilewright.errors import UnsupportedTarget

TRIPLE = "nvptx64-nvidia-cuda"
DEFAULT = "sm_90a"
REGISTERS_PER_THREAD = 255
#: name -> (shared memory a program may ask for, SMs of the usual chip, PTX version)
_CHIPS = {
    "sm_80": (163 << 10, 108, "ptx80"),
    "sm_86": (99 << 10, 84, "ptx80"),
    "sm_89": (99 << 10, 128, "ptx84"),
    "sm_90a": (227 << 10, 132, "ptx86"),
}
TARGETS = tuple(_CHIPS)
"""Names of targets."""
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # of CUdevice_attribute


def target_info(name: str) -> TargetInfo:
    """The target called `name` ("sm_80", "sm_86", "sm_89", "sm_90a"; "sm_90" is taken as "sm_90a").

    Raises UnsupportedTarget for others.
    """
    name = "sm_90a" if name == "sm_90" else name
    if name not in _CHIPS:
        raise UnsupportedTarget(f"no NVIDIA target {name!r}", help=f"there are {', '.join(_CHIPS)}")
    shared, cores, ptx = _CHIPS[name]
    return TargetInfo(
        name,
        TRIPLE,
        name,
        (ptx,),
        vector_bits=128,
        vector_registers=REGISTERS_PER_THREAD,
        cores=cores,
        shared_bytes=shared,
        max_registers=REGISTERS_PER_THREAD,
        vector_atomics=name == "sm_90a",
    )


def of_capability(major: int, minor: int, cores: int = 0) -> TargetInfo:
    """The best target that a device of a compute capability runs; `cores` are its multiprocessors.

    Raises UnsupportedTarget before 8.0.
    """
    number = 10 * major + minor
    names = [n for n in _CHIPS if n != "sm_90a" and int(n[3:]) <= number]
    if major == 9:
        names = ["sm_90a"]
    if not names:
        raise UnsupportedTarget(
            f"no code for compute capability {major}.{minor}", help="the oldest is 8.0 (A100)"
        )
    info = target_info(names[-1])
    return replace(info, cores=cores) if cores else info


def current_target() -> TargetInfo:
    """The device that is current (device 0 when none is), or Hopper on a machine without one."""
    found = _current_device()
    return target_info(DEFAULT) if found is None else of_capability(*found)


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


def blocks_of_a_program(num_ctas: int, target: TargetInfo) -> int:
    """Thread blocks of a program: `num_ctas` where the target has clusters, else 1.

    How a program is spread over the chip changes no result, so chips before 9.0 ignore the option.
    """
    return num_ctas if int(target.name[3:].rstrip("af")) >= 90 else 1


def toolchain() -> str:
    """The assembler that makes cubins here, as part of cache keys; "" when the driver does it."""
    from tilewright.backends.nvidia.tools import fingerprint

    return fingerprint("ptxas")
