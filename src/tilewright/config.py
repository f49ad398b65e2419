"""Every setting that comes from the environment, read here and nowhere else.

`current()` re-reads the environment, so that a test or a notebook may set a variable between two
launches. TRITON_* spellings are accepted where a user of Triton already has them in scripts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_TRUE, _FALSE = ("1", "true", "on", "yes"), ("", "0", "false", "off", "no")
_OURS = "TILEWRIGHT_"


class _Environment:
    """Reads variables, and collects what is not understood in them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.known: set[str] = set()

    def text(self, *names: str) -> str | None:
        """The first variable that is set to something."""
        self.known.update(names)
        return next((os.environ[name] for name in names if os.environ.get(name)), None)

    def flag(self, *names: str, default: bool = False, also: str = "") -> bool:
        """Whether one of the variables says yes. `also` is a further word that is understood, and says no."""
        self.known.update(names)
        found = default
        for name in names:
            value = os.environ.get(name)
            if value is None:
                continue
            word = value.strip().lower()
            if word not in (*_TRUE, *_FALSE) and (not also or word != also):
                choices = f"1, 0{f' or {also}' if also else ''}"
                self.problem(name, value, choices)
            elif default:
                found = found and word not in _FALSE[1:]
            else:
                found = found or word in _TRUE
        return found

    def number(self, *names: str) -> int | None:
        """A positive integer; of a list, as OpenMP takes it, the first."""
        self.known.update(names)
        for name in names:
            value = os.environ.get(name)
            if not value:
                continue
            first = value.partition(",")[0].strip() if name.startswith("OMP_") else value.strip()
            if first.isdigit() and int(first) > 0:
                return int(first)
            self.problem(name, value, "a positive integer")
        return None

    def problem(self, name: str, value: str, choices: str) -> None:
        if name.startswith(_OURS):  # others may mean something else by theirs
            self.problems.append(f"{name}={value!r} is not understood (give {choices})")

    def misspelt(self) -> None:
        """Note variables whose names are almost those of settings."""
        for name in os.environ:
            if name.startswith(_OURS) and name not in self.known:
                from difflib import get_close_matches  # noqa: PLC0415 - rarely needed

                ends = [
                    known.removeprefix(_OURS) for known in self.known if known.startswith(_OURS)
                ]
                close = get_close_matches(name.removeprefix(_OURS), ends, 1, 0.8)
                if close:
                    text = f"{name} is not a setting (did you mean {_OURS}{close[0]}?)"
                    self.problems.append(text)


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
    """Where compiled kernels are kept (TILEWRIGHT_CACHE_DIR, TRITON_CACHE_DIR, or .triton/cache in TRITON_HOME); None: the user's cache folder."""
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
    """Verify the IR after every pass, not only once per level (TILEWRIGHT_VERIFY_EACH_PASS)."""
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
    signals: bool = True
    """Stop kernels on Ctrl-C and report memory faults in them (TILEWRIGHT_SIGNALS=0: leave signals alone)."""
    problems: tuple[str, ...] = ()
    """What is not understood in the environment: the first launch refuses it."""

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
    env = _Environment()
    cache_dir, home = env.text("TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR"), env.text("TRITON_HOME")
    if cache_dir is None and home is not None:
        cache_dir = f"{home}/.triton/cache"
    ptxas = env.text("TILEWRIGHT_PTXAS", "TRITON_PTXAS_PATH")
    interpret = env.flag("TILEWRIGHT_INTERPRET", "TRITON_INTERPRET", also="ir")
    found = Config(
        interpret=interpret,
        interpret_ir=(env.text("TILEWRIGHT_INTERPRET") or "").strip().lower() == "ir",
        debug=env.flag("TILEWRIGHT_DEBUG", "TRITON_DEBUG"),
        cache_dir=Path(cache_dir) if cache_dir else None,
        cache_limit_bytes=(env.number("TILEWRIGHT_CACHE_LIMIT_MB") or 1024) << 20,
        always_compile=env.flag("TILEWRIGHT_ALWAYS_COMPILE", "TRITON_ALWAYS_COMPILE"),
        print_autotuning=env.flag("TILEWRIGHT_PRINT_AUTOTUNING", "TRITON_PRINT_AUTOTUNING"),
        cache_autotuning=env.flag(
            "TILEWRIGHT_CACHE_AUTOTUNING", "TRITON_CACHE_AUTOTUNING", default=True
        ),
        full_traceback=env.flag("TILEWRIGHT_FULL_TRACEBACK"),
        verify_each_pass=env.flag("TILEWRIGHT_VERIFY_EACH_PASS"),
        disabled_passes=_split(env.text("TILEWRIGHT_DISABLE")),
        cpu_features_off=_split(env.text("TILEWRIGHT_CPU_FEATURES_OFF")),
        debug_checks=_split(env.text("TILEWRIGHT_DEBUG_CHECKS")),
        check=env.text("TILEWRIGHT_CHECK") or "",
        cuda_home=env.text("CUDA_HOME", "CUDA_PATH"),
        ptxas=Path(ptxas) if ptxas else None,
        num_threads=env.number("TILEWRIGHT_NUM_THREADS", "OMP_NUM_THREADS"),
        signals=env.flag("TILEWRIGHT_SIGNALS", default=True),
    )
    env.misspelt()
    return replace(found, problems=tuple(env.problems)) if env.problems else found


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


#: variables that a launch looks at: they choose how a kernel is compiled or run
_LAUNCH_VARIABLES = (
    "TILEWRIGHT_INTERPRET", "TRITON_INTERPRET", "TILEWRIGHT_DEBUG", "TRITON_DEBUG",
    "TILEWRIGHT_DISABLE", "TILEWRIGHT_CPU_FEATURES_OFF", "TILEWRIGHT_CHECK",
)  # fmt: skip


def launch_variables_test() -> tuple[Callable[[Any], bool], frozenset[Any]]:
    """`(test, names)`: `test(names)` is true while none of the variables a launch reads is set.

    A launch is budgeted in hundreds of nanoseconds and `os.environ` costs one per variable, so the
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


def variable(name: str) -> str | None:
    """The environment variable `name`; None where it is not set."""
    return os.environ.get(name)


def set_variable(name: str, value: str | None) -> None:
    """Set the environment variable `name`, of this process and those started from here; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
