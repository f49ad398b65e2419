"""The xDSL context that knows every dialect tilewright uses.

Our dialects live one layer above this package and are found by module name, as plug-ins are, so
that a dialect may use what stands here (types, layouts).
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
"""A context loads a dialect when it is first asked for one of its names, for one thread at a time."""


def _factory(module: str, attribute: str) -> Dialect:
    return getattr(import_module(module), attribute)


def new_context() -> Context:
    """A context in which every dialect is registered; each is imported when text first names it."""
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
    """One context for the whole process; contexts hold no state besides what is registered."""
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
