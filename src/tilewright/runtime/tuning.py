"""A tuning run: compile the configurations, time those that compile, choose the fastest, and store the result on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import platform
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright import config as settings
from tilewright.backends import registry
from tilewright.errors import (
    AutotuneError,
    CompilationError,
    LaunchError,
    OutOfResources,
    PassError,
    UnsupportedTarget,
)
from tilewright.runtime.cache import cache_root, file_lock, replace_file
from tilewright.runtime.compiler import forms_as_asked, own_content, tool_versions
from tilewright.runtime.descriptors import TensorDescriptor, opened
from tilewright.runtime.devices import device_of
from tilewright.runtime.drivers.cuda import driver
from tilewright.runtime.drivers.kernels import cores
from tilewright.runtime.interface import innermost
from tilewright.runtime.snapshot import Snapshot
from tilewright.runtime.specialize import constant_text
from tilewright.runtime.timing import do_bench
from tilewright.runtime.tuning_config import Config, target_family
from tilewright.runtime.tuning_progress import progress
from tilewright.runtime.workers import side_by_side, worthwhile

QUANTILES = (0.5, 0.2, 0.8)
#: configurations this close to the fastest count as equal; the first in the list wins
TIE = 1.02
#: a first estimate this many times the best so far is enough to drop a configuration
HOPELESS = 3.0
_DEFAULT_WARMUP_MS = 5.0
_DEFAULT_REP_MS = 40.0
#: snapshots up to this size are put back before every run, larger ones once per configuration
_RESTORE_EACH_RUN_BYTES = 1 << 20
_SKIPPED = (OutOfResources, CompilationError, PassError, UnsupportedTarget)


@dataclass
class TuningTask:
    """A launch to be tuned: the kernel below the autotuner, its arguments, the user's wishes."""

    kernel: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    grid: Any
    kwargs: dict[str, Any]
    key: tuple[Hashable, ...] = ()
    reset_to_zero: Sequence[str] = ()
    restore_value: Sequence[str] = ()
    pre_hook: Callable[..., Any] | None = None
    post_hook: Callable[..., Any] | None = None
    bench: Callable[..., Any] | None = None
    warmup_ms: float | None = None
    rep_ms: float | None = None

    def launch(self, config: Config, warmup: bool = False) -> Any:
        """Run (or with `warmup` compile) the kernel with `config`."""
        return self.kernel.run(
            *self.args, grid=self.grid, warmup=warmup, **self.kwargs, **config.all_kwargs()
        )

    def described(self, config: Config) -> TuningTask:
        """This task with copies of its descriptors as `config`'s hook sets them: their block shape is
        part of the code, and a hook is where it is chosen."""
        values = [v for v in self.named.values() if isinstance(v, TensorDescriptor)]
        if config.pre_hook is None or not values:
            return self
        copies = {id(value): copy(value) for value in values}
        task = replace(
            self,
            args=tuple(copies.get(id(v), v) for v in self.args),
            named={k: copies.get(id(v), v) for k, v in self.named.items()},
            kwargs={k: copies.get(id(v), v) for k, v in self.kwargs.items()},
        )
        config.pre_hook({**task.named, **config.all_kwargs()})
        return task


