"""Kernels that copy complex numbers: their elements are integers of the same size.

Inductor leaves arithmetic of complex numbers to torch's operators. What it generates for them are copies to another layout and
selections (`diagonal_scatter`, a convolution's weights), for which its Triton back end has no type and raises KeyError. complex128 has
no integer of its size in Triton's language and keeps the error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement

_INTEGERS = {"torch.complex32": "*i32", "torch.complex64": "*i64"}


def _with_complex(_: Any, original: Callable[[Any], str]) -> Any:
    @functools.wraps(original)
    def type_of(key: Any) -> str:
        return _INTEGERS.get(str(key)) or original(key)

    return type_of


REPLACEMENTS = tuple(
    Replacement(module, "_type_of", _with_complex)
    for module in ("torch._inductor.utils", "torch._inductor.codegen.triton_utils")
)
