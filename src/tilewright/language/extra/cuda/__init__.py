"""Names that NVIDIA kernels import; where there is nothing to wait for, waiting does nothing."""

from __future__ import annotations

from typing import Any

from tilewright import dtypes
from tilewright.errors import KernelTypeError
from tilewright.language.builtin import builtin, extern
from tilewright.language.extra.cuda import libdevice
from tilewright.language.target_info import current_target, warps_of_launch
from tilewright.language.tiles import inline_asm_elementwise


@builtin()
def gdc_wait() -> Any:
    """Wait for the kernels this one was launched to overlap with."""


@builtin()
def gdc_launch_dependents() -> Any:
    """Allow dependent kernels to start."""


def _require_gpu(name: str, help: str) -> None:
    target = current_target().backend
    if target != "cuda":
        raise KernelTypeError(
            f"{name}() needs an NVIDIA GPU, but the target is {target}", help=help
        )


@extern
def globaltimer() -> Any:
    """Nanoseconds of the GPU's clock, an int64 (PTX `%globaltimer`)."""
    _require_gpu("globaltimer", "measure a launch from the host: tilewright.testing.do_bench")
    return inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=dtypes.int64, is_pure=False, pack=1
    )


@extern
def smid() -> Any:
    """The number of the SM that runs the program, an int32 (PTX `%smid`)."""
    _require_gpu("smid", "tl.program_id numbers the programs on every target")
    return inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=dtypes.int32, is_pure=True, pack=1)  # fmt: skip


def num_warps() -> int:
    """The launch's `num_warps`, a compile-time value. Only of a GPU: raises KernelTypeError elsewhere."""
    return _warps("num_warps")


def _warps(name: str) -> int:
    found = warps_of_launch.get()
    if found is None:
        _require_gpu(name, "give the kernel a tl.constexpr parameter for it")
        raise KernelTypeError(f"{name}() of a kernel that is not being compiled")
    return found


def num_threads() -> int:
    """Threads of a program, 32 for each warp, a compile-time value. Only of a GPU, as `num_warps`."""
    return 32 * _warps("num_threads")


__all__ = [
    "gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "num_threads", "num_warps", "smid",
]  # fmt: skip
