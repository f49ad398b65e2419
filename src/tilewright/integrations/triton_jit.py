"""`triton.jit`: kernels that were written for Triton, whose defaults they rely on.

They differ from tilewright's own in one: a `tl.dot` of fp32 tiles that names no precision is TF32 on an NVIDIA GPU, as
in Triton (`TRITON_F32_DEFAULT` there and here), where tilewright's own kernels get IEEE. On a CPU both are IEEE.
"""

from __future__ import annotations

from typing import Any

from tilewright.integrations import triton_knobs
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.jit import jit as own_jit


def jit(fn: Any = None, **options: Any) -> Any:
    """`tilewright.jit` for kernels that import `triton`; the same arguments."""

    def decorate(function: Any) -> JITFunction:
        kernel: Any = own_jit(function, **options)
        if kernel is not function:
            kernel.dot_precision = default_dot_precision()
        return kernel

    return decorate(fn) if fn is not None else decorate


def default_dot_precision() -> str:
    """The precision of a `tl.dot` of fp32 tiles that names none."""
    return triton_knobs.language.fp32_default or "tf32"
