"""The core names of the language in one module (`tl.core`), for code written in it."""

# ruff: noqa: F401, F403
from __future__ import annotations

import builtins
from typing import Any

from tilewright.language import types
from tilewright.language.aggregates import aggregate as _aggregate
from tilewright.language.builtin import (
    OutsideKernelError,
    active_semantics,
    builtin,
    extern,
    must_use_result,
)
from tilewright.language.math import *
from tilewright.language.memory import *
from tilewright.language.reductions import *
from tilewright.language.tiles import *
from tilewright.language.types import *
from tilewright.language.types import _unwrap_if_constexpr, constexpr

CONSTEXPR_0 = constexpr(0)
base_type, base_value = types.dtype | types.pointer_type | types.block_type, types.tensor
slice, tuple = builtins.slice, builtins.tuple


def is_builtin(fn: Any) -> bool:
    """Whether a function is part of the language, and not written in it."""
    return hasattr(fn, "__tl_builtin__") or getattr(fn, "__triton_builtin__", False)


@builtin()
def item(x: Any) -> Any:
    """The scalar in a one-element tile."""


@builtin()
def to_tensor(value: Any) -> Any:
    """A number or constexpr as a scalar tensor of its literal type; tensors as they are."""


_EXPORTED = ("OutsideKernelError", "active_semantics", "builtin", *types.__all__)
#: what `from tilewright.language import *` and `tl.` offer from here; as in Triton without `item`
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name
    for name, value in globals().items()
    if name in _EXPORTED or (hasattr(value, "__tl_builtin__") and value is not item)
]
