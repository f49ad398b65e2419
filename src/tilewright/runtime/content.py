"""The content of Python values as text, and guards that tell when it changes.

The code of a kernel depends on the values that its compilation reads: constants, configuration objects, functions
that run at compile time. Two values with the same text give the same code, in this process and in others. The
text follows containers, attributes, classes, closures, bytecode and the globals that the bytecode names, and
never relies on `repr` of a user's object. A value whose content cannot be known (a lock, a file, a tensor) counts
by identity: `Content.private` then says that the text means nothing to other processes.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import operator
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from tilewright import config, dtypes
from tilewright.language.kernel_function import KernelFunction

MISSING = object()
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
#: packages whose functions and classes are identified by name and version: they are not edited between runs
_LIBRARIES = frozenset(
    (
        "tilewright", "numpy", "torch", "triton", "ml_dtypes", "scipy", "cupy", "jax", "llvmlite",
        "xdsl", "pytest", "_pytest",
    )
)  # fmt: skip
#: attributes of classes that compile-time code does not compute with
_CLASS_NOISE = frozenset({
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl", "__firstlineno__",
    "__static_attributes__", "__parameters__", "__orig_bases__", "__dataclass_params__",
})  # fmt: skip
_LIBRARY_VALUES = ("dtype", "device", "layout", "memory_format", "Size")
#: how deep inside each other, and how many, objects are read; others count by identity
_DEEPEST, _MOST = 64, 10_000
_NAMED = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType,
          types.ClassMethodDescriptorType, types.MemberDescriptorType, types.GetSetDescriptorType)  # fmt: skip


class State:
    """Content of a mutable object when it was read; `read(holder)` returns a tuple of the current objects."""

    __slots__ = ("equal", "holder", "read", "seen")

    def __init__(self, holder: Any, read: Callable[[Any], tuple[Any, ...]], equal: bool = False):
        self.holder, self.read, self.equal = holder, read, equal
        self.seen = read(holder)

    def holds(self) -> bool:
        now = self.read(self.holder)
        if self.equal:
            return now == self.seen
        return len(now) == len(self.seen) and all(map(operator.is_, now, self.seen))


def _pairs(mapping: Mapping[Any, Any]) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(mapping.items()))


def _of_function(function: types.FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _of_cell(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return (MISSING,)


def _module_of(value: Any) -> str:
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else ""


def is_by_name(module: str) -> bool:
    """Whether a module's definitions are identified by name and version."""
    return _root_is_by_name(module.partition(".")[0])


@functools.cache
def _root_is_by_name(root: str) -> bool:
    if root in sys.stdlib_module_names:  # a file of the user's may have such a name, too
        file = getattr(sys.modules.get(root), "__file__", None)
        return file is None or file.startswith(os.path.dirname(os.__file__))
    return root in _LIBRARIES


