"""Corrections of the code that Inductor writes: what is wrong on every device, and what only kernels for a CPU need."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement, copied, graph, is_for_cpu

_TRITON = "torch._inductor.codegen.triton"
_INTEGERS = {"torch.complex32": "*i32", "torch.complex64": "*i64"}
_RELAXED, _EXCLUSIVE = ", sem='relaxed')", ", sem='exclusive')"


def _with_masks(_: Any, original: Any) -> Any:
    """`value_expr`, which keeps the mask of an index that is computed from running indices and converted to another type.

    torch 2.13's forgets it: accesses and assertions at such an index then include lanes beyond the end, whose indices are
    out of bounds (`max_unpool2d` of the indices from `max_pool2d`).
    """

    def value_expr(cls: Any, expr: Any, dtype: Any) -> Any:
        result = original.__func__(cls, expr, dtype)
        kernel = sys.modules["torch._inductor.virtualized"].V.kernel
        indexing = kernel.indexing(expr, block_ptr=False, tma_compatibility_checker=None)
        result.mask_vars = result.mask_vars | indexing.mask_vars
        return result

    return classmethod(value_expr)


def _with_wide_constants(_: Any, original: Callable[..., Any]) -> Any:
    """`indexing`, which writes constants that do not fit in 32 bits as int64.

    torch 2.13 writes each constant among its indices as an int32, also in kernels that index with 64 bits: an index
    counted from the end of 2**31 elements or more (`x[-3]` of a tensor of indices) has their number added, less 2**32.
    """

    @functools.wraps(original)
    def indexing(self: Any, index: Any, **options: Any) -> Any:
        found = original(self, index, **options)
        if getattr(index, "is_Integer", False) and not -(2**31) <= int(index) < 2**31:
            found.index_str = found.index_str.replace(", tl.int32)", ", tl.int64)")
        return found

    return indexing


def _with_complex(_: Any, original: Callable[[Any], str]) -> Any:
    """The type of a complex tensor in kernels that copy it: that of integers of the same size.

    Inductor leaves arithmetic of complex numbers to torch's operators. What it generates for them are copies to another
    layout and selections (`diagonal_scatter`, a convolution's weights), for which its Triton back end has no type and
    raises KeyError. complex128 has no integer of its size in Triton's language and keeps the error.
    """

    @functools.wraps(original)
    def type_of(key: Any) -> str:
        return _INTEGERS.get(str(key)) or original(key)

    return type_of


def _checked_shift(name: str) -> Callable[[Any, Any], Any]:
    """Shifts by the width or more, which torch defines and Triton's language does not.

    torch's operators on a CPU shift all bits out: `x << 8` of an int8 is 0, `x >> 8` is 0 or, of negative numbers, -1;
    amounts below zero count as large ones. Inductor's kernels contain a plain shift. In kernels for the CPU the amount is
    checked; a constant amount leaves nothing of that.
    """

    def make(_: Any, original: Callable[[Any, Any], str]) -> Any:
        def shift(value: Any, amount: Any) -> str:
            text, dtype = original(value, amount), getattr(value, "dtype", None)
            if dtype is None or not is_for_cpu(graph()):
                return text
            bits = 8 * dtype.itemsize
            inside = f"({amount} >= 0) & ({amount} < {bits})"
            beyond = f"{value} >> {bits - 1}" if name == "right" and dtype.is_signed else "0"
            return f"tl.where({inside}, {text}, {beyond})"

        return staticmethod(shift)

    return make


def _exclusive(_: Any, original: Callable[..., None]) -> Any:
    """`TritonKernel.store`, which writes atomic additions of kernels for a CPU without locked instructions, on one thread.

    Nothing else accesses a buffer of a graph while a kernel adds to it. A locked addition takes 20 cycles per element; a
    plain one becomes a vector addition where neighboring elements go to neighboring addresses (rows of an embedding's
    gradient). Kernels of users, and the captured buffers of flex_attention, keep their atomics.
    """
    exclusive = copied(original, {_RELAXED: _EXCLUSIVE})

    def store(self: Any, *args: Any, **kwargs: Any) -> None:
        (exclusive if is_for_cpu(graph()) else original)(self, *args, **kwargs)

    return store


def _unless_for_cpu(_: Any, original: Callable[[Any, str], bool]) -> Any:
    """`is_unspec_arg`: kernels for the CPU get tensors without dimensions themselves, not their elements.

    Inductor passes the element of such a tensor (`.item()`) to Triton's kernels, which a GPU could not read. torch 2.13
    does so in kernels for the CPU too, unless the graph's caller passed the tensor and the graph changes it. A kernel that
    writes its result over one (the counter in the gradient of `scan`, `while_loop`) then adds to the address instead.
    """

    def is_unspec_arg(self: Any, name: str) -> bool:
        return original(self, name) and not is_for_cpu(self)

    return is_unspec_arg


REPLACEMENTS = (
    Replacement(_TRITON, "TritonKernelOverrides.value_expr", _with_masks),
    Replacement(_TRITON, "TritonKernel.indexing", _with_wide_constants),
    Replacement("torch._inductor.utils", "_type_of", _with_complex),
    Replacement("torch._inductor.codegen.triton_utils", "_type_of", _with_complex),
    Replacement(_TRITON, "TritonOverrides.bitwise_left_shift", _checked_shift("left")),
    Replacement(_TRITON, "TritonOverrides.bitwise_right_shift", _checked_shift("right")),
    Replacement(_TRITON, "TritonKernel.store", _exclusive),
    Replacement("torch._inductor.graph", "GraphLowering.is_unspec_arg", _unless_for_cpu),
)
