"""`aggregate`: classes of values with named fields and methods, for kernels.

A value is a named tuple of its fields, so that it passes through calls, branches and loops as any tuple.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.language import types
from tilewright.language.builtin import active_semantics, extern
from tilewright.language.kernel_function import KernelFunction

_MISSING = object()
_NOT_COPIED = frozenset(
    ("__dict__", "__weakref__", "__init__", "__module__", "__qualname__", "__annotations__",
     "__annotate__", "__annotate_func__", "__doc__", "__firstlineno__", "__static_attributes__")
)  # fmt: skip


class BoundKernelFunction:
    """A kernel function bound to a value as its method."""

    def __init__(self, function: KernelFunction, instance: Any) -> None:
        self.function = function
        self.instance = instance
        self._must_use_result = getattr(function, "_must_use_result", False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as Python, in a kernel that runs as Python."""
        return self.function(self.instance, *args, **kwargs)


class _Method:
    """A kernel function in an aggregate class."""

    def __init__(self, function: KernelFunction) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.function if instance is None else BoundKernelFunction(self.function, instance)


class _Field:
    """Access to a tuple item by name; during `__init__`, to the value assigned so far."""

    def __init__(self, name: str, index: int) -> None:
        self.name, self.index = name, index

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        if getattr(type(instance), "_draft", False):
            if self.name not in vars(instance):
                raise AttributeError(self.name)
            return vars(instance)[self.name]
        return tuple.__getitem__(instance, self.index)

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(
            f"cannot assign to field '{self.name}' on immutable aggregate {type(instance).__name__}: "
            "tl.aggregate_replace makes a changed copy"
        )


class Aggregate(tuple[Any, ...]):
    """Base of aggregate classes."""

    __triton_aggregate__ = True
    _fields: tuple[str, ...] = ()
    _annotations: dict[str, Any] = {}
    _defaults: dict[str, Any] = {}
    _drafts: Any = None
    """The class of the mutable draft that `__init__` fills."""
    kernel_functions: tuple[Any, ...] = ()
    """Functions that the meaning of a kernel using this class depends on."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        draft = tuple.__new__(cls._drafts)
        cls.__init__(draft, *args, **kwargs)
        missing = [name for name in cls._fields if name not in vars(draft)]
        if missing:
            raise KernelTypeError(
                f"the constructor of {cls.__name__} did not initialize attribute '{missing[0]}'",
                help=f"assign self.{missing[0]}, or give the field a default",
            )
        return tuple.__new__(cls, [vars(draft)[name] for name in cls._fields])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Default constructor: assign the fields in order."""
        if not getattr(type(self), "_draft", False):
            return
        for name, value in bound_fields(type(self), args, kwargs).items():
            setattr(self, name, value)

    @classmethod
    def _make(cls, items: Sequence[Any]) -> Any:
        return tuple.__new__(cls, items)

    def __repr__(self) -> str:
        inner = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({inner})"


