"""NVIDIA targets: what passes and the assembler need to know of a chip.

Figures are those of the CUDA C++ programming guide, "Compute capabilities".
"""

from __future__ import annotations

from tilewright.backends.base import TargetInfo
from tilewright.errors import UnsupportedTarget

TRIPLE = "nvptx64-nvidia-cuda"
DEFAULT = "sm_90a"
#: name -> (shared memory a program may ask for, multiprocessors of the usual chip, PTX version)
_CHIPS = {
    "sm_80": (163 << 10, 108, "ptx80"),
    "sm_86": (99 << 10, 84, "ptx80"),
    "sm_89": (99 << 10, 128, "ptx83"),
    "sm_90a": (227 << 10, 132, "ptx86"),
}


def target_info(name: str) -> TargetInfo:
    """The target called `name` ("sm_80", "sm_86", "sm_89", "sm_90a"; "sm_90" is taken as "sm_90a").

    Raises UnsupportedTarget for others.
    """
    name = "sm_90a" if name == "sm_90" else name
    if name not in _CHIPS:
        raise UnsupportedTarget(f"no NVIDIA target {name!r}", help=f"there are {', '.join(_CHIPS)}")
    shared, cores, ptx = _CHIPS[name]
    return TargetInfo(
        name, TRIPLE, name, (ptx,), 128, 255, cores, shared_bytes=shared, max_registers=255
    )


def of_capability(major: int, minor: int) -> TargetInfo:
    """The best target that a device of a compute capability runs.

    Raises UnsupportedTarget before 8.0.
    """
    if major == 9:
        return target_info("sm_90a")
    number = 10 * major + minor
    names = [n for n in _CHIPS if n != "sm_90a" and int(n[3:]) <= number and major < 9]
    if not names:
        raise UnsupportedTarget(f"no code for compute capability {major}.{minor}")
    return target_info(names[-1])


def current_target() -> TargetInfo:
    """What `target()` of the back end gives where no device is asked: Hopper."""
    return target_info(DEFAULT)
