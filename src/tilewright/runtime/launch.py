"""The launch path: a Python function generated for each kernel and the classes of its arguments.

A generated function binds positional, keyword and default arguments by being an ordinary function
with the kernel's parameters, computes the specialization key inline for the classes it was generated
for, and calls native code on a hit. Other arguments take `Launcher.slow`, which
handles every case, compiles missing kernels, and installs a fast function.

The generated code carries the kernel's file and `def` line, so that a traceback reads: the caller's
line, then the kernel's. Frames of this package are cut from the errors that it raises itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright import config
from tilewright.backends.base import MEANWHILE, Options
from tilewright.errors import LaunchError
from tilewright.runtime import devices, specialize
from tilewright.runtime import options as launch_options
from tilewright.runtime.async_compile import compile_in_mode
from tilewright.runtime.bounds import CheckedLaunch, after_tuple
from tilewright.runtime.compiler import build_ir
from tilewright.runtime.descriptors import ArgumentClass, arrays_of, class_of, native_kinds, opened
from tilewright.runtime.devices import Place
from tilewright.runtime.dynamo import dynamo_disabled
from tilewright.runtime.fast_path import FastPathSource
from tilewright.runtime.grids import grid_extents
from tilewright.runtime.hooks import compile_with_hooks
from tilewright.runtime.launch_hooks import around_launch, launch_hooks
from tilewright.runtime.options import check_settings
from tilewright.runtime.specialize import ArgumentType, MockTensor, Specializer, flatten
from tilewright.runtime.tracebacks import caller_location, on_one_line, without_own_frames

if TYPE_CHECKING:
    from tilewright.runtime.compiled import CompiledKernel
    from tilewright.runtime.jit import JITFunction


#: classes of the arguments, and the library that owns the GPU arrays (None: on the CPU)
_Case = tuple[tuple[ArgumentClass, ...], str | None]


class _Missing:
    def __repr__(self) -> str:
        return "<not given>"


MISSING = _Missing()

#: the last launch of a generated function that has none: `(part of a key, (call, compiled kernel))`
NONE_LAUNCHED = None, None


class Launcher:
    """Launches one kernel: holds its compiled variants and its generated launch functions."""

    def __init__(self, kernel: JITFunction) -> None:
        self.kernel = kernel
        name = kernel.fn.__name__
        self.name = name if name.isidentifier() else "kernel"  # of a lambda expression
        self.params = kernel.params
        self.usual_options = [n for n in launch_options.USUAL_OPTIONS if n not in kernel.arg_names]
        """Options that generated functions take by name: those that are not parameters of the kernel."""
        self.specializer = Specializer(kernel.params, kernel.do_not_specialize_on_alignment)
        self.compiled: dict[tuple[Any, ...], CompiledKernel] = {}
        self._pending: dict[tuple[Any, ...], threading.Lock] = {}
        self._fast: dict[_Case, Callable[..., Any]] = {}
        self._keys: dict[_Case, tuple[dict[str, Any], dict[Any, Any]]] = {}
        """The globals of its generated functions, and the compiled kernels by key."""
        self._lock = threading.RLock()
        self._seen: Any = None
        self._check_parameters()

    def _check_parameters(self) -> None:
        if "warmup" in self.kernel.arg_names:
            raise LaunchError(
                f"kernel {self.name} has a parameter called 'warmup', which launches use",
                help="rename it",
            )

    # ---- generated functions -----------------------------------------------------------------------

    def binder(self) -> Callable[..., Any]:
        """A function that only binds arguments and goes the slow path."""
        return self._generate("", None)[0]

    def _fast_function(self, case: _Case) -> Callable[..., Any] | None:
        """The function for arguments of these classes, if they have a fast path."""
        with self._lock:
            if case not in self._fast:
                code = FastPathSource(self, *case)
                if not code.possible:
                    return None
                entries: dict[Any, Any] = {}
                self._fast[case], scope = self._generate(code.body(), code, entries)
                self._keys[case] = scope, entries
            return self._fast[case]

    def _generate(
        self, fast: str, code: FastPathSource | None, entries: dict[Any, Any] | None = None
    ) -> tuple[Callable[..., Any], dict[str, Any]]:
        names = [p.name for p in self.params if _is_named(p)]
        head, values = self._head()
        usual = self.usual_options
        source = f"""
