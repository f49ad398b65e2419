"""tilewright: a compiler, in Python, for tile kernels written in the Triton language.

    import tilewright as tw
    import tilewright.language as tl

Names are looked up when first used, so that importing the package stays cheap.
"""
# ruff: noqa: F401

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright import (
        backends,
        config,
        dtypes,
        errors,
        integrations,
        kernels,
        language,
        runtime,
        testing,
    )
    from tilewright.dtypes import constexpr
    from tilewright.errors import CompilationError, LaunchError, OutOfResources, TilewrightError
    from tilewright.generator.config import MatmulConfig
    from tilewright.language.aggregates import aggregate
    from tilewright.language.builtin import must_use_result
    from tilewright.language.source_lines import register_source
    from tilewright.runtime.autotune import Autotuner, Config, autotune
    from tilewright.runtime.compiled import CompiledKernel
    from tilewright.runtime.heuristics import Heuristics, heuristics
    from tilewright.runtime.host_functions import (
        cdiv,
        compile,
        constexpr_function,
        next_power_of_2,
        set_allocator,
    )
    from tilewright.runtime.interface import KernelInterface
    from tilewright.runtime.jit import JITFunction, jit
    from tilewright.runtime.matmul import matmul
    from tilewright.runtime.matmul.described import Described, from_mlir, loop_nest
    from tilewright.runtime.matmul.epilogues import epilogue
    from tilewright.runtime.specialize import MockTensor
    from tilewright.runtime.tensor_wrapper import TensorWrapper, reinterpret

__version__ = "0.1.0"

_NAMES = {
    "jit": "tilewright.runtime.jit",
    "JITFunction": "tilewright.runtime.jit",
    "KernelInterface": "tilewright.runtime.interface",
    "CompiledKernel": "tilewright.runtime.compiled",
    "MockTensor": "tilewright.runtime.specialize",
    "TensorWrapper": "tilewright.runtime.tensor_wrapper",
    "reinterpret": "tilewright.runtime.tensor_wrapper",
    "autotune": "tilewright.runtime.autotune",
    "Autotuner": "tilewright.runtime.autotune",
    "Config": "tilewright.runtime.autotune",
    "heuristics": "tilewright.runtime.heuristics",
    "Heuristics": "tilewright.runtime.heuristics",
    "cdiv": "tilewright.runtime.host_functions",
    "next_power_of_2": "tilewright.runtime.host_functions",
    "constexpr_function": "tilewright.runtime.host_functions",
    "must_use_result": "tilewright.language.builtin",
    "aggregate": "tilewright.language.aggregates",
    "set_allocator": "tilewright.runtime.host_functions",
    "compile": "tilewright.runtime.host_functions",
    "constexpr": "tilewright.dtypes",
    "register_source": "tilewright.language.source_lines",
    "matmul": "tilewright.runtime.matmul",
    "from_mlir": "tilewright.runtime.matmul.described",
    "loop_nest": "tilewright.runtime.matmul.described",
    "Described": "tilewright.runtime.matmul.described",
    "epilogue": "tilewright.runtime.matmul.epilogues",
    "MatmulConfig": "tilewright.generator.config",
    "TilewrightError": "tilewright.errors",
    "CompilationError": "tilewright.errors",
    "LaunchError": "tilewright.errors",
    "OutOfResources": "tilewright.errors",
}
_MODULES = (
    "backends", "config", "dtypes", "errors", "integrations", "kernels", "language", "runtime",
    "testing",
)  # fmt: skip

__all__ = [*_NAMES, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"tilewright.{name}")
    else:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
