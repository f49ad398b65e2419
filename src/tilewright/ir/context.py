"""The xDSL context that knows every dialect tilewright uses.

The dialects are one layer above this package and are loaded by module name, like plug-ins, so that a dialect may
import this package (types, layouts).
"""

from __future__ import annotations

import functools
import threading
from importlib import import_module

from xdsl.context import Context
from xdsl.ir import Attribute, Dialect, Operation

from tilewright.ir.upstream import widen_conversions

_UPSTREAM = ("builtin", "func", "arith", "math", "scf", "vector", "memref", "ub")
_OWN = (
    ("tile", "tilewright.dialects.tile", "Tile"),
    ("cpu", "tilewright.dialects.cpu", "Cpu"),
    ("gpu", "tilewright.dialects.gpu", "Gpu"),
)
_CLASS_NAMES = {name: name.capitalize() for name in _UPSTREAM} | {"ub": "UB", "memref": "MemRef"}


_loading = threading.RLock()
"""Serializes the loading of dialects, which happens on the first lookup of one of their names."""


def _factory(module: str, attribute: str) -> Dialect:
    return getattr(import_module(module), attribute)


def new_context() -> Context:
    """Return a context with all dialects registered; each is imported on the first use of its names."""
    widen_conversions()
    context = Context()
    for name in _UPSTREAM:
        module = f"xdsl.dialects.{name}"
        context.register_dialect(name, functools.partial(_factory, module, _CLASS_NAMES[name]))
    for name, module, attribute in _OWN:
        context.register_dialect(name, functools.partial(_factory, module, attribute))
    context.load_registered_dialect("builtin")
    return context


@functools.cache
def shared_context() -> Context:
    """Return the context of this process; a context has no state other than registered dialects."""
    return new_context()


@functools.cache
def op_class(name: str) -> type[Operation]:
    """The class of the operation called `name` (`"arith.addf"`). Raises KeyError if there is none."""
    with _loading:
        found = shared_context().get_optional_op(name)
    if found is None:
        raise KeyError(name)
    return found


@functools.cache
def type_class(name: str) -> type[Attribute]:
    """The class of the type called `name` (`"tile.ptr"`). Raises KeyError if there is none."""
    with _loading:
        found = shared_context().get_optional_type(name)
    if found is None:
        raise KeyError(name)
    return found
