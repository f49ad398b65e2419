"""Every setting that comes from the environment, read here and nowhere else.

`current()` re-reads the environment, so that a test or a notebook may set a variable between two
launches. TRITON_* spellings are accepted where a user of Triton already has them in scripts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def _flag(*names: str) -> bool:
    return any(os.environ.get(name, "0").lower() in ("1", "true", "on", "yes") for name in names)


def _text(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


@dataclass(frozen=True)
class Config:
    """One snapshot of the settings."""

    interpret: bool
    """Run kernels as Python (TILEWRIGHT_INTERPRET, TRITON_INTERPRET)."""
    interpret_ir: bool
    """Run kernels' IR in the interpreter (TILEWRIGHT_INTERPRET=ir)."""
    debug: bool
    """Keep `device_assert` in compiled kernels (TILEWRIGHT_DEBUG, TRITON_DEBUG)."""
    cache_dir: Path | None
    """Where compiled kernels are kept (TILEWRIGHT_CACHE_DIR, TRITON_CACHE_DIR); None: the user's cache folder."""
    cache_limit_bytes: int
    """Size bound of the disk cache (TILEWRIGHT_CACHE_LIMIT_MB, default 1024)."""
    always_compile: bool
    """Ignore the disk cache (TILEWRIGHT_ALWAYS_COMPILE, TRITON_ALWAYS_COMPILE)."""
    print_autotuning: bool
    """Tell which configuration won (TILEWRIGHT_PRINT_AUTOTUNING, TRITON_PRINT_AUTOTUNING)."""
    cache_autotuning: bool
    """Keep tuning results on disk (TILEWRIGHT_CACHE_AUTOTUNING, TRITON_CACHE_AUTOTUNING; default on)."""
    full_traceback: bool
    """Leave tilewright's own frames in tracebacks (TILEWRIGHT_FULL_TRACEBACK)."""
    verify_each_pass: bool
    """Verify the IR after every pass, not only once a level (TILEWRIGHT_VERIFY_EACH_PASS)."""
    disabled_passes: tuple[str, ...]
    """Passes to leave out, comma separated (TILEWRIGHT_DISABLE)."""
    cpu_features_off: tuple[str, ...]
    """CPU features to pretend are missing, comma separated, e.g. "amx-tile,avx512f" (TILEWRIGHT_CPU_FEATURES_OFF)."""
    debug_checks: tuple[str, ...]
    """Extra checks of kernels that run as Python, comma separated, or "all" (TILEWRIGHT_DEBUG_CHECKS)."""
    check: str
    """Checks in compiled code, comma separated: "bounds" (TILEWRIGHT_CHECK)."""
    cuda_home: str | None
    """A CUDA toolkit to find ptxas and libdevice in (CUDA_HOME, CUDA_PATH); none is needed to run."""
    num_threads: int | None
    """Threads of the CPU back end (TILEWRIGHT_NUM_THREADS, OMP_NUM_THREADS); None: all cores."""
    ptxas: Path | None
    """NVIDIA's assembler to use instead of the one found (TILEWRIGHT_PTXAS, TRITON_PTXAS_PATH);
    "none": the driver assembles."""

    @property
    def interpreted(self) -> bool:
        """Whether kernels run without machine code."""
        return self.interpret or self.interpret_ir


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


_latest: tuple[dict[Any, Any], Config] | None = None
"""The environment as it was when it was last read, and what it said."""


def current() -> Config:
    """The settings as the environment has them now."""
    global _latest
    environment = getattr(os.environ, "_data", None)  # to compare it takes 1 us, to read it 50
    if not isinstance(environment, dict):
        return _read()
    latest = _latest
    if latest is None or latest[0] != environment:
        latest = _latest = dict(environment), _read()
    return latest[1]