@dataclass
class Tuner:
    """Chooses a configuration for a task. `effective(config)` is the part that changes code."""

    task: TuningTask
    effective: Callable[[Config], dict[str, Any]]
    timings: dict[Config, Any] = field(default_factory=dict)
    failures: dict[Config, str] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    measured: int = 0
    """Number of configurations timed in this run (the rest were cached or duplicates)."""
    from_disk: int = 0
    """Number of timings from earlier runs that were on disk."""

    def choose(self, configs: Sequence[Config]) -> Config:
        """The fastest configuration. Raises the error common to all configurations, or AutotuneError."""
        groups: dict[str, list[Config]] = {}
        for config in configs:
            groups.setdefault(self._text(config), []).append(config)
        if len(groups) == 1:
            return configs[0]
        record = self._record()
        known = record.load() if record is not None else {}
        found: dict[str, Any] = {text: known[text] for text in groups if text in known}
        self.from_disk = len(found)
        missing = [group[0] for text, group in groups.items() if text not in found]
        fresh = self._measure(missing, [times[0] for times in found.values()]) if missing else {}
        found.update(fresh)
        if record is not None and fresh:
            record.update({k: v for k, v in fresh.items() if math.isfinite(v[0])})
        for text, group in groups.items():
            for config in group:
                self.timings[config] = found.get(text, [math.inf] * len(QUANTILES))
                if group[0] in self.failures:
                    self.failures[config] = self.failures[group[0]]
        return self._fastest(groups)

    def measure(self, config: Config) -> list[float]:
        """`[median, low, high]` ms of one configuration, inf where it cannot run."""
        unusable = [math.inf] * len(QUANTILES)
        try:
            return self._measure([config], ()).get(self._text(config), unusable)
        except _SKIPPED:
            return unusable

    def _text(self, config: Config) -> str:
        """A text that is equal for equivalent configurations."""
        text = json.dumps(self.effective(config), sort_keys=True, default=_value_text)
        return text if config.pre_hook is None else f"{text} hook {id(config.pre_hook)}"

    def _fastest(self, groups: Mapping[str, Sequence[Config]]) -> Config:
        medians = {g[0]: self.timings[g[0]][0] for g in groups.values()}
        best = min(medians.values())
        if not math.isfinite(best):
            self._raise_all_failed()
        return next(config for config, median in medians.items() if median <= best * TIE)

    def _raise_common_error(self) -> None:
        """Raise the error with which all configurations failed to compile, if it is one."""
        if len({_first_line(error) for error in self.errors}) == 1:
            raise self.errors[0]

    def _raise_all_failed(self) -> None:
        reasons = [f"  {config}\n    {why}" for config, why in self.failures.items()]
        raise AutotuneError(
            f"none of the {len(self.failures)} configurations works:\n" + "\n".join(reasons),
            help="add smaller configurations, or see why the first does not compile",
        )

    # ---- measuring -----------------------------------------------------------------------------

    def _measure(self, configs: Sequence[Config], known: Sequence[float]) -> dict[str, Any]:
        """`[median, low, high]` ms by configuration text, inf where it does not run."""
        result: dict[str, Any] = {}
        name = getattr(innermost(self.task.kernel), "__name__", "kernel")
        with progress(name, len(configs)) as advance:
            working, written = self._compile(configs, advance)
            if not working and not known:
                self._raise_common_error()
            snapshot = Snapshot(self._values(written))
            best = min(known, default=math.inf)
            try:
                for config in working:
                    times = self._time(config, snapshot, best)
                    result[self._text(config)] = times
                    best = min(best, times[0])
                    self.measured += 1
                    advance(best)
            finally:
                snapshot.restore()
        return result

    def _compile(
        self, configs: Sequence[Config], advance: Callable[..., None]
    ) -> tuple[list[Config], list[str]]:
        """The configurations that compile, and the arguments that any of them may write."""
        working, written = [], dict.fromkeys([*self.task.reset_to_zero, *self.task.restore_value])
        for config, compiled in zip(configs, self._compiled(configs), strict=True):
            if isinstance(compiled, Exception):
                self.errors.append(compiled)
                self.failures[config] = _first_line(compiled)
                self._report_to_hooks(config, compiled)
                advance()
                continue
            working.append(config)
            written.update(dict.fromkeys(self._written(compiled)))
            advance()
        return working, list(written)

    def _report_to_hooks(self, config: Config, error: Exception) -> None:
        """Call the hooks around a run as if `config` had failed to compile in one, as it does in Triton."""
        task = self.task
        full = {**task.named, **config.all_kwargs()}
        if task.pre_hook is not None:
            task.pre_hook(full, reset_only=False)
        if task.post_hook is not None:
            task.post_hook(full, exception=error)

    def _compiled(self, configs: Sequence[Config]) -> Iterator[Any]:
        """The compiled kernel or the error of each configuration. Configurations that exceed the target's
        resources are excluded. Several compile concurrently (`workers`).
        """

        def compile_one(config: Config) -> Any:
            try:
                with forms_as_asked():
                    compiled = self.task.described(config).launch(config, warmup=True)
                if hasattr(compiled, "check_fits"):
                    compiled.check_fits()
            except _SKIPPED as error:
                return error
            return compiled

        # without workers compiling is Python and LLVM under one lock; GPUs' assembler is a process
        alone = target_family(self.task.named.values()) == "cpu"
        if len(configs) < 2 or (alone and not worthwhile(len(configs), cores())):
            yield from map(compile_one, configs)
            return
        threads = min(len(configs), 2 * cores())  # so that a worker finds its next one read
        with (
            side_by_side(len(configs), cores()),
            ThreadPoolExecutor(threads, "tilewright-compile") as pool,
        ):
            yield from pool.map(compile_one, configs)

    def _written(self, compiled: Any) -> list[str]:
        """Names of pointer arguments that a compiled kernel may write (all when it cannot say)."""
        plan = getattr(compiled, "plan", None)
        if plan is None:
            return list(self.task.named)
        return [a.name for a in plan.arguments if a.kind == "pointer" and a.written]

    def _values(self, names: Sequence[str]) -> list[Any]:
        """The arguments with these names; a slot of a tuple is named after its parameter."""
        named = {name: opened(value) for name, value in self.task.named.items()}
        slots = [name for name in names if name not in named]
        return [
            value
            for name, value in named.items()
            if name in names
            or (isinstance(value, tuple) and any(slot.startswith(name) for slot in slots))
        ]

    def _time(self, config: Config, snapshot: Snapshot, best: float) -> list[float]:
        task = self.task
        full = {**task.named, **config.all_kwargs()}
        snapshot.restore()

        def before() -> None:
            self._before_run(config, full, snapshot)

        def call() -> None:
            try:
                task.launch(config)
            except Exception as error:
                if task.post_hook is not None:
                    task.post_hook(full, exception=error)
                raise

        def after() -> None:
            if task.post_hook is not None:
                task.post_hook(full, exception=None)

        def whole() -> None:
            before()
            call()
            after()

        try:
            if task.bench is not None:
                times = task.bench(whole, quantiles=QUANTILES)
            else:
                times = do_bench(
                    call,
                    warmup=_DEFAULT_WARMUP_MS if task.warmup_ms is None else task.warmup_ms,
                    rep=_DEFAULT_REP_MS if task.rep_ms is None else task.rep_ms,
                    quantiles=QUANTILES,
                    setup=before,
                    teardown=after,
                    give_up_above=best * HOPELESS if math.isfinite(best) else None,
                )
        except _SKIPPED as error:
            self.failures[config] = _first_line(error)
            return [math.inf] * len(QUANTILES)
        return list(times) if isinstance(times, (list, tuple)) else [float(times)] * len(QUANTILES)

    def _before_run(self, config: Config, full: dict[str, Any], snapshot: Snapshot) -> None:
        """Bring the arrays into the state in which every run starts."""
        task = self.task
        if task.restore_value or snapshot.nbytes <= _RESTORE_EACH_RUN_BYTES:
            snapshot.restore()
        for name in task.reset_to_zero:
            set_zero(task.named.get(name))
        if task.pre_hook is not None:
            task.pre_hook(full, reset_only=False)
        if config.pre_hook is not None:
            config.pre_hook(full)

    # ---- the key of a tuning record --------------------------------------------------------------

    def _record(self) -> TuningRecord | None:
        task, now = self.task, settings.current()
        kernel = innermost(task.kernel)
        own_measure = task.bench is not None or task.pre_hook is not None
        if not now.cache_autotuning or now.interpreted or own_measure:
            return None
        source = getattr(kernel, "cache_key", None)
        private = getattr(getattr(kernel, "dependencies", None), "private", False)
        if not source or private:
            return None
        return TuningRecord(
            {
                "kernel": str(source),
                # a different compiler yields different timings
                "compiler": " ".join((own_content(), *tool_versions())),
                "target": target_text(list(task.named.values())),
                "threads": str(now.num_threads or "all"),
                "disabled": ",".join(now.disabled_passes),
                "key": _value_text(task.key),
                "options": repr(sorted((k, _value_text(v)) for k, v in _plain(task).items())),
            }
        )