class Content:
    """Collects the content of values: `texts` for a key, `states` to check before the key is used again.

    `functions` are kernels and Python functions that were met and still have to be visited.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.states: list[State] = []
        self.functions: list[Any] = []
        self.private = False
        """Whether a value counts by identity, so that the key is of use to this process only."""
        self._numbers: dict[int, int] = {}
        self._depth = 0
        """How many objects the one being read is in."""
        self._alive: list[Any] = []
        """The numbered objects: their ids are not used again meanwhile."""

    # ---- values ------------------------------------------------------------------------------------

    def text(self, value: Any) -> str:
        """The text of a value; longer parts go to `texts` and are referred to by number."""
        kind = type(value)
        if kind in PLAIN:
            return f"{kind.__name__}:{value!r}"
        if kind is tuple:
            return f"({','.join(map(self.text, value))})"
        if isinstance(value, (dtypes.dtype, dtypes.pointer_type, dtypes.block_type)):
            return f"dtype:{value.name}"
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._numbers)
            self._alive.append(value)
            self._depth += 1
            known = self._depth <= _DEEPEST and number < _MOST
            body = self._body(value) if known else self.unknown(value)
            self._depth -= 1
            self.texts.append(f"#{number}={body}")
        return f"#{number}"

    def _body(self, value: Any) -> str:
        if isinstance(value, dtypes.constexpr):
            self._watch(value, operator.attrgetter("value"), single=True)
            return f"constexpr({self.text(value.value)})"
        if isinstance(value, (KernelFunction, types.FunctionType)):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, Enum):
            return f"enum {self.text(type(value))}.{value.name}={self.text(value.value)}"
        if isinstance(value, types.MethodType):
            return f"method {self.text(value.__func__)} of {self.text(value.__self__)}"
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__} {self.text(value.__func__)}"
        if isinstance(value, property):
            return f"property {','.join(map(self.text, (value.fget, value.fset, value.fdel)))}"
        if isinstance(value, types.CodeType):
            return self.code(value)
        if isinstance(value, _NAMED):
            return self._builtin(value)
        if isinstance(value, logging.Logger):  # affects logging, not the generated code
            return f"logger:{value.name}"
        if type(value) in (list, dict, set, frozenset, types.MappingProxyType):
            return self._container(value)
        return self._library_value(value) or self._instance(value)

    def _watch(self, holder: Any, read: Callable[[Any], Any], single: bool = False) -> None:
        self.states.append(State(holder, (lambda h: (read(h),)) if single else read))

    def _container(self, value: Any) -> str:
        if isinstance(value, (dict, types.MappingProxyType)):
            self._watch(value, _pairs)
            items = [f"{self.text(k)}:{self.text(v)}" for k, v in value.items()]
            return f"dict{{{','.join(items)}}}"
        if isinstance(value, list):
            self._watch(value, tuple)
            return f"list[{','.join(map(self.text, value))}]"
        self.states.append(State(value, lambda s: (frozenset(map(id, s)),), equal=True))
        return f"set{{{','.join(sorted(map(self._alone, value)))}}}"

    def _alone(self, value: Any) -> str:
        """The text of a value independent of previously visited ones, because sets are unordered."""
        if type(value) in PLAIN:
            return self.text(value)
        inner = Content()
        inner._depth = self._depth
        text = inner.text(value)
        self.states += inner.states
        self.functions += inner.functions
        self.private |= inner.private
        self._alive.append(value)
        return f"{text} {inner.digest()}"

    def digest(self) -> str:
        return hashlib.sha256("\0".join(self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    def unknown(self, value: Any) -> str:
        """A value that counts by identity."""
        self.private = True
        _identified[id(value)] = value
        return f"identity {_PROCESS} {id(value)}"

    # ---- functions and classes ---------------------------------------------------------------------

    def _function(self, value: Any) -> str:
        module = _module_of(value)
        own = module.partition(".")[0] == "tilewright"  # its own source is part of every key
        name = getattr(value, "__qualname__", "")
        if own or (is_by_name(module) and not isinstance(value, KernelFunction)):
            return self._named("function", module, name)
        self.functions.append(value)
        return f"function {module}.{name}"

    def _named(self, kind: str, module: str, name: str) -> str:
        root = module.partition(".")[0]
        version = getattr(sys.modules.get(root), "__version__", "")
        return f"{kind} {module}.{name} {version if isinstance(version, str) else ''}"

    def _builtin(self, value: Any) -> str:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            return self._named("builtin", _module_of(value), value.__qualname__)
        return f"builtin {value.__name__} of {self.text(owner)}"

    def _class(self, value: type) -> str:
        module = _module_of(value)
        if is_by_name(module):
            return self._named("class", module, value.__qualname__)
        stamp = _installed_stamp(module)
        if stamp:
            return self._named("class", module, f"{value.__qualname__} {stamp}")
        self._watch(value, lambda cls: _pairs(vars(cls)))
        bases = ",".join(map(self.text, value.__bases__))
        items = sorted((k, v) for k, v in vars(value).items() if k not in _CLASS_NOISE)
        held = ",".join(f"{k}={self.text(v)}" for k, v in items)
        return f"class {module}.{value.__qualname__}({bases}){{{held}}}"

    def code(self, code: types.CodeType) -> str:
        """Bytecode without line numbers."""
        constants = ",".join(map(self._code_constant, code.co_consts))
        facts = (
            code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
            code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_code,
            code.co_exceptiontable,
        )  # fmt: skip
        return f"code {facts!r} [{constants}]"

    def _code_constant(self, value: Any) -> str:
        if isinstance(value, types.CodeType):
            return self.code(value)
        if isinstance(value, frozenset):
            return f"frozenset({sorted(map(repr, value))})"
        return f"{type(value).__name__}:{value!r}"

    # ---- instances -----------------------------------------------------------------------------------

    def _library_value(self, value: Any) -> str:
        """Values of NumPy and torch, "" for others."""
        kind = type(value)
        root = kind.__module__.partition(".")[0]
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray) and not value.dtype.hasobject:
            self.states.append(State(value, _array_facts, equal=True))
            return f"array {_array_facts(value)}"
        if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return f"{kind.__name__}:{value.dtype} {value.tobytes().hex()}"
        if kind.__name__ in _LIBRARY_VALUES or (
            numpy is not None and isinstance(value, numpy.dtype)
        ):
            return (
                f"{root}.{kind.__name__}:{value!s}"
                if root in ("numpy", "torch", "ml_dtypes")
                else ""
            )
        if any(hasattr(kind, n) for n in ("data_ptr", "__array_interface__", "__dlpack__")):
            return self.unknown(value)
        return ""

    def _instance(self, value: Any) -> str:
        """The text of an object: its class, its attributes, and any further state that pickling would write."""
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(value, functools._lru_cache_wrapper):
            return f"cached {self.text(wrapped)}"
        if isinstance(value, types.ModuleType) or type(value).__module__ == "unittest.mock":
            return self.unknown(value)
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:
            return self.unknown(value)
        head = f"instance of {self.text(type(value))}"
        if isinstance(reduced, str):
            return f"{head} {reduced}"
        head = f"{head} {self._attributes(value)}"
        arguments, state, listed, mapped = (*reduced[1:5], None, None, None)[:4]
        arguments = arguments or ()
        # state is in attributes, except that of a built-in base
        if _pickles_by_default(type(value)):
            parts = [self.text(arguments[1:])]
        else:
            parts = [self.text((arguments, state))]
            self.states.append(State(value, _reduced_digest, equal=True))
        if listed is not None:
            self._watch(value, tuple)
            parts += map(self.text, listed)
        if mapped is not None:
            self._watch(value, _pairs)
            parts += map(self.text, mapped)
        return f"{head} {','.join(parts)}"

    def _attributes(self, value: Any) -> str:
        """Text of `__dict__` and slots."""
        parts: list[str] = []
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            self._watch(own, _pairs)
            parts += [f"{k}={self.text(v)}" for k, v in sorted(own.items())]
        names = [n for c in type(value).__mro__ for n in _slots(c)]
        if names:

            def slots(holder: Any) -> tuple[Any, ...]:
                return tuple(getattr(holder, name, MISSING) for name in names)

            self._watch(value, slots)
            held = zip(names, slots(value), strict=True)
            parts += [f"{n}={'' if v is MISSING else self.text(v)}" for n, v in held]
        return f"{{{','.join(parts)}}}"

    # ---- bodies of plain functions -------------------------------------------------------------------

    def visit(self, function: types.FunctionType) -> None:
        """Add a Python function that runs at compile time: bytecode, defaults, closure, globals it names."""
        self._watch(function, _of_function)
        code = function.__code__
        defaults = (
            self.text(function.__defaults__),
            self.text(tuple(sorted((function.__kwdefaults__ or {}).items()))),
        )
        self.texts += [function.__qualname__, self.code(code), *defaults]
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._watch(cell, _of_cell)
            (held,) = _of_cell(cell)
            if held is not MISSING and held is not function:
                self.texts.append(f"{name}={self._or_module(held, set(), code)}")
        names, strings = _names_and_strings(code)
        read = sorted(name for name in names if name in function.__globals__)
        self._named_in(function.__globals__, read, set(), names)
        if not names.isdisjoint(("environ", "getenv")):
            self._environment(strings)

    def _or_module(self, value: Any, seen: set[int], code: types.CodeType) -> str:
        if isinstance(value, types.ModuleType):
            self._module(value, seen, _names_and_strings(code)[0])
            return f"module {value.__name__}"
        return self.text(value)

    def _named_in(
        self, holder: dict[str, Any], read: Iterable[str], seen: set[int], names: set[str]
    ) -> None:
        """Values of a namespace; of modules among them those attributes that `names` holds."""
        read = [name for name in read if name != "__builtins__"]
        if read:
            self._watch(holder, lambda h: tuple(h.get(name, MISSING) for name in read))
        for name in read:
            value = holder[name]
            if isinstance(value, types.ModuleType):
                self._module(value, seen, names)
            else:
                self.texts.append(f"{name}={self.text(value)}")

    def _module(self, module: types.ModuleType, seen: set[int], names: set[str]) -> None:
        if id(module) in seen or module.__name__.partition(".")[0] == "tilewright":
            return
        seen.add(id(module))
        self.texts.append(self._named("module", module.__name__, ""))
        inside = vars(module)
        read = sorted(name for name in names if name in inside)
        # constants of a build (`torch.version.hip`); the rest by name
        if is_by_name(module.__name__):
            read = [
                n
                for n in read
                if type(inside[n]) in PLAIN or isinstance(inside[n], types.ModuleType)
            ]
        self._named_in(inside, read, seen, names)

    def _environment(self, strings: set[str]) -> None:
        """Values of the environment variables that a function's text constants name."""
        names = sorted(s for s in strings if s.isidentifier())

        def values(environment: Any) -> tuple[Any, ...]:
            return tuple(environment.get(name) for name in names)

        environment = config.environment()
        self.states.append(State(environment, values, equal=True))
        self.texts.append(f"environment {list(zip(names, values(environment), strict=True))}")