def _read() -> Config:
    cache_dir = _text("TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR")
    threads = _text("TILEWRIGHT_NUM_THREADS", "OMP_NUM_THREADS")
    tuning = _text("TILEWRIGHT_CACHE_AUTOTUNING", "TRITON_CACHE_AUTOTUNING")
    limit = _text("TILEWRIGHT_CACHE_LIMIT_MB")
    return Config(
        interpret=_flag("TILEWRIGHT_INTERPRET", "TRITON_INTERPRET"),
        interpret_ir=(_text("TILEWRIGHT_INTERPRET") or "").lower() == "ir",
        debug=_flag("TILEWRIGHT_DEBUG", "TRITON_DEBUG"),
        cache_dir=Path(cache_dir) if cache_dir else None,
        cache_limit_bytes=(int(limit) if limit and limit.isdigit() else 1024) << 20,
        always_compile=_flag("TILEWRIGHT_ALWAYS_COMPILE", "TRITON_ALWAYS_COMPILE"),
        print_autotuning=_flag("TILEWRIGHT_PRINT_AUTOTUNING", "TRITON_PRINT_AUTOTUNING"),
        cache_autotuning=tuning is None or tuning not in ("0", "false", "off"),
        full_traceback=_flag("TILEWRIGHT_FULL_TRACEBACK"),
        verify_each_pass=_flag("TILEWRIGHT_VERIFY_EACH_PASS"),
        disabled_passes=_split(_text("TILEWRIGHT_DISABLE")),
        cpu_features_off=_split(_text("TILEWRIGHT_CPU_FEATURES_OFF")),
        debug_checks=_split(_text("TILEWRIGHT_DEBUG_CHECKS")),
        check=_text("TILEWRIGHT_CHECK") or "",
        cuda_home=_text("CUDA_HOME", "CUDA_PATH"),
        ptxas=Path(ptxas) if (ptxas := _text("TILEWRIGHT_PTXAS", "TRITON_PTXAS_PATH")) else None,
        num_threads=int(threads) if threads and threads.isdigit() and int(threads) > 0 else None,
    )


_PREFIXES = ("TILEWRIGHT_", "TRITON_", "CUDA_", "OMP_")
"""What the names of all variables read here begin with."""


def variables() -> dict[str, str]:
    """The variables that settings are read from, for another process to `adopt`."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)}


def environment() -> Mapping[str, str]:
    """The environment as it is at any time: for code of the user's that reads it."""
    return os.environ


def adopt(given: Mapping[str, str]) -> None:
    """Take another process's `variables` for this one's."""
    for name in variables():
        os.environ.pop(name)
    os.environ.update(given)


def breakpoint_hook() -> str:
    """What PYTHONBREAKPOINT names instead of pdb, if anything."""
    return os.environ.get("PYTHONBREAKPOINT", "")


def environment_of_child(**more: str) -> dict[str, str]:
    """The environment for a process of ours, with `more` variables."""
    return {**os.environ, **more}


def set_for_children(name: str, value: str | None) -> None:
    """Set a variable for processes started from here, or remove it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


#: variables that a launch looks at: they choose how a kernel is compiled or run
_LAUNCH_VARIABLES = (
    "TILEWRIGHT_INTERPRET", "TRITON_INTERPRET", "TILEWRIGHT_DEBUG", "TRITON_DEBUG",
    "TILEWRIGHT_DISABLE", "TILEWRIGHT_CPU_FEATURES_OFF", "TILEWRIGHT_CHECK",
)  # fmt: skip


def launch_variables_test() -> tuple[Callable[[Any], bool], frozenset[Any]]:
    """`(test, names)`: `test(names)` is true while none of the variables a launch reads is set.

    A launch is budgeted in hundreds of nanoseconds and `os.environ` costs one a variable, so the
    test asks the dict below `os.environ` directly (through a live view of its keys).
    """
    encode = getattr(os.environ, "encodekey", str)
    data = getattr(os.environ, "_data", None)
    if not isinstance(data, dict):
        return os.environ.keys().isdisjoint, frozenset(_LAUNCH_VARIABLES)
    return data.keys().isdisjoint, frozenset(encode(name) for name in _LAUNCH_VARIABLES)


def launch_variables() -> tuple[str | None, ...]:
    """The values of those variables now."""
    return tuple(os.environ.get(name) for name in _LAUNCH_VARIABLES)
