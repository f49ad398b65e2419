"""Compile, cache, launch and tune kernels: `jit.py` is the way in, `launch.py` the hot path."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "JITFunction": "jit", "jit": "jit", "KernelInterface": "interface", "MockTensor": "specialize",
    "TensorWrapper": "tensor_wrapper", "reinterpret": "tensor_wrapper", "CompiledKernel": "compiled",
    "Autotuner": "autotune", "Config": "autotune", "Heuristics": "heuristics",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"tilewright.runtime.{_NAMES[name]}"), name)
