"""`jit` and `JITFunction`: a kernel that can be launched, compiled and looked at."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MethodType, SimpleNamespace
from typing import Any, overload

from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.dtypes import constexpr, unwrap_constexpr
from tilewright.errors import CompilationError, LaunchError
from tilewright.language.kernel_function import KernelFunction, KernelParam
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.compiler import compile_kernel
from tilewright.runtime.dependencies import Dependencies, dependencies_of
from tilewright.runtime.dynamo import dynamo_disabled
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.launch import MISSING, Launcher
from tilewright.runtime.options import for_compilation, is_option, of_parameters
from tilewright.runtime.representations import kernel_html, kernel_text
from tilewright.runtime.specialize import ArgumentType, MockTensor, parse_type, slot_kind
from tilewright.runtime.tracebacks import user_facing, warn_caller
from tilewright.targets import TargetInfo

__all__ = ["JITFunction", "KernelInterface", "KernelParam", "MockTensor", "jit"]


def __getattr__(name: str) -> Any:
    if name == "CompiledKernel":
        return CompiledKernel
    if name in ("TensorWrapper", "reinterpret"):
        from tilewright.runtime import tensor_wrapper

        return getattr(tensor_wrapper, name)
    raise AttributeError(name)


_kernels: weakref.WeakSet[JITFunction] = weakref.WeakSet()
"""All kernels that live."""


class JITFunction(KernelFunction, KernelInterface):
    """A kernel: launch it with `kernel[grid](*args, **meta)`.

    Attributes:
        fn, src, arg_names, params, file, first_line: the Python function and its parameters.
        signature: its `inspect.Signature`. `constexprs`: indices of constexpr parameters.
        cache_key: changes with everything the code depends on besides argument types.
        device_caches: device → ({key: CompiledKernel},).
        debug, noinline, version, do_not_specialize, noalias, pre_run_hooks: the arguments of `jit`.
        used_global_vals, _hash_lock: kept because tools set Triton's attributes of these names.
        written: whether a Python definition exists, which eager mode needs.
    """

    written = True

    def __init__(
        self,
        fn: Callable[..., Any],
        version: Any = None,
        do_not_specialize: Any = None,
        do_not_specialize_on_alignment: Any = None,
        debug: bool | None = None,
        noinline: bool = False,
        repr: Callable[[Any], str] | None = None,
        launch_metadata: Callable[..., Any] | None = None,
        noalias: Sequence[str] = (),
        any_extents: bool = False,
    ) -> None:
        super().__init__(fn, _names(do_not_specialize), noinline, _names(noalias), any_extents)
        self.version = version
        self.do_not_specialize_on_alignment = _names(do_not_specialize_on_alignment)
        self._warn_of_unknown("do_not_specialize", self.do_not_specialize)
        self._warn_of_unknown("do_not_specialize_on_alignment", self.do_not_specialize_on_alignment)
        self.debug = debug
        self.launch_metadata = launch_metadata
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.module = fn.__module__
        self.__name__, self.__qualname__, self.__doc__ = fn.__name__, fn.__qualname__, fn.__doc__
        self.__module__, self.__globals__ = fn.__module__, fn.__globals__
        self.signature = self.signature_of_fn
        self._repr = repr
        self._dependencies: Dependencies | None = None
        self._launcher: Launcher | None = None
        self._run: Callable[..., Any] | None = None
        self.used_global_vals: Any = {}
        self._hash_lock: Any = None
        _kernels.add(self)

    def _warn_of_unknown(self, option: str, names: tuple[str | int, ...]) -> None:
        """Warn of names that no parameter has: programs list former ones, as in an autotuner's `key`."""
        known = {*self.arg_names, *range(len(self.arg_names))}
        unknown = [name for name in names if name not in known]
        if unknown:
            warn_caller(
                f"jit: {option} names {', '.join(map(repr, unknown))}, which {self.__name__} does not have as a "
                f"parameter: ignored (its parameters are {', '.join(self.arg_names)})"
            )

    # ---- launching ---------------------------------------------------------------------------------

    @dynamo_disabled
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Bind a grid: one to three integers, or a function from the arguments to them."""
        run = self._run or self._first_run()
        # a bound method is faster than a partial and has a clearer repr; it cannot be bound to None
        return MethodType(run, grid) if grid is not None else functools.partial(run, grid)

    @user_facing
    def run(self, *args: Any, grid: Any = MISSING, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch over `grid`, as `kernel[grid](*args, **kwargs)` does; return the CompiledKernel.

        With `warmup`, only compile; dtypes, `MockTensor`s or signature texts ("*fp32") may then replace
        arrays. Raises LaunchError for an invalid call.
        """
        return (self._run or self._first_run())(grid, *args, warmup=warmup, **kwargs)

    @property
    def launcher(self) -> Launcher:
        """The kernel's launcher, created on first use."""
        if self._launcher is None:
            launcher = Launcher(self)
            self._run = launcher.binder()
            self._launcher = launcher
        return self._launcher

    def _first_run(self) -> Callable[..., Any]:
        launcher = self.launcher
        return self._run or launcher.binder()

    def set_run(self, function: Callable[..., Any]) -> None:
        """Replace the function that launches call."""
        self._run = function

    @user_facing
    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments without launching; return the CompiledKernel."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook(**arguments, **options)` before every launch."""
        if not callable(hook):
            raise LaunchError(f"a pre-run hook must be callable, not {hook!r}")
        self.pre_run_hooks.append(hook)

    # ---- compiling ---------------------------------------------------------------------------------

    @user_facing
    def compile(
        self,
        signature: Mapping[str, Any] | None = None,
        constexprs: Mapping[str, Any] | None = None,
        target: str | TargetInfo = "cpu",
        options: Options | Mapping[str, Any] | None = None,
        **types: Any,
    ) -> Any:
        """Compile for given types, without arguments.

        Args:
            signature: parameter → type text ("*fp32:16", "i32", "fp32", "tensordesc<fp16[64, 32]>"; `:16` means divisible
                by 16, a trailing "+" a nonnegative integer), a dtype or pointer type, or a constexpr; also as keywords.
            constexprs: values of constexpr parameters (defaults fill omitted ones).
            target: "cpu", "sm_90a" …, or a TargetInfo.
            options: an `Options`, or its fields; single ones also as keywords (`num_warps=8`).

        Raises LaunchError for an invalid signature, CompilationError for an error in the kernel.
        """
        for given in (signature, constexprs):
            if not isinstance(given, Mapping | None):
                raise LaunchError(
                    f"{given!r} is not a mapping", help='write {"x_ptr": "*fp32:16", "n": "i32"}'
                )
        single = of_parameters(self, {**types, **(constexprs or {})})
        single |= {n: types.pop(n) for n in [*types] if is_option(n) and n not in self.arg_names}
        given = {**(signature or {}), **types}
        values = dict(constexprs or {})
        full: dict[str, ArgumentType] = {}
        for p in self.params:
            if p.name in values:
                full[p.name] = ArgumentType(constexpr(values.pop(p.name)))
                given.pop(p.name, None)
            elif p.name in given:
                full[p.name] = _signature_type(p, given.pop(p.name))
            elif p.has_default:
                full[p.name] = ArgumentType(constexpr(p.default))
            else:
                raise LaunchError(
                    f"no type for '{p.name}'",
                    help=f"its parameters are {', '.join(self.arg_names)}",
                )
        unknown = [*given, *values]
        if unknown:
            raise LaunchError(
                f"there is no parameter {', '.join(map(repr, unknown))}",
                help=f"its parameters are {', '.join(self.arg_names)}",
            )
        return compile_kernel(self, full, for_compilation(options, single), target)

    @user_facing
    def preload(self, specialization: str | Mapping[str, Any]) -> Any:
        """`compile` with arguments as JSON: {"signature": …, "constexprs": …, "options": …}."""
        data = json.loads(specialization) if isinstance(specialization, str) else specialization
        return self.compile(
            data.get("signature"), data.get("constexprs"), options=data.get("options")
        )

    def build(
        self,
        signature: Mapping[str, Any],
        divisibility: Mapping[str, int],
        options: Any,
        name: str | None,
        nonnegative: frozenset[str] = frozenset(),
    ) -> Any:
        """Tile IR for these types (a `frontend.BuiltKernel`); see `frontend.build`."""
        from tilewright import frontend

        return frontend.build(self, signature, divisibility, options, name, nonnegative)

    def _unsafe_update_src(self, new_src: str) -> None:
        """Replace the source, for kernels that call this function, too.

        Triton's test suites instantiate kernel templates with it.
        """
        self.replace_source(new_src)
        for kernel in [*_kernels]:
            known = kernel.known_dependencies
            if kernel is self or (known is not None and self in known.functions):
                kernel.forget_code()

    def forget_code(self) -> None:
        """Compile again at the next launch."""
        self.forget_dependencies()
        self._launcher = self._run = None
        # cached attributes bound to the old launcher
        for name in ("run", "warmup", "compile", "preload"):
            self.__dict__.pop(name, None)

    def parse(self) -> Any:
        """The kernel's syntax tree."""
        return self.tree

    def symbol(self, signature: Mapping[str, ArgumentType]) -> str | None:
        """The entry symbol's name when `repr=` chooses it."""
        if self._repr is None:
            return None
        constants = {
            name: item.type.value
            for name, item in signature.items()
            if isinstance(item.type, constexpr)
        }
        types = {name: item.text for name, item in signature.items()}
        what = SimpleNamespace(fn=self, name=self.fn.__name__, signature=types, constants=constants)
        return re.sub(r"\W", "_", self._repr(what))

    @property
    def repr(self) -> Callable[[Any], str]:
        """From a specialization to the kernel's name."""
        return self._repr or (lambda _: self.__name__)

    @repr.setter
    def repr(self, value: Callable[[Any], str]) -> None:
        self._repr = value

    def get_capture_scope(self) -> dict[str, Any]:
        """The names that the kernel's code sees: its module's, and those of the functions around it, as in Triton."""
        return {**self.__globals__, **inspect.getclosurevars(self.fn).nonlocals}

    def __getstate__(self) -> dict[str, Any]:
        """The state that another process needs to launch or display an already compiled kernel.

        Code and caches are excluded; `fn` is included only if pickle finds it by name. With `fn` set to None
        the receiving process does not need the kernel's module.
        """
        own = ("_launcher", "_run", "_dependencies", "_hash_lock", "__wrapped__")
        state = {
            name: value
            for name, value in vars(self).items()
            # attributes that the class has, too, are methods and cached properties
            if name not in own and (name.startswith("__") or not hasattr(type(self), name))
        }
        source = vars(self).get("_source") or (None if self.fn is None else self._source)
        if source is not None:
            state["_source"] = (*source[:3], None)  # the AST is rebuilt on demand
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._launcher = self._run = self._dependencies = self._hash_lock = None

    # ---- dependencies of the code -------------------------------------------------------------------

    @property
    def constexprs(self) -> list[int]:
        return [p.index for p in self.params if p.is_constexpr]

    @property
    def definition_line(self) -> int:
        """Line of the `def`, known without reading the file if the source cannot be read."""
        try:
            return self.first_line
        except (OSError, TypeError, StopIteration, CompilationError):
            return self.fn.__code__.co_firstlineno

    @property
    def dependencies(self) -> Dependencies:
        """Sources and values that the code depends on, as of the first access."""
        if self._dependencies is None:
            try:
                self._dependencies = dependencies_of(self)
            except (OSError, TypeError) as error:
                raise CompilationError(
                    f"cannot read the source of kernel '{self.fn.__name__}': {error}",
                    help="define kernels in a file or a notebook cell, or pass the text of generated code to "
                    "tilewright.register_source before it is executed",
                ) from None
        return self._dependencies

    @property
    def known_dependencies(self) -> Dependencies | None:
        """`dependencies` if they have been computed, else None."""
        return self._dependencies

    def dependencies_hold(self) -> bool:
        """Whether every global that was read has still its value."""
        return self._dependencies is None or self._dependencies.hold()

    def forget_dependencies(self) -> None:
        self._dependencies = None

    @property
    def cache_key(self) -> str:
        """A digest of the kernel's source and of all it depends on besides its arguments."""
        if not self.dependencies_hold():
            self.forget_dependencies()
        text = f"{self.version}|{self.dependencies.digest}|{self.do_not_specialize}"
        if self.noalias:
            text += f"|noalias {self.noalias}"
        if self.any_extents:
            text += "|any extents"
        if self.dot_precision != "ieee":
            text += f"|{self.dot_precision}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def device_caches(self) -> Mapping[Any, tuple[dict[Any, Any]]]:
        """Device → `(key → CompiledKernel,)`: all devices share one mapping, whose keys include the target."""
        compiled = self.compiled_kernels
        return defaultdict(lambda: (compiled,), {0: (compiled,)})

    @property
    def compiled_kernels(self) -> dict[Any, Any]:
        """Kernels compiled by launches, by key."""
        return self._launcher.compiled if self._launcher is not None else {}

    def __repr__(self) -> str:
        return kernel_text(self)

    def _repr_html_(self) -> str:
        return kernel_html(self)


