"""`triton.knobs`: Triton's settings by name, over the environment variables that hold them.

A supported knob sets the variable that `config` reads, so it takes effect at the next launch. Other knobs store
their value without effect. Compilation hooks are called; setting any other hook warns that it is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from tilewright import config
from tilewright.runtime import hooks

#: whether setting a knob sets its variable
propagate_env = True

_UNSET = object()
_TRUE, _FALSE = ("1", "true", "on", "yes", "y"), ("0", "false", "off", "no", "n", "")


class Knob:
    """One setting: its environment variable, the type of its value, and the value without it."""

    def __init__(self, key: str, kind: type = str, default: Any = None) -> None:
        self.key, self.kind, self.default = key, kind, default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: Any = None) -> Any:
        if group is None:
            return self
        value = vars(group).get(self.name, _UNSET)
        return self.get() if value is _UNSET else value

    def get(self) -> Any:
        """The environment's value. Raises RuntimeError if it is not of the knob's type."""
        text = config.variable(self.key)
        if text is None:
            return self.default
        if self.kind is bool:
            if text.lower() in (*_TRUE, *_FALSE):
                return text.lower() in _TRUE
        elif self.kind is not int or text.lstrip("+-").isdigit():
            return self.kind(text)
        raise RuntimeError(f"Unable to use {self.key}={text}: expected {self.kind.__name__}")

    def __set__(self, group: Any, value: Any) -> None:
        if value is env:
            vars(group).pop(self.name, None)
            return
        vars(group)[self.name] = value
        if propagate_env and (value is None or isinstance(value, bool | int | str)):
            text = str(int(value)) if isinstance(value, bool) else value
            config.set_variable(self.key, None if text is None else str(text))

    def __delete__(self, group: Any) -> None:
        vars(group).pop(self.name, None)


class Hook:
    """A function that compilations call (`runtime.hooks`), by its name there; None: none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: Any = None) -> Any:
        return self if group is None else getattr(hooks, self.name)

    def __set__(self, group: Any, value: Any) -> None:
        setattr(hooks, self.name, value)


class _Env:
    def __repr__(self) -> str:
        return "triton.knobs.env"


#: assigned to a knob: restore the environment's value
env = _Env()


class base_knobs:
    """A group of settings."""

    _hooks: tuple[str, ...] = ()

    @property
    def knob_descriptors(self) -> dict[str, Knob]:
        """The settings that have a variable, by name."""
        return {n: k for n, k in vars(type(self)).items() if isinstance(k, Knob)}

    @property
    def knobs(self) -> dict[str, Any]:
        """Names and values of the settings that have a variable."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._hooks and value is not None:
            warnings.warn(
                f"triton.knobs: tilewright does not call {name}", RuntimeWarning, stacklevel=2
            )
        object.__setattr__(self, name, value)

    def copy(self) -> Any:
        """A group of the same values."""
        found = type(self)()
        vars(found).update(vars(self))
        return found

    def reset(self) -> Any:
        """Restore each setting from the environment; return the group."""
        for name in self.knob_descriptors:
            vars(self).pop(name, None)
        return self

    @contextmanager
    def scope(self) -> Generator[None]:
        """Restore all settings, including the environment, at the end of the `with`."""
        keys = [knob.key for knob in self.knob_descriptors.values()]
        before, values = {key: config.variable(key) for key in keys}, dict(vars(self))
        called = [name for name, value in vars(type(self)).items() if isinstance(value, Hook)]
        functions = {name: getattr(self, name) for name in called}
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(values)
            for name, function in functions.items():
                setattr(self, name, function)
            for key, value in before.items():
                config.set_variable(key, value)


def _group(name: str, settings: Mapping[str, Any], hooks: tuple[str, ...] = ()) -> Any:
    attributes = {**dict.fromkeys(hooks), **settings, "_hooks": hooks}
    return type(f"{name}_knobs", (base_knobs,), attributes)()


build = _group("build", {"cc": Knob("CC")})
cache = _group(
    "cache",
    {
        "dir": Knob("TRITON_CACHE_DIR"), "home_dir": Knob("TRITON_HOME"),
        "dump_dir": Knob("TRITON_DUMP_DIR"), "override_dir": Knob("TRITON_OVERRIDE_DIR"),
    },
)  # fmt: skip
compilation = _group(
    "compilation",
    {
        "always_compile": Knob("TRITON_ALWAYS_COMPILE", bool, False),
        "override": Knob("TRITON_KERNEL_OVERRIDE", bool, False),
        "dump_ir": Knob("TRITON_KERNEL_DUMP", bool, False),
        "store_binary_only": Knob("TRITON_STORE_BINARY_ONLY", bool, False),
        "disable_line_info": Knob("TRITON_DISABLE_LINE_INFO", bool, False),
        "front_end_debugging": Knob("TRITON_FRONT_END_DEBUGGING", bool, False),
        "allow_non_constexpr_globals": Knob("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", bool, False),
        "enable_asan": Knob("TRITON_ENABLE_ASAN", bool, False),
        "use_ir_loc": Knob("USE_IR_LOC"),
        "instrumentation_mode": Knob("TRITON_INSTRUMENTATION_MODE", str, ""),
    },
    ("listener",),
)
autotuning = _group(
    "autotuning",
    {
        "cache": Knob("TRITON_CACHE_AUTOTUNING", bool, False),
        "print": Knob("TRITON_PRINT_AUTOTUNING", bool, False),
    },
    ("listener",),
)
language = _group(
    "language",
    {
        "fp32_default": Knob("TRITON_F32_DEFAULT"),
        "default_fp_fusion": Knob("TRITON_DEFAULT_FP_FUSION", bool, True),
    },
)
runtime = _group(
    "runtime",
    {
        "interpret": Knob("TRITON_INTERPRET", bool, False),
        "debug": Knob("TRITON_DEBUG", bool, False),
        "sanitize_overflow": Knob("TRITON_SANITIZE_OVERFLOW", bool, True),
        "override_arch": Knob("TRITON_OVERRIDE_ARCH"),
        "jit_cache_hook": Hook("before_compilation"),
        "jit_post_compile_hook": Hook("after_compilation"),
    },
    (
        "launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook",
        "kernel_unload_hook", "add_stages_inspection_hook",
    ),
)  # fmt: skip
nvidia = _group(
    "nvidia",
    {
        "ptxas": Knob("TRITON_PTXAS_PATH"), "ptxas_path": None, "cuobjdump": Knob("TRITON_CUOBJDUMP_PATH"),
        "nvdisasm": Knob("TRITON_NVDISASM_PATH"), "libdevice_path": Knob("TRITON_LIBDEVICE_PATH"),
        "libcuda_path": Knob("TRITON_LIBCUDA_PATH"), "mock_ptx_version": Knob("TRITON_MOCK_PTX_VERSION"),
        "disable_ptxas_opt": Knob("DISABLE_PTXAS_OPT", bool, False),
        "dump_nvptx": Knob("NVPTX_ENABLE_DUMP", bool, False),
    },
)  # fmt: skip
amd = _group("amd", {"use_buffer_ops": Knob("AMDGCN_USE_BUFFER_OPS", bool, True)})
proton = _group("proton", {"disable": Knob("TRITON_PROTON_DISABLE", bool, False)})
