"""`autotune`: time a kernel's configurations on the real arguments and keep the fastest.

The interface is Triton's (decorator arguments, `Config`, the attributes of `Autotuner`), with
four differences. Arrays that the kernel writes are restored after tuning even without
`reset_to_zero`/`restore_value`. Configurations that are equivalent on the target are timed once.
The first configuration in list order within 2 % of the fastest wins, so noise does not decide.
Timings are stored on disk individually (`TuningRecord`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tilewright import config as settings
from tilewright.errors import AutotuneError, KeywordConflictError, LaunchError
from tilewright.runtime import hooks
from tilewright.runtime.interface import KernelDecorator, innermost, parameter_names
from tilewright.runtime.representations import autotuner_html, autotuner_text
from tilewright.runtime.tracebacks import user_facing, warn_caller
from tilewright.runtime.tuning import Tuner, TuningTask, set_zero
from tilewright.runtime.tuning_config import Config, effective_options, target_family

Hook = Callable[..., Any]
_Choice = tuple[Config, dict[str, Any]]
_FAST_ENTRIES = 4096

__all__ = ["Autotuner", "Config", "autotune"]


def _pruning(prune_configs_by: Mapping[str, Any] | None) -> tuple[Hook | None, Any, Hook | None]:
    """`perf_model`, `top_k`, `early_config_prune` of a `prune_configs_by` dict.

    `top_k` may have the name of the autotuner's attribute: so torch names it when it makes an autotuner of another.
    """
    given = dict(prune_configs_by or {})
    perf_model = given.pop("perf_model", None)
    top_k = given.pop("configs_top_k", 1.0)
    top_k = given.pop("top_k", top_k)
    early = given.pop("early_config_prune", None)
    if given:
        raise LaunchError(
            f"autotune: prune_configs_by has no {', '.join(map(repr, given))}",
            help="its keys are perf_model, top_k and early_config_prune",
        )
    if isinstance(top_k, bool) or not isinstance(top_k, (int, float)) or top_k <= 0:
        raise LaunchError(
            f"autotune: top_k={top_k!r}",
            help="give a positive count, or a float up to 1.0 for a share of the list",
        )
    return perf_model, top_k, early


class Autotuner(KernelDecorator):
    """A kernel that selects its configuration by timing (see `autotune`).

    Attributes:
        configs: the argument of `autotune`. `keys`: names whose values select a tuning result.
        cache: tuning key → chosen Config. `best_config`: the one used by the latest launch.
        configs_timings: Config → `[median, 20 %, 80 %]` ms of the latest tuning (inf: cannot run).
        failures: Config → reason for its exclusion in the latest tuning.
        bench_time: seconds the latest tuning took.
        fn: the decorated kernel. `base_fn`: the plain function at the bottom. `arg_names`.
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config] | None,
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Hook | None = None,
        post_hook: Hook | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Hook | None = None,
        cache_results: bool = False,
    ) -> None:
        super().__init__(fn, arg_names)
        self.configs = list(configs) if configs else [Config({})]
        self.keys = list(key)
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.pre_hook = self._set_to_zero if pre_hook is None else pre_hook
        self.post_hook = _nothing if post_hook is None else post_hook
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.perf_model, self.configs_top_k, self.early_config_prune = _pruning(prune_configs_by)
        self.num_warmups, self.num_reps = warmup, rep
        self.use_cuda_graph = use_cuda_graph
        self.do_bench = do_bench
        self.cache_results = cache_results
        self.cache: dict[tuple[Hashable, ...], Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Any] = {}
        self.failures: dict[Config, str] = {}
        self.bench_time = 0.0
        self.nargs: dict[str, Any] | None = None
        self._lock = threading.RLock()
        self._fast: dict[Any, tuple[tuple[Hashable, ...], _Choice]] = {}
        self._drop_unknown_keys()
        self._check_names()
        self._key_places = [self.arg_names.index(name) for name in self.keys]

    def _drop_unknown_keys(self) -> None:
        """Remove key names that are not parameters: programs list former ones, which cannot affect the choice."""
        unknown = [name for name in self.keys if name not in self.arg_names]
        if unknown:
            self.keys = [name for name in self.keys if name in self.arg_names]
            warn_caller(
                f"autotune: key names {', '.join(map(repr, unknown))}, which {self._name()} does not have as a "
                f"parameter: ignored (its parameters are {', '.join(self.arg_names)})"
            )

    def _name(self) -> str:
        return getattr(self.base_fn, "__name__", "kernel")

    def _check_names(self) -> None:
        for what, names in (
            ("reset_to_zero", self.reset_to_zero),
            ("restore_value", self.restore_value),
        ):
            unknown = [name for name in names if name not in self.arg_names]
            if unknown:
                raise LaunchError(
                    f"autotune: {what} names {', '.join(map(repr, unknown))}, which the kernel "
                    "does not have as a parameter",
                    help=f"the kernel's parameters are {', '.join(self.arg_names)}",
                )
        for config in self.configs:
            if not isinstance(config, Config):
                raise LaunchError(
                    f"autotune: configs holds {config!r}", help="make it a list of Config objects"
                )

    def __repr__(self) -> str:
        return autotuner_text(self)

    def _repr_html_(self) -> str:
        return autotuner_html(self)

    # ---- launching -----------------------------------------------------------------------------

    @user_facing
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the chosen configuration, tuning first when the key is new."""
        if warmup:
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            return self._compile_all(args, grid, kwargs)
        config, options = self._known(args, kwargs) or self._choose(args, grid, kwargs)
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self._named(args, kwargs), **options})
        return self.fn[grid](*args, **kwargs, **options)

    def _known(self, args: Sequence[Any], kwargs: dict[str, Any]) -> _Choice | None:
        """The cached choice for such arguments, looked up without computing their tuning key."""
        entry = self._fast.get(self._fast_key(args, kwargs))
        if entry is None or self.cache.get(entry[0]) is not entry[1][0]:
            return None
        return entry[1]

    def _fast_key(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A key that costs little; None where values cannot be one."""
        try:
            values = [args[i] for i in self._key_places]
            key = (
                *values,
                *[getattr(value, "dtype", None) for value in args],
                *[getattr(value, "is_cuda", value.__class__) for value in args],
                *[(n, getattr(v, "dtype", n in self.keys and v)) for n, v in kwargs.items()],
            )
            hash(key)
        except (IndexError, TypeError):
            return None
        return key

    def _compile_all(self, args: Any, grid: Any, kwargs: dict[str, Any]) -> list[Any]:
        return [
            self.fn.run(*args, grid=grid, warmup=True, **kwargs, **config.all_kwargs())
            for config in self.prune_configs(kwargs)
        ]

    @user_facing
    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> list[Any]:
        """Compile every configuration that remains after pruning, without launching."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.arg_names, args, strict=False)), **kwargs}

    def tuning_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Hashable, ...]:
        """Values of the key arguments, the dtypes of all arrays, and the target if it is a GPU."""
        named = self._named(args, kwargs)
        values = [named[name] if name in named else self._defaults.get(name) for name in self.keys]
        key = [
            str(v.dtype) if v is not None and hasattr(v, "dtype") else getattr(v, "value", v)
            for v in values
        ]
        found = [named.get(name) for name in self.arg_names]
        key += [
            str(value.dtype) for value in found if value is not None and hasattr(value, "dtype")
        ]
        family = target_family(found)
        return tuple(key if family == "cpu" else [*key, family])

    def _choose(self, args: Sequence[Any], grid: Any, kwargs: dict[str, Any]) -> _Choice:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        if len(self.configs) == 1:
            self._reject_conflicts(self.configs, kwargs)
            return self.configs[0], self.configs[0].all_kwargs()
        if settings.current().interpreted:  # timing interpreted kernels is meaningless
            configs = self.prune_configs(kwargs)
            self._reject_conflicts(configs, kwargs)
            return configs[0], configs[0].all_kwargs()
        key = self.tuning_key(args, kwargs)
        with self._lock:
            config = self.cache.get(key)
            if config is None:
                config = self.cache[key] = self._tune(key, args, grid, kwargs)
            self._reject_conflicts([config], kwargs)
            choice = config, config.all_kwargs()
            fast = self._fast_key(args, kwargs)
            if fast is not None:
                if len(self._fast) >= _FAST_ENTRIES:
                    self._fast.clear()
                self._fast[fast] = key, choice
        return choice

    def _reject_conflicts(self, configs: Sequence[Config], kwargs: Mapping[str, Any]) -> None:
        for config in configs:
            twice = kwargs.keys() & config.all_kwargs().keys()
            if twice:
                raise KeywordConflictError(
                    f"{', '.join(map(repr, sorted(twice)))} is given by the launch and by "
                    f"the autotuned configuration {config}",
                    help="leave it out of the call: autotune chooses it",
                )

    # ---- tuning --------------------------------------------------------------------------------

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """The configurations to measure for the arguments in `self.nargs` and `kwargs`."""
        configs = self.configs
        named = self.nargs or {}
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(configs, named, **kwargs))
            if not configs:
                raise AutotuneError(
                    "Autotuner error: No valid autotuner configs after pruning. `early_config_prune` should return "
                    "at least one config."
                )
        if self.perf_model is not None:
            share = isinstance(self.configs_top_k, float) and self.configs_top_k <= 1.0
            top_k = self.configs_top_k * len(self.configs) if share else self.configs_top_k
            top_k = max(1, int(top_k))
            if len(configs) > top_k:
                cost = {c: self.perf_model(**named, **kwargs, **c.all_kwargs()) for c in configs}
                best = sorted(cost, key=lambda c: cost[c])[:top_k]
                configs = [c for c in configs if c in best]
        return configs

    def _tune(
        self, key: tuple[Hashable, ...], args: Sequence[Any], grid: Any, kwargs: dict[str, Any]
    ) -> Config:
        start = time.perf_counter()
        configs = self.prune_configs(kwargs)
        self._reject_conflicts(configs, kwargs)
        tuner = self._tuner(args, grid, kwargs, key)
        chosen = tuner.choose(configs)
        if self.user_defined_pre_hook:  # the launch that follows starts as a timed run does
            self.pre_hook({**tuner.task.named, **chosen.all_kwargs()}, reset_only=True)
        self.configs_timings, self.failures = tuner.timings, tuner.failures
        self.bench_time = time.perf_counter() - start
        if hooks.after_tuning is not None and tuner.timings:
            hit = not tuner.measured
            hooks.after_tuning(
                fn=innermost(self), key=key, best_config=chosen, configs_timings=tuner.timings,
                duration=None if hit else self.bench_time, cache_hit=hit,
            )  # fmt: skip
        if settings.current().print_autotuning:
            self._print_result(key, tuner, chosen)
        return chosen

    def _print_result(self, key: Any, tuner: Tuner, chosen: Config) -> None:
        source = ""
        if tuner.from_disk:
            source = (
                f"{tuner.from_disk} of {tuner.from_disk + tuner.measured} timings read from disk,\n"
            )
        print(
            f"Triton autotuning for function {self._name()},\nwith key as {key},\n{source}"
            f"finished after {self.bench_time:.2f}s,\nbest config selected: {chosen};"
        )

    def _tuner(
        self, args: Sequence[Any], grid: Any, kwargs: dict[str, Any], key: tuple[Hashable, ...]
    ) -> Tuner:
        task = TuningTask(
            kernel=self.fn,
            args=tuple(args),
            named=self._named(args, kwargs),
            grid=grid,
            kwargs=kwargs,
            key=key,
            reset_to_zero=self.reset_to_zero,
            restore_value=self.restore_value,
            pre_hook=self.pre_hook if self.user_defined_pre_hook else None,
            post_hook=self.post_hook if self.user_defined_post_hook else None,
            bench=self.do_bench,
            warmup_ms=self.num_warmups,
            rep_ms=self.num_reps,
        )
        return Tuner(task, effective_options(innermost(self), list(task.named.values())))

    def _set_to_zero(self, named: Mapping[str, Any], reset_only: bool = False) -> None:
        """Default hook before a timed run."""
        for name in self.reset_to_zero:
            set_zero(named.get(name))

    def _bench(self, *args: Any, config: Config, grid: Any, **kwargs: Any) -> list[float]:
        """`[median, low, high]` ms of one configuration, inf where it cannot run.

        The name is Triton's: tuners of other projects are subclasses with a `run` of their own.
        """
        kwargs.pop("warmup", None)  # which `run` was given
        return self._tuner(args, grid, kwargs, ()).measure(config)

    @user_facing
    def get_best_config(self, *values: Any) -> Config:
        """The configuration chosen for these values of the key arguments (in `key` order).

        Omitted trailing values match anything; among several results (of different dtypes) the
        latest is used. Without values: the configuration of the latest launch.

        Raises:
            AutotuneError: nothing was tuned for these values yet.
        """
        if len(self.configs) == 1:
            return self.configs[0]
        if not values and self.best_config is not None:
            return self.best_config
        found = [c for key, c in self.cache.items() if values and key[: len(values)] == values]
        if len(values) > len(self.keys) or not found:
            given = ", ".join(f"{n}={v!r}" for n, v in zip(self.keys, values, strict=False))
            raise AutotuneError(
                f"no configuration has been chosen for {given or 'any launch'}",
                help="launch the kernel with such arguments first",
            )
        return found[-1]


def _nothing(*_: Any, **__: Any) -> None:
    """The hook after a run where the user gave none."""


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Hook | None = None,
    post_hook: Hook | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Hook | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Decorate a kernel: select among `configs` by timing, once for each value of `key`.

    Args:
        configs: the candidates. Those that fail to compile or exceed a resource limit are
            excluded; if none remains the error lists each reason.
        key: names of arguments; a new combination of their values (or of array dtypes) triggers tuning.
        prune_configs_by: `{"early_config_prune": f(configs, named_args, **kwargs) -> configs,
            "perf_model": f(**arguments and configuration) -> estimated time, "top_k": how many}`.
        reset_to_zero: arrays set to zero before every timed run.
        restore_value: arrays restored before every timed run. All arrays that the kernel writes
            are always restored after tuning.
        pre_hook, post_hook: `pre_hook(args, reset_only=False)`, `post_hook(args, exception=None)`
            around every timed run, outside the measured time, and once for a configuration that does not
            compile; `pre_hook(args, reset_only=True)` after tuning.
        warmup, rep: milliseconds of unmeasured and measured runs per configuration.
        use_cuda_graph: accepted for Triton's sake.
        do_bench: `f(call, quantiles=(0.5, 0.2, 0.8)) -> [median, low, high]` instead of the default.
        cache_results: accepted for Triton's sake: results are stored on disk unless
            TILEWRIGHT_CACHE_AUTOTUNING=0.

    Raises:
        LaunchError: a name in `reset_to_zero` or `restore_value` is not a parameter. (In `key`, such names
            are ignored with a warning.)
    """

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn, parameter_names(fn, "autotune"), configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
            prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results,
        )  # fmt: skip

    return decorate