def bound_fields(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Values of the fields for a constructor's arguments. Raises KernelTypeError."""
    names = cls._fields
    if len(args) > len(names):
        raise KernelTypeError(
            f"{cls.__name__} has {len(names)} fields and was given {len(args)} values",
            help=f"its fields are {', '.join(names)}",
        )
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in names:
            what = "multiple values for" if name in given else "an unexpected"
            raise KernelTypeError(f"{cls.__name__} got {what} argument '{name}'")
        given[name] = value
    full = {**cls._defaults, **given}
    missing = [name for name in names if name not in full]
    if missing:
        raise KernelTypeError(f"{cls.__name__} is missing the required argument '{missing[0]}'")
    return {name: full[name] for name in names}


def _set_in_init(self: Any, name: str, value: Any) -> None:
    """Assignment to `self` while `__init__` runs: fields only, of their annotated types."""
    cls = type(self)
    if name not in cls._fields:
        raise KernelTypeError(
            f"{cls.__name__} has no attribute '{name}'",
            help=f"annotate it in the class: `{name}: tl.tensor`, or `{name}: tl.constexpr`",
        )
    value = unwrap_constexpr(value)
    expected, semantics = cls._annotations[name], active_semantics.get()
    if expected is types.tensor and semantics is not None and isinstance(value, int | float):
        value = semantics.to_tensor(value)  # what a local name holds, which in Triton is a tensor
    if not _fits(value, expected):
        raise KernelTypeError(
            f"expected {getattr(expected, '__name__', expected)} for attribute '{name}' of"
            f" {cls.__name__}, got {value!r}"
        )
    vars(self)[name] = types.constexpr(value) if expected is types.constexpr else value


def _fits(value: Any, expected: Any) -> bool:
    is_tensor = isinstance(value, types.tensor)
    if expected is types.constexpr:
        return not is_tensor
    if expected is types.tensor:
        return is_tensor or hasattr(value, "data_ptr") or hasattr(value, "__array_interface__")
    return not isinstance(expected, type) or isinstance(value, expected)


def aggregate(cls: Any) -> Any:
    """Turn a class of annotated fields into one whose values kernels can construct, pass and destructure.

        @triton.aggregate
        class Accumulator:
            total: tl.tensor
            BLOCK: tl.constexpr

            @triton.jit
            def add(self, x):
                return Accumulator(self.total + tl.sum(x), self.BLOCK)

    Methods are kernel functions, or plain functions that run while the kernel is compiled, as `__init__` does.
    Values are immutable: `tl.aggregate_replace` returns a modified copy. Aggregates may derive from aggregates.
    """
    bases = [base for base in cls.__mro__[1:] if base is not object]
    for base in bases:
        if not issubclass(base, tuple) and base is not typing.Generic:
            raise TypeError(f"Aggregates can only inherit from other aggregates, not from {base}")
    annotations, defaults = dict[str, Any](), dict[str, Any]()
    for base in reversed([b for b in bases if issubclass(b, Aggregate)]):
        annotations.update(base._annotations)
        defaults.update(base._defaults)
    own = _own_annotations(cls)
    annotations.update(own)
    defaults.update({n: vars(cls)[n] for n in own if n in vars(cls)})
    members = {n: v for n, v in vars(cls).items() if n not in _NOT_COPIED and n not in own}
    namespace = {
        **{n: _Method(m) if isinstance(m, KernelFunction) else m for n, m in members.items()},
        **{name: _Field(name, i) for i, name in enumerate(annotations)},
        "_fields": tuple(annotations), "_annotations": annotations, "_defaults": defaults,
        "__aggregate_fields__": tuple(annotations), "__aggregate_defaults__": defaults,
        "kernel_functions": _functions(cls, members, bases),
        "__init__": _constructor(vars(cls).get("__init__")),
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
    }  # fmt: skip
    derived = any(issubclass(b, Aggregate) for b in bases)
    made: Any = type(cls.__name__, cls.__bases__ if derived else (Aggregate,), namespace)
    draft = {**namespace, "_draft": True, "__setattr__": _set_in_init}
    made._drafts = type(cls.__name__, (cls,) if derived else (made,), draft)
    return made


def _functions(cls: Any, members: dict[str, Any], bases: list[Any]) -> tuple[Any, ...]:
    """The functions that define a class's behavior: its own, then its bases'."""
    found = [getattr(m, "__func__", m) for m in (*members.values(), vars(cls).get("__init__"))]
    functions = [f for f in found if callable(f)]
    return (*functions, *(f for b in bases for f in getattr(b, "kernel_functions", ())))


def _constructor(written: Any) -> Any:
    """`__init__` of an aggregate class; `written` is the author's, or None."""
    if written is None:
        return Aggregate.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if getattr(type(self), "_draft", False):
            written(self, *args, **kwargs)

    return init


def _own_annotations(cls: Any) -> dict[str, Any]:
    """Annotations of the class itself; unresolvable ones stay text and are not checked."""
    own = inspect.get_annotations(cls)
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # a name of a scope that is gone
        hints = {}
    return {name: hints.get(name, note) for name, note in own.items()}


@extern
def aggregate_replace(instance: Any, /, **changes: Any) -> Any:
    """A copy of an aggregate's value with some fields changed."""
    cls = type(instance)
    if not isinstance(instance, Aggregate):
        raise KernelTypeError(
            f"aggregate_replace() expects an aggregate instance, got {instance!r}"
        )
    unknown = [name for name in changes if name not in cls._fields]
    if unknown:
        raise KernelTypeError(
            f"{cls.__name__} has no field '{unknown[0]}'",
            help=f"its fields are {', '.join(cls._fields)}",
        )
    values = {name: getattr(instance, name) for name in cls._fields}
    return cls(**{**values, **changes})
