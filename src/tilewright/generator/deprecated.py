"""Names of fields that were renamed: constructors take the old ones for a release, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

#: old name → new name
CONFIG_FIELDS = {
    "boxes": "use_tma",
    "through_registers": "wgmma_rs",
    "pairs": "tma_multicast",
    "panels": "prepack",
    "join_rows": "rows_per_load",
}
CONTRACTION_FIELDS = {
    "wide": "offsets_64bit",
    "long": "indices_64bit",
    "scaled": "has_alpha",
    "units": "size_divisors",
}
#: old value of `MatmulConfig.form` → new value
FORMS = {"vector": "gemv"}


def current(
    data: Mapping[str, Any], renamed: Mapping[str, str], warn: bool = True
) -> dict[str, Any]:
    """`data` with the present names of fields, and of forms. Warns where one is deprecated, unless data were stored."""
    found = {name: value for name, value in data.items() if name not in renamed}
    for old in renamed.keys() & data.keys():
        found[renamed[old]] = data[old]
        if warn:
            _warn(f"field {old!r} is now called {renamed[old]!r}")
    form = found.get("form")
    if isinstance(form, str) and form in FORMS:
        found["form"] = FORMS[form]
        if warn:
            _warn(f"form {form!r} is now called {FORMS[form]!r}")
    return found


T = TypeVar("T")


def accepts(renamed: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Decorate a dataclass so that its constructor and its attributes understand old names of fields."""

    def decorate(kind: type[T]) -> type[T]:
        construct: Callable[..., None] = kind.__init__

        @functools.wraps(construct)
        def initialize(self: T, *values: Any, **fields: Any) -> None:
            construct(self, *values, **current(fields, renamed))

        setattr(kind, "__init__", initialize)  # noqa: B010 (an assignment is an error to type checkers)
        for old, new in renamed.items():
            setattr(kind, old, property(functools.partial(_read, old, new)))
        return kind

    return decorate


def _read(old: str, new: str, instance: Any) -> Any:
    _warn(f"field {old!r} is now called {new!r}")
    return getattr(instance, new)


def _warn(text: str) -> None:
    warnings.warn(f"{text}; the old name will be removed", DeprecationWarning, stacklevel=4)
