"""NVIDIA's command line tools, where a toolkit or a wheel has brought them."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

from tilewright import config

#: folders of wheels that carry the tools: nvidia-cuda-nvcc (13 and 12), triton
_WHEELS = (
    ("nvidia", "cu13/bin"), ("nvidia", "cuda_nvcc/bin"), ("triton", "backends/nvidia/bin"),
)  # fmt: skip


def find(tool: str) -> Path | None:
    """Path of "ptxas", "nvdisasm" or "cuobjdump", None where there is none.

    The setting comes first, then PATH, CUDA_HOME, installed wheels and /usr/local/cuda.
    """
    settings = config.current()
    if tool == "ptxas" and settings.ptxas is not None:
        return settings.ptxas if settings.ptxas.is_file() else None
    return _find(tool, settings.cuda_home)


@functools.cache
def _find(tool: str, cuda_home: str | None) -> Path | None:
    on_path = shutil.which(tool)
    if on_path is not None:
        return Path(on_path)
    return next((path for path in _places(tool, cuda_home) if path.is_file()), None)


def _places(tool: str, cuda_home: str | None) -> Iterator[Path]:
    if cuda_home is not None:
        yield Path(cuda_home) / "bin" / tool
    for package, folder in _WHEELS:
        yield from in_wheel(package, f"{folder}/{tool}")
    yield Path("/usr/local/cuda/bin") / tool


def in_wheel(package: str, file: str) -> Iterator[Path]:
    """Where a file of an installed package may be; nothing without the package."""
    spec = importlib.util.find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(root) / file


def fingerprint(tool: str) -> str:
    """Which file a tool is, without running it: path, size and time of change; "" without one."""
    path = find(tool)
    if path is None:
        return ""
    status = path.stat()
    return f"{path}:{status.st_size}:{status.st_mtime_ns}"