def _names(given: Any) -> tuple[Any, ...]:
    """Names or indices of parameters: a single one, several, or None."""
    if isinstance(given, str | int):
        return (given,)
    return tuple(unwrap_constexpr(name) for name in given or ())


def _signature_type(p: KernelParam, given: Any) -> ArgumentType:
    if isinstance(given, ArgumentType):
        return given
    if isinstance(given, constexpr) or given == "constexpr":
        value = p.default if given == "constexpr" else given
        return ArgumentType(constexpr(value))
    if p.is_constexpr:
        return ArgumentType(constexpr(given))
    if isinstance(given, str):
        parsed = parse_type(given)
        if parsed is None:
            raise LaunchError(
                f"'{given}' for parameter '{p.name}' is an unknown type",
                help='types look like "*fp32", "*fp16:16", "i32", "fp32", "tensordesc<fp16[64, 32]>"',
            )
        return parsed
    if isinstance(given, (dtypes.dtype, dtypes.pointer_type)):
        return ArgumentType(given, slot_kind(given))
    if isinstance(given, tuple) and not p.is_constexpr:
        items = [_signature_type(p, item).type for item in given]
        return ArgumentType(dtypes.like(given, items), "tuple")
    raise LaunchError(f"{given!r} for parameter '{p.name}' is an unknown type")


