"""Calls: language functions, methods of tensors, inlined `@jit` functions, Python builtins."""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, get_args

from tilewright import dtypes, language
from tilewright.errors import CompilationError, KernelTypeError, UnsupportedSyntax
from tilewright.frontend.expressions import BoundMethod
from tilewright.frontend.frame import RESULT, Frame
from tilewright.frontend.loops import RangeValue
from tilewright.frontend.statements import Statements
from tilewright.frontend.values import has_tensor, is_tensor, same_constants
from tilewright.language import types
from tilewright.language.aggregates import Aggregate, BoundKernelFunction
from tilewright.language.builtin import active_semantics
from tilewright.language.kernel_function import KernelFunction
from tilewright.semantics import PYTHON_BUILTINS, describe

_MAX_RECURSION = 32
_PURE_BUILTINS = frozenset({
    "abs", "ascii", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod", "float",
    "format", "frozenset", "hash", "hex", "int", "max", "min", "oct", "ord", "pow", "repr", "round",
    "set", "slice", "sorted", "str", "type",
})  # fmt: skip


class KernelBuilder(Statements):
    """The whole front end: compiles the body of a kernel through semantics and an IR builder."""

    # ---- calls ---------------------------------------------------------------------------------

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any], node: ast.AST) -> Any:
        if isinstance(function, BoundMethod):
            return self._language_call(function.value, function.name, args, keywords)
        if isinstance(function, BoundKernelFunction):
            return self.inline(function.function, [function.instance, *args], keywords, node)
        if isinstance(function, KernelFunction):
            return self.inline(function, args, keywords, node)
        name = getattr(function, "__tl_builtin__", None)
        if name is not None:
            method = getattr(self.semantics, name, None)
            if method is None:
                raise UnsupportedSyntax(f"tl.{name} is not part of tilewright's language yet")
            return self._language_call(method, f"tl.{function.__name__}", args, keywords)
        if is_tensor(function):
            raise KernelTypeError(f"a tensor ({describe(function)}) cannot be called")
        if getattr(function, "__tl_extern__", False):
            return self._extern_call(function, args, keywords)
        if getattr(function, "__triton_builtin__", False):
            return self._triton_builtin(function, args, keywords)
        own = self._python_builtin(function, args)
        if own is not None:
            return self._language_call(own, function.__name__, args, keywords)
        return self._foreign_call(function, args, keywords)

    def _language_call(
        self, method: Callable[..., Any], name: str, args: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """Call into semantics; report an invalid argument list with the function's signature."""
        try:
            return dtypes.unwrap_constexpr(method(*args, **keywords))
        except CompilationError:
            raise
        except TypeError as error:
            if not _is_signature_error(error, method):
                raise
            text = str(error).partition("()")[2].strip() or str(error)
            text, _, near = text.partition(". Did you mean ")  # Python 3.13's own guess
            hint = _signature_help(method, name)
            near = near.rstrip("?") or _similar_keyword(method, keywords)
            hint = f"did you mean {near}? {hint[:1].upper()}{hint[1:]}" if near else hint
            raise KernelTypeError(f"{name}: {text}", help=hint) from None

    def _extern_call(
        self, function: Callable[..., Any], args: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """A function that runs now, on the values themselves (`tl.core.extern`)."""
        return self._with_semantics(
            lambda: self._language_call(function, function.__name__, args, keywords)
        )

    def _with_semantics(self, call: Callable[[], Any]) -> Any:
        """Call Python code in which functions of the language add to the kernel."""
        token = active_semantics.set(self.semantics)
        try:
            return call()
        finally:
            active_semantics.reset(token)

    def _triton_builtin(
        self, function: Callable[..., Any], args: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """A function that its author marked as a builtin of Triton: runs now, and is given constants wrapped."""
        wrapped = [a if has_tensor(a) else dtypes.constexpr(a) for a in args]
        named = {n: v if has_tensor(v) else dtypes.constexpr(v) for n, v in keywords.items()}
        return self._extern_call(function, wrapped, named)

    def _foreign_call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """A Python function that is not part of the language: only on compile-time values."""
        if not callable(function):
            raise KernelTypeError(f"{describe(function)} cannot be called")
        name = getattr(function, "__name__", repr(function))
        if vars(builtins).get(name) is function and name not in _PURE_BUILTINS:
            raise UnsupportedSyntax(f"kernels cannot call Python's {name}()")
        if isinstance(function, type) and issubclass(function, types.range):
            return self._language_call(function, f"tl.{name}", args, keywords)
        is_tuple = isinstance(function, type) and issubclass(function, tuple)
        if isinstance(function, type) and issubclass(
            function, Aggregate
        ):  # its constructor may call `tl` functions
            what = f"{name}()"
            return self._with_semantics(lambda: self.static_call(function, args, keywords, what))
        if not is_tuple and (has_tensor(args) or has_tensor(list(keywords.values()))):
            twin = self._language_twin(function)
            if twin is not None:
                return self.call(twin, args, keywords, self.frame.node)
            if isinstance(getattr(function, "__self__", None), list):
                raise UnsupportedSyntax(
                    f"a list cannot be changed by {name}() with a value known only at run time "
                    f"({', '.join(describe(a) for a in args)})",
                    help="make a new tuple, `parts = parts + (x,)`, in a tl.static_range loop",
                )
            raise KernelTypeError(
                f"{name}() is a plain Python function and cannot take values known only at run "
                f"time ({', '.join(describe(a) for a in args)})",
                help=_instead_of(function, name),
            )
        return self.static_call(function, args, keywords, f"{name}()")

    def _language_twin(self, function: Any) -> Any:
        """`tl.cdiv` for tilewright's own `cdiv`, and so on, when it is given runtime values."""
        module = getattr(function, "__module__", "") or ""
        if module.partition(".")[0] != "tilewright":
            return None
        twin = getattr(language, getattr(function, "__name__", ""), None)
        return twin if isinstance(twin, KernelFunction) or hasattr(twin, "__tl_builtin__") else None

    # ---- inlining --------------------------------------------------------------------------------

    def inline(
        self, fn: KernelFunction, args: list[Any], keywords: dict[str, Any], node: ast.AST
    ) -> Any:
        """Compile the body of `fn` inline; return its value.

        As in Triton, a `tl.constexpr` annotation does not constrain the argument: kernels annotate tiles with it.
        """
        bound = bind_arguments(fn, args, keywords)
        caller = self.frame.location(node)
        self._check_recursion(fn, bound)
        self.callees.setdefault(fn)
        frame = Frame(fn, caller)
        frame.env = bound
        frame.arguments = dict(bound)
        self.frames.append(frame)
        self.frame = frame
        self.run(frame.tree.body)
        self.frames.pop()
        self.frame = self.frames[-1]
        return frame.env.get(RESULT)

    def _check_recursion(self, fn: KernelFunction, bound: dict[str, Any]) -> None:
        depth = 0
        for frame in self.frames:
            if frame.fn is not fn:
                continue
            depth += 1
            given = frame.arguments
            same = all(n in given and same_constants(v, given[n]) for n, v in bound.items())
            if same or depth >= _MAX_RECURSION:
                raise UnsupportedSyntax(
                    f"{fn.fn.__name__} calls itself without end; calls are inlined",
                    help="use a loop, or make the recursion end by a tl.constexpr argument",
                )

    # ---- Python builtins -------------------------------------------------------------------------

    def _python_builtin(self, function: Any, args: list[Any]) -> Callable[..., Any] | None:
        """The kernel implementation of a Python builtin; None to call the builtin itself."""
        try:
            name = _BUILTINS.get(function)
            meaning = PYTHON_BUILTINS.get(function)
        except TypeError:  # not hashable, so not a builtin
            return None
        if name is not None:
            return getattr(self, f"builtin_{name}")
        if meaning is not None and (has_tensor(args) or function is print):
            return getattr(self.semantics, meaning)
        return None

    def builtin_sum(self, items: Any, start: Any = 0) -> Any:
        value = start
        for item in self.sequence(items):
            value = self.binary("+", value, item)
        return value

    def builtin_constexpr(self, value: Any) -> Any:
        """Constants are held without their wrapper. As in Triton, `tl.constexpr(x)` of a tensor is the tensor."""
        return value

    def builtin_len(self, value: Any) -> int:
        if is_tensor(value):
            if not value.shape:
                raise KernelTypeError(f"a scalar ({describe(value)}) has no length")
            return value.shape[0]
        return self.static_call(len, [value], {})

    def builtin_isinstance(self, value: Any, kinds: Any) -> bool:
        if isinstance(kinds, UnionType):
            kinds = get_args(kinds)
        kinds = kinds if isinstance(kinds, tuple | list) else (kinds,)
        for kind in kinds:
            if kind is dtypes.constexpr:
                if not has_tensor(value):
                    return True
            elif getattr(kind, "__name__", "") in ("tensor", "TensorValue"):
                if is_tensor(value):
                    return True
            elif not is_tensor(value) and isinstance(kind, type) and isinstance(value, kind):
                return True
        return False

    def builtin_getattr(self, value: Any, name: str, *default: Any) -> Any:
        try:
            return self.attribute(value, name)
        except (CompilationError, AttributeError):
            if default:
                return default[0]
            raise

    def builtin_hasattr(self, value: Any, name: str) -> bool:
        missing = object()
        return self.builtin_getattr(value, name, missing) is not missing

    def builtin_tuple(self, items: Any = ()) -> tuple[Any, ...]:
        return tuple(self.sequence(items))

    def builtin_list(self, items: Any = ()) -> list[Any]:
        return self.sequence(items)

    def builtin_range(self, *args: Any) -> Any:
        if has_tensor(args):
            raise UnsupportedSyntax("a range with bounds known at run time is for `for` loops only")
        return self.static_call(range, list(args), {}, "range()")

    def builtin_enumerate(self, items: Any, start: int = 0) -> list[Any]:
        return list(enumerate(self.sequence(items), start))

    def builtin_zip(self, *many: Any, strict: bool = False) -> list[Any]:
        return self.static_call(
            lambda *a: list(zip(*a, strict=strict)), [self.sequence(m) for m in many], {}, "zip()"
        )

    def builtin_reversed(self, items: Any) -> list[Any]:
        return list(reversed(self.sequence(items)))

    def builtin_any(self, items: Any) -> Any:
        return self._all_or_any(items, "logical_or", False)

    def builtin_all(self, items: Any) -> Any:
        return self._all_or_any(items, "logical_and", True)

    def _all_or_any(self, items: Any, name: str, start: bool) -> Any:
        value: Any = start
        for item in self.sequence(items):
            if is_tensor(value) or is_tensor(item):
                value = getattr(self.semantics, name)(value, item)
            elif bool(item) is not start:
                return not start
        return value

    # ---- interface for loops ---------------------------------------------------------------------

    def loop_items(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            function = self.at(node, lambda: self.visit(node.func))
            if function is range:
                return self.at(node, lambda: self._python_range(node))
        value = self.visit(node)
        return self.at(node, lambda: self._items_of(value))

    def _items_of(self, value: Any) -> Any:
        if isinstance(value, types.static_range):
            return self._static_range(value.start, value.end, value.step)
        if isinstance(value, types.range):
            hints = {name: getattr(value, name) for name in types.RANGE_HINTS}
            return RangeValue(value.start, value.end, value.step, hints)
        return self.sequence(value)

    def _python_range(self, node: ast.Call) -> RangeValue:
        """`range(...)`. The hints of `tl.range` are legal here and have no effect, as in Triton."""
        args = self._items(node.args)
        unknown = [k.arg for k in node.keywords if k.arg not in types.RANGE_HINTS]
        if unknown or not 1 <= len(args) <= 3:
            raise KernelTypeError(
                f"range has no keyword {unknown[0]!r}" if unknown else "range takes 1 to 3 bounds"
            )
        start, stop = (0, args[0]) if len(args) == 1 else args[:2]
        return RangeValue(start, stop, args[2] if len(args) == 3 else 1)

    def _static_range(self, *bounds: Any) -> range:
        for value, what in zip(bounds, ("start", "stop", "step"), strict=True):
            if is_tensor(value):
                raise KernelTypeError(
                    f"the {what} of tl.static_range is known only at run time ({describe(value)})",
                    help="use range(...), or make it a tl.constexpr",
                )
            if not isinstance(value, int):
                raise KernelTypeError(
                    f"the {what} of tl.static_range must be an integer, not {describe(value)}"
                )
        return self.static_call(range, list(bounds), {}, "tl.static_range()")


_BUILTINS: dict[Any, str] = {
    getattr(builtins, name): name
    for name in (
        "sum", "len", "isinstance", "getattr", "hasattr", "tuple", "list", "range", "enumerate",
        "zip", "reversed", "any", "all",
    )
} | {dtypes.constexpr: "constexpr"}  # fmt: skip


def bind_arguments(fn: KernelFunction, args: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Parameter name -> value for a call of `fn`, defaults filled in. Raises `KernelTypeError`."""
    try:
        bound = fn.signature_of_fn.bind(*args, **keywords)
    except TypeError as error:
        raise KernelTypeError(
            f"{fn.fn.__name__}: {error}",
            help=f"it is {fn.fn.__name__}({ast.unparse(fn.tree.args)})",
        ) from None
    bound.apply_defaults()
    return {name: dtypes.unwrap_constexpr(value) for name, value in bound.arguments.items()}


def _is_signature_error(error: TypeError, method: Any) -> bool:
    """Whether `error` reports invalid arguments of `method` itself."""
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None and method is not None


def _similar_keyword(method: Any, keywords: Mapping[str, Any]) -> str:
    """A parameter of `method`, in quotes, that one of the unknown `keywords` may be meant for."""
    known = list(inspect.signature(method).parameters)
    for name in keywords:
        close = difflib.get_close_matches(name, known, 1) if name not in known else []
        if close:
            return f"'{close[0]}'"
    return ""


def _signature_help(method: Any, name: str) -> str:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"its parameters are {name}{inspect.Signature(bare)}"


def _instead_of(function: Any, name: str) -> str:
    """The kernel replacement to suggest for an unsupported Python function."""
    module = (getattr(function, "__module__", None) or type(function).__module__).partition(".")[0]
    if module not in ("math", "numpy", "torch", "builtins", "scipy", "jax", "cupy"):
        return f"decorate {name} with @jit so that kernels can call it"
    if hasattr(getattr(language, name, None), "__tl_builtin__"):
        return f"use tl.{name}"
    if hasattr(language.libdevice, name):
        return f"use tl.extra.libdevice.{name}"
    return f"kernels cannot call {module}: use the functions of tl (help(tl) lists them)"