def {self.name}(_tw_grid, /, {head}, warmup=False{"".join(f", {n}=None" for n in usual)}, **_tw_options):
    global _tw_last
    try:
{fast or "        pass"}
{"".join(f"        if {n} is not None: _tw_options[{n!r}] = {n}{chr(10)}" for n in usual)}
        return _tw_slow(({"".join(n + ", " for n in names)}), _tw_extra, _tw_grid, warmup, _tw_options)
    except _tw_error as _tw_e:
        _tw_shown = _tw_strip(_tw_e)
    raise _tw_shown
"""
        if code is not None:
            made = f"{code.steady()}, {code.conditions()}"
            source += f"def _tw_key({', '.join(names)}):\n{code.setup('    ')}    return {made}\n"
        test, variables = config.launch_variables_test()
        gpu = code is not None and code.library is not None
        scope: dict[str, Any] = {
            "__name__": self.kernel.fn.__module__, "_tw_missing": MISSING, "_tw_slow": functools.partial(self.slow, code.case if code is not None else None),
            "_tw_error": Exception, "_tw_strip": self.shown,
            "_tw_plain": test, "_tw_names": variables, "_tw_settings": config.launch_variables,
            "_tw_hooks": self.kernel.pre_run_hooks, "_tw_launch_hooks": launch_hooks, "_tw_get": entries.get if entries is not None else None,
            "_tw_callable": callable, "_tw_extents": grid_extents, "_tw_option_key": functools.partial(launch_options.fast_key, gpu), "_tw_usual": launch_options.usual(gpu),
            "_tw_report": after_tuple, "_tw_last": NONE_LAUNCHED, "_tw_constant": specialize.constant_text,
            **values,
        }  # fmt: skip
        if code is not None:
            scope.update(code.scope)
        module = compile(source, self.kernel.file, "exec")
        exec(on_one_line(module, self.kernel.definition_line), scope)
        scope[self.name].__qualname__ = f"{self.name}[grid]"  # bound to a grid, it is shown with it
        return dynamo_disabled(scope[self.name]), scope

    def _head(self) -> tuple[str, dict[str, Any]]:
        """Parameter list up to the launch's own keywords, and the defaults it names."""
        before, after, values = [], [], {}
        for p in self.params:
            if not _is_named(p):
                continue
            default = "_tw_missing"
            if p.has_default:
                default = f"_tw_default{p.index}"
                values[default] = p.default
            keyword = p.parameter.kind is inspect.Parameter.KEYWORD_ONLY
            (after if keyword else before).append(f"{p.name}={default}")
        return ", ".join([*before, "*_tw_extra", *after]), values

    def _grid(self, grid: Any, *values: Any) -> tuple[int, ...]:
        if callable(grid):
            names = [p.name for p in self.params if _is_named(p)]
            try:
                grid = grid(dict(zip(names, values, strict=True)))
            except KeyError as error:
                error.add_note(f"A grid function of {self.name} is given {', '.join(names)}.")
                raise
        return grid_extents(grid)

    def shown(self, error: BaseException) -> BaseException:
        """`error` as the user gets it."""
        if isinstance(error, LaunchError) and error.location is None:
            self._locate(error)
        return without_own_frames(error)

    # ---- the slow path --------------------------------------------------------------------------------

    def slow(
        self,
        tried: _Case | None,
        values: tuple[Any, ...],
        extra: tuple[Any, ...],
        grid: Any,
        warmup: bool,
        options: Any,
    ) -> Any:
        """Check everything, compile if needed, launch, and prepare the fast path.

        `tried` is the case that the calling function was made for.
        """
        given, held = values, tuple(map(arrays_of, values))
        place = self._place(tuple(map(type, held)), held)
        case = tuple(map(class_of, given)), None if place is None else place.library
        fast = self._fast.get(case)
        if fast is not None and case != tried and not extra:
            self.kernel.set_run(fast)
            return fast(grid, *given, warmup=warmup, **options)
        values = tuple(map(opened, given))
        self._check_binding(values, extra, options)
        if warmup:
            values = tuple(  # a dtype stands for an array, but for a constant it is one
                v if p.is_constexpr else MockTensor.wrap_dtype(v)
                for p, v in zip(self.params, values, strict=True)
            )
        elif grid is MISSING:
            raise LaunchError("no grid was given", help=f"{self.name}[grid](...)")
        settings = config.current()
        check_settings(settings)
        if self.kernel.pre_run_hooks:
            named = dict(zip(self.kernel.arg_names, given, strict=True))
            for hook in list(self.kernel.pre_run_hooks):
                hook(**named, **options)
        if settings.interpret and self.kernel.written and not warmup:
            return self._interpret(values, grid, place)
        self.refresh()
        types = [self._type(p, v, warmup) for p, v in zip(self.params, values, strict=True)]
        own = launch_options.of_parameters(
            self.kernel, dict(zip(self.kernel.arg_names, values, strict=True))
        )
        chosen = launch_options.parse({**own, **options}, self.kernel, settings, place is not None)
        if (settings.interpret_ir or settings.interpret) and not warmup:
            return self._interpret_ir(types, values, grid, chosen, place)
        if warmup:
            work = functools.partial(self._compiled, types, chosen, settings, place)
            texts = *(t.text for t in types), str(place)
            return compile_in_mode((self, texts, chosen, settings.disabled_passes), work)
        if (compiled := self._compiled(types, chosen, settings, place, case)) is None:
            return None
        extents = self._grid(grid, *given)
        with around_launch(compiled, extents, given, 0 if place is None else place.stream()):
            self._run(compiled, types, values, extents, place)
        if not any(a is not b and type(a) is tuple for a, b in zip(given, values, strict=True)):
            self._remember(compiled, types, given, options, place)
        return compiled

    def _place(self, classes: tuple[type, ...], values: tuple[Any, ...]) -> Place | None:
        """The GPU that these arguments are on; None for the CPU."""
        if not devices.could_be_gpu(classes):
            return None
        pairs = zip(self.params, values, strict=False)  # `_check_binding` says what has no partner
        return devices.place_of([(p.name, v) for p, v in pairs if not p.is_constexpr])

    def _type(self, param: Any, value: Any, warmup: bool) -> ArgumentType:
        if warmup and isinstance(value, str) and not param.is_constexpr:
            parsed = specialize.parse_type(value)
            if parsed is not None:
                return parsed
        return self.specializer.argument(param, value)

    def _check_binding(
        self, values: tuple[Any, ...], extra: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        signature = f"its parameters are {', '.join(self.kernel.arg_names)}"
        for p in self.params:
            if not _is_named(p):
                raise LaunchError("a kernel cannot take a variable number of arguments")
        if extra:
            given = len(values) + len(extra)
            raise LaunchError(
                f"{given} positional arguments for {len(self.params)} parameters", help=signature
            )
        launch_options.check_known(options, self.kernel)
        pairs = list(zip(self.params, values, strict=True))
        missing = [p for p, v in pairs if v is MISSING and not p.is_constexpr]
        constants = [p for p, v in pairs if v is MISSING and p.is_constexpr]
        if missing:
            names = ", ".join(f"'{p.name}'" for p in missing)
            raise LaunchError(f"no value for {names}", help=signature)
        if constants:
            names = ", ".join(f"'{p.name}'" for p in constants)
            raise LaunchError(
                f"no value for the tl.constexpr parameter{'s' * (len(constants) > 1)} {names}",
                help="give it by keyword in the launch: "
                + ", ".join(f"{p.name}=..." for p in constants),
            )

    def refresh(self) -> None:
        """Discard compiled variants if a global that the kernel reads has changed."""
        if not self.kernel.dependencies_hold():
            self.kernel.forget_dependencies()
        if self._seen is not self.kernel.known_dependencies:
            with self._lock:
                before, self._seen = self._seen, self.kernel.dependencies
                if before is None or before.digest != self._seen.digest:
                    self.compiled.clear()
                for scope, entries in self._keys.values():
                    entries.clear()
                    scope["_tw_last"] = NONE_LAUNCHED
                self._fast.clear()
                self._keys.clear()
                self.kernel.set_run(self.binder())

    def _compiled(
        self,
        types: Sequence[ArgumentType],
        options: Options,
        settings: config.Config,
        place: Place | None,
        case: _Case | None = None,
    ) -> CompiledKernel | None:
        """The kernel for arguments of these types, compiled if it is not there; meanwhile the function for launches
        of `case` is made. Returns None if a hook prevents the compilation.
        """
        target = "cpu" if place is None else place.target()
        key = (
            target,
            tuple(t.text for t in types),
            options,
            settings.disabled_passes,
            settings.cpu_features_off,
            settings.cache_dir,
        )
        found = self.compiled.get(key)
        if found is not None:
            return found
        with self._lock:
            lock = self._pending.setdefault(key, threading.Lock())
        with lock:  # two threads that need the same kernel compile it once; others go on
            found = self.compiled.get(key)
            if found is None:
                if self._seen is None:
                    self._seen = self.kernel.dependencies
                signature = {p.name: t for p, t in zip(self.params, types, strict=True)}
                with self._function_meanwhile(case):
                    found = compile_with_hooks(
                        self.kernel, signature, options, target, key, case is None
                    )
                if found is not None:
                    self.compiled[key] = found
        return found

    @contextmanager
    def _function_meanwhile(self, case: _Case | None) -> Generator[None]:
        """Make the function for launches of `case` while the back end waits for a tool."""

        def make() -> None:
            with contextlib.suppress(LaunchError):  # the retry reports the error
                if case is not None:
                    self._fast_function(case)

        before = MEANWHILE.set(None if case is None else make)
        try:
            yield
        finally:
            MEANWHILE.reset(before)

    def _run(
        self,
        compiled: CompiledKernel,
        types: Sequence[ArgumentType],
        values: Sequence[Any],
        extents: tuple[int, ...],
        place: Place | None,
    ) -> None:
        slots = [slot for t, v in zip(types, values, strict=True) for slot in flatten(t, v)]
        written = {a.name for a in compiled.plan.arguments if a.written}
        for p, t, v in zip(self.params, types, values, strict=True):
            if t.kind == "address" and p.name in written and specialize.read_only(v):
                raise LaunchError(
                    f"a read-only array was given for '{p.name}', which the kernel writes",
                    help="pass a writeable array",
                )
        if compiled.plan.checked:
            words = [value for _, value in slots]
            CheckedLaunch(compiled, types, [kind for kind, _ in slots]).run(extents, words, values)
            return
        kinds, plain = [kind for kind, _ in slots], [value for _, value in slots]
        if place is None:
            result = compiled.launcher(kinds)(extents, *plain)
        else:
            devices.order_after(values, place)
            result = compiled.launcher(kinds, place.device)(extents, place.stream(), *plain)
        if result is not None:
            compiled.raise_result(result, extents)

    def _remember(
        self,
        compiled: CompiledKernel,
        types: Sequence[ArgumentType],
        values: tuple[Any, ...],
        options: dict[str, Any],
        place: Place | None,
    ) -> None:
        """Install the fast path for arguments like these."""
        case = tuple(map(class_of, values)), None if place is None else place.library
        if not all(_is_positional(p) for p in self.params):
            return
        with self._lock:
            function = self._fast_function(case)
            if function is None:
                return
            kinds = [
                kind
                for p, t, v in zip(self.params, types, values, strict=True)
                if not p.is_constexpr
                for kind in native_kinds(t, v)
            ]
            if "tuple" in kinds:
                return
            scope, entries = self._keys[case]
            test, names = config.launch_variables_test()
            settings = None if test(names) else config.launch_variables()
            other = {n: v for n, v in options.items() if n not in self.usual_options}
            option_key = launch_options.fast_key(place is not None, other) if other else ()
            usual = [] if place is None else [options.get(n) for n in self.usual_options]
            steady, conditions = scope["_tw_key"](*values)
            rest = *usual, option_key, settings
            if len(entries) > 4096:
                entries.clear()
            if compiled.plan.checked:
                checked = CheckedLaunch(compiled, types, kinds)
                entries[*steady, *conditions, *rest] = checked, compiled, NONE_LAUNCHED
                self.kernel.set_run(function)
                return
            device = None if place is None else place.device
            last = NONE_LAUNCHED
            if all(type(condition) is int for condition in conditions):
                last = (*steady, *rest), (compiled.launcher(kinds, device, conditions), compiled)
            entries[*steady, *conditions, *rest] = compiled.launcher(kinds, device), compiled, last
            scope["_tw_last"] = last
            self.kernel.set_run(function)

    def last_call(
        self, values: Sequence[Any], place: Place | None, compiled: CompiledKernel
    ) -> Callable[..., Any] | None:
        """The native call of the launch just made with `values`. It takes the grid, the stream on a GPU and a word per
        value, and launches nothing if the words' specialization differs. Requires that later values have the same
        classes and, for arrays, the same dtypes.

        Returns None if launches depend on more than their values, or return more than success.
        """
        plan = compiled.plan
        found = self.kernel.dependencies
        hooks = self.kernel.pre_run_hooks or launch_hooks
        if hooks or found.guards or found.states or plan.asserts or plan.prints:
            return None
        case = tuple(map(class_of, values)), None if place is None else place.library
        scope, _ = self._keys.get(case, ({}, None))
        _, entry = scope.get("_tw_last", NONE_LAUNCHED)
        return entry[0] if entry is not None and entry[1] is compiled else None

    def _interpret(self, values: tuple[Any, ...], grid: Any, place: Place | None) -> None:
        from tilewright.debug.eager import run_eager

        extents = self._grid(grid, *values)
        with _reachable(values, place) as values:
            arguments = {
                p.name: (self.specializer.argument(p, v).type, v)
                for p, v in zip(self.params, values, strict=True)
            }
            run_eager(self.kernel, extents, arguments)

    def _interpret_ir(
        self,
        types: Sequence[ArgumentType],
        values: tuple[Any, ...],
        grid: Any,
        options: Options,
        place: Place | None,
    ) -> None:
        from tilewright.debug.context import active_checks
        from tilewright.interpreter.executor import run_module

        signature = {p.name: t for p, t in zip(self.params, types, strict=True)}
        module = build_ir(self.kernel, signature, replace(options, debug=True))
        extents = self._grid(grid, *values)
        with _reachable(values, place) as values:
            arguments = specialize.ir_arguments(types, values)
            run_module(module, arguments, extents, checks=active_checks())

    # ---- errors --------------------------------------------------------------------------------------

    def _locate(self, error: LaunchError) -> None:
        """Add the failing launch and the kernel's location to an error."""
        kernel = self.kernel
        error.message = f"launch of {self.name}: {error.message}"
        if kernel.written:
            error.message += f" (the kernel is defined at {kernel.file}:{kernel.definition_line})"
        error.location = caller_location()
        error.args = (error.message,)


def _is_named(param: Any) -> bool:
    kinds = inspect.Parameter
    return param.parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)


def _is_positional(param: Any) -> bool:
    kinds = inspect.Parameter
    return param.parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)


def _reachable(
    values: tuple[Any, ...], place: Place | None
) -> AbstractContextManager[tuple[Any, ...]]:
    """The values for a kernel that is interpreted: GPU arrays are copied to the host for the duration."""
    if place is None:
        return nullcontext(values)
    from tilewright.runtime.gpu_memory import on_host

    return on_host(values, place)
