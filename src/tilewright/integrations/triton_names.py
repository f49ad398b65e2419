"""Which of tilewright's objects answers to which of Triton's names.

A name below `triton` is either an alias (our module itself, so that `tl` is the one language module
the front end knows) or a table: attribute -> "module:object" of tilewright, looked up when asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import Any

#: what `install()` imports at once
EAGER = ("triton", "triton.language", "triton.testing", "triton.runtime", "triton.errors")

#: the surface that these names follow
VERSION = "3.9.0+tilewright"

_ALIASES = {
    "triton.language": "tilewright.language",
    "triton.testing": "tilewright.testing",
    "triton.knobs": "tilewright.integrations.triton_knobs",
    "triton.language.random": "tilewright.language.standard.random",
    "triton.language.libdevice": "tilewright.language.extra.libdevice",
}

_TUNING = {
    name: f"tilewright.runtime.autotune:{name}" for name in ("Autotuner", "Config", "autotune")
}
_HEURISTICS = {
    name: f"tilewright.runtime.heuristics:{name}" for name in ("Heuristics", "heuristics")
}
_JIT = {
    "JITFunction": "tilewright.runtime.jit:JITFunction",
    "jit": "tilewright.integrations.triton_jit:jit",
    "KernelInterface": "tilewright.runtime.interface:KernelInterface",
    "MockTensor": "tilewright.runtime.specialize:MockTensor",
    "TensorWrapper": "tilewright.runtime.tensor_wrapper:TensorWrapper",
    "reinterpret": "tilewright.runtime.tensor_wrapper:reinterpret",
    "constexpr_function": "tilewright.runtime.host_functions:constexpr_function",
}
_ERRORS = {
    "TritonError": "tilewright.errors:TilewrightError",
    "OutOfResources": "tilewright.errors:OutOfResources",
    "AutotunerError": "tilewright.errors:AutotuneError",
    "InterpreterError": "tilewright.errors:InterpreterError",
    "CompilationError": "tilewright.errors:CompilationError",
    "CompileTimeAssertionFailure": "tilewright.errors:StaticAssertError",
    "UnsupportedLanguageConstruct": "tilewright.errors:UnsupportedSyntax",
    "PTXASError": "tilewright.errors:PassError",
}
_DRIVER = {
    "driver": "tilewright.integrations.triton_driver:driver",
    "active": "tilewright.integrations.triton_driver:active",
    "GPUTarget": "tilewright.integrations.triton_driver:GPUTarget",
}
_COMPILER = {
    "CompiledKernel": "tilewright.runtime.compiled:CompiledKernel",
    "ASTSource": "tilewright.runtime.host_functions:ASTSource",
    "compile": "tilewright.runtime.host_functions:compile",
    "GPUTarget": _DRIVER["GPUTarget"],
}


def _some(table: dict[str, str], *names: str) -> dict[str, str]:
    return {name: table[name] for name in names}


@dataclass(frozen=True)
class Names:
    """The attributes of one stand-in module."""

    module: str
    objects: dict[str, str] = field(default_factory=dict)
    submodules: tuple[str, ...] = ()
    forward: str | None = None
    """A module of tilewright that is asked for everything else."""

    def names(self) -> list[str]:
        """Attributes known beforehand."""
        return [*self.objects, *self.submodules]

    def lookup(self, attribute: str) -> Any:
        """The object for `attribute`. Raises AttributeError."""
        if attribute == "__version__" and self.module == "triton":
            return VERSION
        where = self.objects.get(attribute)
        if where is not None:
            module, _, name = where.partition(":")
            return getattr(importlib.import_module(module), name)
        if attribute in self.submodules:
            return importlib.import_module(f"{self.module}.{attribute}")
        if self.forward is not None:
            found = importlib.import_module(self.forward)
            if hasattr(found, attribute):
                return getattr(found, attribute)
        raise AttributeError(
            f"{self.module}.{attribute}: tilewright stands in for triton here and does not have it"
        )


_TABLES = {
    table.module: table
    for table in (
        Names(
            "triton",
            {**_TUNING, **_HEURISTICS, **_JIT}
            | _some(_ERRORS, "OutOfResources", "TritonError", "InterpreterError")
            | {
                "AsyncCompileMode": "tilewright.runtime.async_compile:AsyncCompileMode",
                "FutureKernel": "tilewright.runtime.async_compile:FutureKernel",
            },
            ("language", "testing", "runtime", "compiler", "errors", "tools", "backends", "knobs"),
            forward="tilewright",
        ),
        Names(
            "triton.runtime",  # `jit` and `autotuner` are modules here, as in Triton
            {**_TUNING, **_HEURISTICS, **_some(_JIT, *(n for n in _JIT if n != "jit")), **_DRIVER}
            | _some(_ERRORS, "OutOfResources", "InterpreterError"),
            ("autotuner", "jit", "errors", "cache", "_allocation"),
        ),
        Names("triton.runtime.cache", forward="tilewright.integrations.triton_cache"),
        Names(
            "triton.runtime._allocation",
            {
                "NullAllocator": "tilewright.integrations.triton_suites:NullAllocator",
                "set_allocator": "tilewright.runtime.host_functions:set_allocator",
            },
        ),
        Names(
            "triton.runtime.autotuner",
            {**_TUNING, **_HEURISTICS, **_JIT}
            | _some(_ERRORS, "OutOfResources", "PTXASError", "AutotunerError")
            | {"driver": _DRIVER["driver"]},
        ),
        Names(
            "triton.runtime.jit",
            {
                **_JIT,
                "type_canonicalisation_dict": "tilewright.integrations.triton_suites:SIGNATURE_TYPES",
            },
            forward="tilewright.runtime.jit",
        ),
        Names(
            "triton._internal_testing",
            {"_fresh_knobs_impl": "tilewright.integrations.triton_suites:fresh_knobs"},
            forward="tilewright.integrations.triton_suites",
        ),
        Names("triton.runtime.driver", {**_DRIVER}),
        Names("triton.runtime.errors", dict(_ERRORS)),
        Names("triton.errors", dict(_ERRORS), forward="tilewright.errors"),
        Names(
            "triton.compiler",
            _COMPILER | _some(_ERRORS, "CompilationError", "UnsupportedLanguageConstruct"),
            ("compiler", "errors"),
        ),
        Names("triton.compiler.compiler", dict(_COMPILER)),
        Names(
            "triton.backends",
            {"backends": "tilewright.integrations.triton_driver:backends"},
            ("compiler", "driver"),
        ),
        Names(
            "triton.backends.driver",
            {"DriverBase": "tilewright.integrations.triton_driver:ActiveDriver"},
        ),
        Names("triton.backends.compiler", {"GPUTarget": _DRIVER["GPUTarget"]}),
        Names("triton.tools", {}, ("tensor_descriptor", "mxfp")),
        Names("triton.tools.mxfp", forward="tilewright.integrations.triton_mxfp"),
        Names(
            "triton.tools.tensor_descriptor",
            {"TensorDescriptor": "tilewright.runtime.descriptors:TensorDescriptor"},
        ),
        Names("triton.compiler.errors", dict(_ERRORS)),
    )
}

#: submodules of the language that programs import; they forward to `tl` where we have none
_LANGUAGE = {
    "triton.language.core": (),
    "triton.language.math": (),
    "triton.language.standard": (),
    "triton.language.semantic": (),
    "triton.language.target_info": (),
    "triton.language.extra": ("libdevice", "cuda", "hip"),
    "triton.language.extra.libdevice": (),
    "triton.language.extra.cuda": ("libdevice",),
    "triton.language.extra.cuda.libdevice": (),
    "triton.language.extra.hip": ("libdevice",),
    "triton.language.extra.hip.libdevice": (),
}


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def alias_of(name: str) -> str | None:
    """Our module that stands at `name`, if one does."""
    if name in _ALIASES:
        return _ALIASES[name]
    if name not in _LANGUAGE:
        return None
    ours = "tilewright" + name.removeprefix("triton")
    if _exists(ours):
        return ours
    if name.endswith(".libdevice") and _exists("tilewright.language.extra.libdevice"):
        return "tilewright.language.extra.libdevice"
    return None


def extended(name: str, objects: dict[str, str], submodules: tuple[str, ...] = ()) -> Names:
    """The table for `name`, as kernel authors get it, with more in it."""
    base = _TABLES.get(name, Names(name))
    return Names(
        name,
        {**base.objects, **objects},
        tuple(dict.fromkeys((*base.submodules, *submodules))),
        base.forward,
    )


#: tables that come before those above while something is installed that needs more of Triton
overlay: dict[str, Names] = {}


def table_of(name: str) -> Names | None:
    """The stand-in module for `name`, if there is one."""
    if name in overlay:
        return overlay[name]
    if name in _TABLES:
        return _TABLES[name]
    if name in _LANGUAGE:
        return Names(name, submodules=_LANGUAGE[name], forward="tilewright.language")
    return None