_PROCESS = f"{os.getpid()} {os.urandom(8).hex()}"
_identified: dict[int, Any] = {}
"""Values that count by identity, kept so that their ids stay theirs."""


def _array_facts(array: Any) -> tuple[Any, ...]:
    return str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()


def _reduced_digest(value: Any) -> tuple[Any, ...]:
    inner = Content()
    try:
        inner.text(value.__reduce_ex__(2)[:3])
    except Exception:
        return (object(),)  # equal to nothing, which forces a re-read
    return (inner.digest(),)


def _pickles_by_default(cls: type) -> bool:
    names = ("__reduce_ex__", "__reduce__", "__getstate__")
    return all(getattr(cls, name, None) is getattr(object, name, None) for name in names)


def _slots(cls: type) -> tuple[str, ...]:
    names = vars(cls).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    mangled = f"_{cls.__name__.lstrip('_')}"
    return tuple(
        f"{mangled}{n}" if n.startswith("__") and not n.endswith("__") else n
        for n in names
        if n not in ("__dict__", "__weakref__")
    )


@functools.lru_cache(512)
def _names_and_strings(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Names and text constants in a code object and those inside it."""
    names, strings = set(code.co_names), set[str]()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names_and_strings(constant)
            names |= inner[0]
            strings |= inner[1]
        elif isinstance(constant, str):
            strings.add(constant)
    return names, strings


def _installed_stamp(module: str) -> str:
    """Size and time of change of the file of an installed package's module; "" for the user's own."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if not any(
        f"{os.sep}{folder}{os.sep}" in file for folder in ("site-packages", "dist-packages")
    ):
        return ""
    try:
        status = os.stat(file)
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"
