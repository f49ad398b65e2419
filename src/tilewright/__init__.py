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

#: module -> the names that the package has from it, in the order of the reference
_FROM = {
    "runtime.jit": ("jit", "JITFunction"),
    "runtime.interface": ("KernelInterface",),
    "runtime.compiled": ("CompiledKernel",),
    "runtime.specialize": ("MockTensor",),
    "runtime.tensor_wrapper": ("TensorWrapper", "reinterpret"),
    "runtime.autotune": ("autotune", "Autotuner", "Config"),
    "runtime.heuristics": ("heuristics", "Heuristics"),
    "runtime.host_functions": ("cdiv", "next_power_of_2", "constexpr_function", "set_allocator", "compile"),
    "language.builtin": ("must_use_result",),
    "language.aggregates": ("aggregate",),
    "dtypes": ("constexpr",),
    "language.source_lines": ("register_source",),
    "runtime.matmul": ("matmul",),
    "runtime.matmul.described": ("from_mlir", "loop_nest", "Described"),
    "runtime.matmul.epilogues": ("epilogue",),
    "generator.config": ("MatmulConfig",),
    "errors": ("TilewrightError", "CompilationError", "LaunchError", "OutOfResources"),
}  # fmt: skip
_NAMES = {name: f"tilewright.{module}" for module, names in _FROM.items() for name in names}
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
