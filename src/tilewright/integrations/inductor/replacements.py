"""Replace functions of torch while tilewright is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, FunctionType
from typing import Any

from tilewright.integrations import after_import

_ABSENT: Any = object()


def config() -> Any:
    """Inductor's settings, which have been imported."""
    return sys.modules["torch._inductor.config"]


def graph() -> Any:
    """The graph that Inductor lowers or generates code for."""
    return sys.modules["torch._inductor.virtualized"].V.graph


def is_for_cpu(lowered: Any) -> bool:
    """Whether the kernel that a graph generates now is for the CPU."""
    return lowered.get_current_device_or_throw().type == "cpu"


@dataclass
class Replacement:
    """One attribute of a module of torch, or of a class in it.

    `make(module, original)` returns the new value; it runs when the module has been imported. `original` is
    what the attribute gives, inherited or not.
    """

    module: str
    path: str
    """ "function" or "Class.method"."""
    make: Callable[[Any, Any], Any]
    _before: Any = field(default=_ABSENT, init=False)
    """The owner's own attribute, `_ABSENT` if it is inherited."""
    _value: Any = field(default=None, init=False)

    def install(self) -> None:
        """Replace it now or after the import. Calling again has no effect."""
        if not after_import.is_waiting(self.module, self._replace):
            after_import.call_after_import(self.module, self._replace)

    def uninstall(self) -> None:
        """Restore the attribute."""
        after_import.forget(self.module, self._replace)
        owner, name = self._owner(sys.modules.get(self.module))
        if owner is None or self._value is None or vars(owner).get(name) is not self._value:
            return
        if self._before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, self._before)
        self._value = None

    def _owner(self, module: Any) -> tuple[Any, str]:
        *classes, name = self.path.split(".")
        for each in classes:
            module = getattr(module, each, None)
        return module, name

    def _replace(self, module: Any) -> None:
        owner, name = self._owner(module)
        original = getattr(owner, name, None)
        if original is None or (self._value is not None and vars(owner).get(name) is self._value):
            return
        self._before = vars(owner).get(name, _ABSENT)
        self._value = self.make(module, original)
        setattr(owner, name, self._value)


@dataclass
class LoweringReplacement(Replacement):
    """The function behind one of Inductor's lowerings, which its tables refer to through a wrapper."""

    def uninstall(self) -> None:
        """Restore the function."""
        after_import.forget(self.module, self._replace)
        cell = self._cell(sys.modules.get(self.module))
        if cell is not None and self._value is not None and cell.cell_contents is self._value:
            cell.cell_contents = self._before
        self._value = None

    def _cell(self, module: Any) -> CellType | None:
        wrapper: Any = getattr(module, self.path, None)
        code = getattr(wrapper, "__code__", None)
        if code is None or "decomp_fn" not in code.co_freevars:
            return None
        return wrapper.__closure__[code.co_freevars.index("decomp_fn")]

    def _replace(self, module: Any) -> None:
        cell = self._cell(module)
        if cell is None or cell.cell_contents is self._value:
            return
        self._before = cell.cell_contents
        self._value = self.make(module, self._before)
        cell.cell_contents = self._value


def copied(function: Any, constants: dict[str, str] | None = None, **names: Any) -> Any:
    """A copy of a Python function that finds `names` among its globals, and other strings for `constants`.

    Raises LookupError where the function has no such constant.
    """
    code = function.__code__
    for old, new in (constants or {}).items():
        if old not in code.co_consts:
            raise LookupError(f"{function.__qualname__} does not contain {old!r}")
        code = code.replace(co_consts=tuple(new if c == old else c for c in code.co_consts))
    scope = {**function.__globals__, **names} if names else function.__globals__
    copy = FunctionType(code, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    return copy