@overload
def jit(fn: Callable[..., Any], /) -> JITFunction: ...
@overload
def jit(
    fn: None = None,
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Any = None,
    do_not_specialize_on_alignment: Any = None,
    debug: bool | None = None,
    noinline: bool = False,
    noalias: Sequence[str] = (),
    any_extents: bool = False,
) -> Callable[[Callable[..., Any]], JITFunction]: ...
def jit(fn: Any = None, **options: Any) -> Any:
    """Turn a Python function into a kernel, or into a function that kernels call.

    Args:
        version: any value; part of the cache key.
        repr: function from a specialization to the kernel's symbol name.
        launch_metadata: accepted for profilers.
        do_not_specialize: names or indices of parameters whose values the code is not specialized for.
        do_not_specialize_on_alignment: the same for divisibility by 16 only.
        debug: keep `tl.device_assert`.
        noinline: accepted; functions are inlined.
        noalias: names of pointer parameters that the caller promises not to alias: no other argument reaches the
            memory that the kernel accesses through them, and lanes of one access have distinct addresses. A pointer
            in a tuple is `tuple.field`.
        any_extents: tiles may have extents that are not powers of two. A `tl.dot` uses a GPU's tensor cores if the
            shapes of their instructions divide its extents.
    """

    def decorate(function: Any) -> JITFunction:
        if isinstance(function, JITFunction):
            return function
        return JITFunction(function, **options)

    return decorate(fn) if fn is not None else decorate
