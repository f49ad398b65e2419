"""`triton.knobs`: Triton's settings by name, over the environment variables that hold them.

A supported knob sets the variable that `config` reads, so it takes effect at the next launch. Other knobs store
their value without effect. Hooks of compilations, loads and launches are called; setting another one warns that it
is not.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilewright import config
from tilewright.backends.nvidia import tools
from tilewright.runtime import hooks, launch_hooks
from tilewright.runtime.cache import cache_root
from tilewright.runtime.launch_hooks import HookChain as HookChain

#: whether setting a knob sets its variable
propagate_env = True

_UNSET = object()
_TRUE, _FALSE = ("1", "true", "on", "yes", "y"), ("0", "false", "off", "no", "n", "")


class env_base:
    """One setting: its environment variable, and the value without it."""

    def __init__(self, key: str, default: Any = None) -> None:
        self.key, self.default = key, default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: Any = None) -> Any:
        if group is None:
            return self
        value = vars(group).get(self.name, _UNSET)
        return self.get() if value is _UNSET else self.transform(value)

    def get(self) -> Any:
        """The environment's value. Raises RuntimeError if it is not of the knob's type."""
        text = config.variable(self.key)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> Any:
        """The value that a variable's text means."""
        return text

    def transform(self, value: Any) -> Any:
        """What reading gives for a value that was set."""
        return value

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


class env_str(env_base):
    """A text."""


env_opt_str = env_str


class env_str_callable_default(env_str):
    """A text; without the variable, what a function returns."""

    def get(self) -> Any:
        text = config.variable(self.key)
        return self.default() if text is None else text


class env_opt_bool(env_base):
    """True, False, or None without the variable."""

    def parse(self, text: str) -> bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise RuntimeError(f"Unable to use {self.key}={text}: expected bool")
        return text.lower() in _TRUE


class env_bool(env_opt_bool):
    """True or False."""

    def __init__(self, key: str, default: bool = False) -> None:
        super().__init__(key, default)


class env_int(env_base):
    """An integer."""

    def __init__(self, key: str, default: int | None = 0) -> None:
        super().__init__(key, default)

    def parse(self, text: str) -> int:
        try:
            return int(text)
        except ValueError as error:
            raise RuntimeError(f"Unable to use {self.key}={text}: expected int") from error


class env_class(env_base):
    """A class given as `module:name`, which has a base class of the name `type`."""

    def __init__(self, key: str, type: str) -> None:
        super().__init__(key)
        self.type = type

    def parse(self, text: str) -> Any:
        module, _, name = text.partition(":")
        if not name:
            raise RuntimeError(
                f"Unable to read {self.key}: '{text}' isn't of the form MODULE:CLASS"
            )
        found = getattr(importlib.import_module(module), name)
        if self.type not in [base.__name__ for base in found.mro()]:
            raise RuntimeError(f"Unable to use '{text}' from {self.key}: not of type '{self.type}'")
        return found


@dataclass
class NvidiaTool:
    """A program of the CUDA toolkit."""

    path: str
    version: str

    @staticmethod
    @functools.lru_cache
    def from_path(path: str) -> NvidiaTool | None:
        """The tool there; None if nothing there says a version."""
        try:
            text = subprocess.check_output([path, "--version"], stderr=subprocess.STDOUT, text=True)
        except (subprocess.CalledProcessError, OSError):
            return None
        found = re.search(r"release (\d+\.\d+)", text)
        return None if found is None else NvidiaTool(path, found[1])


class env_nvidia_tool(env_base):
    """A program of the CUDA toolkit by its path; without one, where it is found."""

    def __init__(self, binary: str) -> None:
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH")
        self.binary = binary

    def get(self) -> NvidiaTool:
        return self.transform(config.variable(self.key))

    def transform(self, value: str | None) -> NvidiaTool:
        for path in (value, tools.find(self.binary)):
            tool = NvidiaTool.from_path(str(path)) if path else None
            if tool is not None:
                return tool
        raise RuntimeError(f"Cannot find {self.binary}")


