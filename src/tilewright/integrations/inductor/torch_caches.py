"""What torch remembers of its search for Triton.

torch asks once, in functions with caches and at the import of modules. The functions are made to ask again.
Of the modules, those that `import torch._dynamo` loads hold a few names, which are exchanged; those that
generate code are built on the answer, and once they are loaded without a Triton nothing can be done.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tilewright.errors import IntegrationError

#: modules of functions with caches that ask for Triton
_ASKING = ("torch.utils._triton", "torch._inductor.utils", "torch._inductor.runtime.hints")
#: where the names of Triton are bound, or what stands for them without one
_COMPAT, _HINTS = "torch._inductor.runtime.triton_compat", "torch._inductor.runtime.hints"
_UTILS = "torch._dynamo.utils"
#: modules with classes and kernels made from those names
_BUILT = ("torch._inductor.runtime.triton_helpers", "torch._inductor.runtime.triton_heuristics")


def forget(strict: bool = True) -> None:
    """Make torch ask again. Raises IntegrationError where it cannot (unless not `strict`)."""
    if strict:
        _reject_settled()
    for name in _ASKING:
        for function in [*vars(sys.modules[name]).values()] if name in sys.modules else ():
            clear = getattr(function, "cache_clear", None)
            if clear is not None and getattr(function, "__module__", "") == name:
                clear()
    if strict:
        for name in (_HINTS, _COMPAT):
            if name in sys.modules:
                _load_again(sys.modules[name])
        if _UTILS in sys.modules:  # which says `import triton` if there is one
            vars(sys.modules[_UTILS]).setdefault("triton", importlib.import_module("triton"))


def _reject_settled() -> None:
    compat = sys.modules.get(_COMPAT)
    if compat is None or getattr(compat, "HAS_TRITON", True):
        return
    built = [name for name in _BUILT if name in sys.modules]
    if built:
        raise IntegrationError(
            f"Inductor has looked for Triton, found none and is settled on that ({built[0]} is loaded)",
            help="call tilewright.integrations.inductor.install() before the first torch.compile, or "
            "set TILEWRIGHT_INDUCTOR=1 before Python starts",
        )


def _load_again(module: ModuleType) -> None:
    """Run the module's code again, and give its new objects to those who took the old ones by name.

    Only what the search for Triton decides may change, so enums and the like stay the objects they were.
    """
    before = dict(vars(module))
    if module.__name__ == _COMPAT:
        if before.get("HAS_TRITON", True):
            return
        importlib.reload(module)
        changed = {n: v for n, v in vars(module).items() if before.get(n, v) is not v}
    else:
        changed = {"AttrsDescriptorWrapper": _attributes}
        vars(module).update(changed)
    _hand_on(module, before, changed)


def _hand_on(module: ModuleType, before: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    for name, other in list(sys.modules.items()):
        if not name.startswith("torch._inductor") or other is module:
            continue
        for attribute, value in changed.items():
            own = vars(other)
            if attribute in before and attribute in own and own[attribute] is before[attribute]:
                setattr(other, attribute, value)


def _attributes(
    divisible_by_16: Any = None, equal_to_1: Any = None, pointer_range_32: Any = None
) -> dict[tuple[int], list[list[Any]]]:
    """`hints.AttrsDescriptorWrapper`, as torch defines it where it finds a Triton of 2025 or later."""
    return {(index,): [["tt.divisibility", 16]] for index in divisible_by_16 or ()}
