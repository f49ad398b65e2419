"""Files of compiled kernels in the folders that torch reads: TRITON_CACHE_DIR/<hash of the kernel>/.

Inductor bundles the files of such a folder into its graph cache, and writes them out again where it reads a graph,
on another machine too. Its static launcher loads `<name>.cubin` from there and launches it from C++, and it keeps
kernels that it can launch so in the graph cache, ready to run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tilewright import config
from tilewright.backends.base import LaunchPlan
from tilewright.runtime import cache

_VARIABLE = "TRITON_CACHE_DIR"
_ENTRY = "kernel.entry"

#: types of parameters that torch's static launcher passes as the code expects them (it widens 16-bit floats)
_PASSED = ("i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64", "fp32", "fp64")


def _folder(key: str) -> Path | None:
    """The folder of the kernel with hash `key`; None outside of Inductor, which sets the variable."""
    root = config.variable(_VARIABLE)
    return Path(root) / key if root else None


@contextlib.contextmanager
def read() -> Generator[None]:
    """Find kernels in torch's folders where tilewright's own cache does not have them."""

    def path(key: str) -> Path | None:
        folder = _folder(key)
        return None if folder is None else folder / _ENTRY

    with cache.also_reading(path):
        yield


def write(kernel: Any) -> None:
    """Write the files of a `kernels.CompiledKernel`. Failures are ignored: all readers have another way."""
    folder = _folder(kernel.hash)
    if folder is None or kernel.src.fn.dependencies.private:
        return
    files: dict[str, bytes] = {}
    with contextlib.suppress(OSError):
        files[_ENTRY] = cache.disk_cache().path(kernel.hash).read_bytes()
    cubin = kernel.loaded.cubin
    if cubin is not None and is_statically_launchable(kernel):
        files[f"{kernel.name}.cubin"] = cubin
    for name, content in files.items():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not (folder / name).exists():
                cache.replace_file(folder / name, content)  # other workers write it, too


def is_statically_launchable(kernel: Any) -> bool:
    """Whether a launch is a grid, `num_warps`, shared memory and the arguments in the order of the signature.

    That is what torch's static launcher knows: it passes no tensor maps, cluster sizes or fault records.
    A kernel that supports programmatic dependent launch is correct without it.
    """
    plan: LaunchPlan = kernel.plan
    wanted = kernel.src.types()
    return (
        kernel.name == kernel.src.fn.__name__
        and plan.threads > 0
        and plan.cluster_size == 1
        and not plan.cooperative
        and not (plan.tensor_maps or plan.asserts or plan.prints or plan.checked)
        and not plan.scratch_bytes
        and [argument.name for argument in plan.arguments] == list(wanted)
        and all(text.startswith("*") or text.split(":")[0] in _PASSED for text in wanted.values())
    )