class Hook:
    """A function that compilations call (`runtime.hooks`), by its name there; None: none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: Any = None) -> Any:
        return self if group is None else getattr(hooks, self.name)

    def __set__(self, group: Any, value: Any) -> None:
        setattr(hooks, self.name, value)


class Chain:
    """A chain of hooks of `runtime.launch_hooks`; a single function that is assigned becomes the only one."""

    def __init__(self, chain: HookChain) -> None:
        self.chain = chain

    def __get__(self, group: Any, owner: Any = None) -> Any:
        return self if group is None else self.chain

    def __set__(self, group: Any, value: Any) -> None:
        single = [] if value is None else [value]
        self.chain.replace(value.calls if isinstance(value, HookChain) else single)


class _Env:
    def __repr__(self) -> str:
        return "triton.knobs.env"


#: assigned to a knob: restore the environment's value
env = _Env()


class base_knobs:
    """A group of settings."""

    _hooks: tuple[str, ...] = ()

    @property
    def knob_descriptors(self) -> dict[str, env_base]:
        """The settings that have a variable, by name."""
        return {n: k for n, k in vars(type(self)).items() if isinstance(k, env_base)}

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


def _in_home(folder: str) -> Callable[[], str]:
    return lambda: os.path.join(cache.home_dir, ".triton", folder)


build = _group(
    "build",
    {
        "cc": env_opt_str("CC"), "cudacrt_path": env_opt_str("TRITON_CUDACRT_PATH"),
        "cudart_path": env_opt_str("TRITON_CUDART_PATH"), "impl": None,
        "backend_dirs": property(lambda self: {self.cudacrt_path, self.cudart_path} - {None}),
    },
)  # fmt: skip
redis = _group(
    "redis",
    {
        "key_format": env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}"),
        "host": env_str("TRITON_REDIS_HOST", "localhost"), "port": env_int("TRITON_REDIS_PORT", 6379),
    },
)  # fmt: skip
cache = _group(
    "cache",
    {
        "dir": env_str_callable_default("TRITON_CACHE_DIR", lambda: str(cache_root())),
        "home_dir": env_str("TRITON_HOME", os.path.expanduser("~/")),
        "dump_dir": env_str_callable_default("TRITON_DUMP_DIR", _in_home("dump")),
        "override_dir": env_str_callable_default("TRITON_OVERRIDE_DIR", _in_home("override")),
        "manager_class": env_class("TRITON_CACHE_MANAGER", "CacheManager"),
        "remote_manager_class": env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend"),
    },
)  # fmt: skip
compilation = _group(
    "compilation",
    {
        "always_compile": env_bool("TRITON_ALWAYS_COMPILE"),
        "override": env_bool("TRITON_KERNEL_OVERRIDE"), "dump_ir": env_bool("TRITON_KERNEL_DUMP"),
        "dump_ir_extract_di_local_variables": env_bool("LLVM_EXTRACT_DI_LOCAL_VARIABLES"),
        "store_binary_only": env_bool("TRITON_STORE_BINARY_ONLY"),
        "disable_line_info": env_bool("TRITON_DISABLE_LINE_INFO"),
        "front_end_debugging": env_bool("TRITON_FRONT_END_DEBUGGING"),
        "allow_non_constexpr_globals": env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"),
        "enable_asan": env_bool("TRITON_ENABLE_ASAN"), "use_ir_loc": env_opt_str("USE_IR_LOC"),
        "instrumentation_mode": env_str("TRITON_INSTRUMENTATION_MODE", ""),
    },
    ("listener",),
)  # fmt: skip
autotuning = _group(
    "autotuning",
    {
        "cache": env_bool("TRITON_CACHE_AUTOTUNING"), "print": env_bool("TRITON_PRINT_AUTOTUNING"),
        "listener": Hook("after_tuning"),
    },
)  # fmt: skip
language = _group(
    "language",
    {
        "fp32_default": env_opt_str("TRITON_F32_DEFAULT"),
        "default_fp_fusion": env_bool("TRITON_DEFAULT_FP_FUSION", True),
    },
)
runtime = _group(
    "runtime",
    {
        "interpret": env_bool("TRITON_INTERPRET"), "debug": env_bool("TRITON_DEBUG"),
        "sanitize_overflow": env_bool("TRITON_SANITIZE_OVERFLOW", True),
        "override_arch": env_opt_str("TRITON_OVERRIDE_ARCH"),
        "jit_cache_hook": Hook("before_compilation"), "jit_post_compile_hook": Hook("after_compilation"),
        "launch_enter_hook": Chain(launch_hooks.before_launch),
        "launch_exit_hook": Chain(launch_hooks.after_launch),
        "kernel_load_start_hook": Chain(launch_hooks.before_load),
        "kernel_load_end_hook": Chain(launch_hooks.after_load),
    },
    ("kernel_unload_hook", "add_stages_inspection_hook"),
)  # fmt: skip
nvidia = _group(
    "nvidia",
    {
        "ptxas": env_nvidia_tool("ptxas"), "cuobjdump": env_nvidia_tool("cuobjdump"),
        "nvdisasm": env_nvidia_tool("nvdisasm"), "ptxas_options": env_opt_str("PTXAS_OPTIONS"),
        "dump_nvptx": env_bool("NVPTX_ENABLE_DUMP"), "dump_ptxas_log": env_bool("TRITON_DUMP_PTXAS_LOG"),
        "disable_ptxas_opt": env_bool("DISABLE_PTXAS_OPT"),
        "mock_ptx_version": env_opt_str("TRITON_MOCK_PTX_VERSION"),
        "libdevice_path": env_opt_str("TRITON_LIBDEVICE_PATH"), "libcuda_path": env_opt_str("TRITON_LIBCUDA_PATH"),
    },
)  # fmt: skip
amd = _group(
    "amd",
    {
        "use_buffer_ops": env_bool("AMDGCN_USE_BUFFER_OPS", True),
        "use_block_pingpong": env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG"),
        "use_in_thread_transpose": env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE"),
    },
)
proton = _group(
    "proton",
    {
        "disable": env_bool("TRITON_PROTON_DISABLE"), "enable_nvtx": env_bool("TRITON_ENABLE_NVTX", True),
        "cupti_lib_dir": env_opt_str("TRITON_CUPTI_LIB_PATH"),
    },
)  # fmt: skip


def refresh_knobs() -> None:
    """Nothing: knobs are read when they are asked for."""