def _plain(task: TuningTask) -> dict[str, Any]:
    """Launch keywords that are not arrays: they may change the code."""
    return {k: v for k, v in task.kwargs.items() if not hasattr(v, "dtype")}


def _value_text(value: Any) -> str:
    """The text of a value in a record: its content, or its repr if the content cannot be read."""
    try:
        return constant_text(value)
    except LaunchError:
        return repr(value)


def target_text(args: Sequence[Any]) -> str:
    """The target's cache key for launches with these arguments."""
    family = target_family(args)
    for value in args:
        index = device_of(value)
        if index is not None:
            gpu = driver().device(index)
            return f"{gpu.target.key} {gpu.name} {gpu.multiprocessors} driver {driver().version}"
    try:
        return str(registry.get(family).target().key)
    except (ImportError, AttributeError, LookupError):
        return f"{family}:{platform.machine()}:{platform.processor()}"


def set_zero(value: Any) -> None:
    """Fill an array of any library with zeros; ignore other values."""
    if hasattr(value, "zero_"):
        value.zero_()
    elif hasattr(value, "dtype"):
        value[...] = 0


def _first_line(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return f"{type(error).__name__}: {text.splitlines()[0]}"


_FORMAT = 1


class TuningRecord:
    """Timings of one kernel on one target for one tuning key.

    `identity` is everything the timings depend on except the configuration; it is stored in the
    file and compared on load. Timings are `[median, low, high]` in ms, or a text: why it failed.
    """

    def __init__(self, identity: Mapping[str, str]) -> None:
        self.identity = dict(identity)
        text = json.dumps(self.identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:40]
        self.path = cache_root() / "tuning" / f"{digest}.json"

    def load(self) -> dict[str, list[float]]:
        """Timings by configuration text; {} when there are none."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT or data["identity"] != self.identity:
                return {}
            return {
                str(name): [float(t) for t in times]
                for name, times in data["timings"].items()
                if times and all(isinstance(t, (int, float)) for t in times)
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def update(self, timings: Mapping[str, list[float]]) -> None:
        """Merge `timings` into the file. A folder that cannot be written is no error."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file_lock(Path(f"{self.path}.lock"), 5):
                data = {
                    "format": _FORMAT,
                    "identity": self.identity,
                    "timings": {**self.load(), **timings},
                }
                replace_file(self.path, json.dumps(data, indent=1, sort_keys=True).encode())
