"""The core names of the language in one module (`tl.core`), for code written in it."""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import OutsideKernelError, active_semantics, builtin
from tilewright.language.math import (
    abs, add, cdiv, ceil, clamp, cos, div_rn, erf, exp, exp2, fdiv, floor, fma, log, log2, maximum,
    minimum, mul, next_power_of_2, rsqrt, sigmoid, sin, softmax, sqrt, sqrt_rn, sub, tanh, umulhi,
)  # fmt: skip
from tilewright.language.memory import (
    advance, atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or, atomic_xchg,
    atomic_xor, load, load_tensor_descriptor, make_block_ptr, make_tensor_descriptor, store,
    store_tensor_descriptor,
)  # fmt: skip
from tilewright.language.reductions import (
    argmax, argmin, associative_scan, cumprod, cumsum, histogram, max, min, reduce, reduce_or, sum,
    xor_sum,
)  # fmt: skip
from tilewright.language.tiles import (
    arange, assume, broadcast, broadcast_to, cast, cat, condition, debug_barrier, device_assert,
    device_print, dot, dot_scaled, expand_dims, extern_elementwise, flip, full, full_like, gather,
    inline_asm_elementwise, interleave, join, max_constancy, max_contiguous, multiple_of,
    num_programs, permute, program_id, ravel, reshape, split, squeeze, static_assert, static_print,
    trans, unsqueeze, view, where, zeros, zeros_like,
)  # fmt: skip
from tilewright.language.types import (
    PropagateNan, bfloat16, block_type, const, constexpr, dtype, float8e4nv, float8e5, float16,
    float32, float64, int1, int8, int16, int32, int64, pi32_t, pointer_type, range, static_range,
    tensor, tensor_descriptor, uint8, uint16, uint32, uint64, void,
)  # fmt: skip


@builtin()
def to_tensor(value: Any) -> Any:
    """A number or constexpr as a scalar tensor of its literal type; tensors as they are."""


#: what `from tilewright.language import *` and `tl.` offer from here
__all__ = [
    "PropagateNan", "OutsideKernelError", "abs", "active_semantics", "add", "advance", "arange",
    "argmax", "argmin", "associative_scan", "assume", "atomic_add", "atomic_and", "atomic_cas",
    "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "bfloat16",
    "block_type", "broadcast", "broadcast_to", "builtin", "cast", "cat", "cdiv", "ceil", "clamp",
    "condition", "const", "constexpr", "cos", "cumprod", "cumsum", "debug_barrier",
    "device_assert", "device_print", "div_rn", "dot", "dot_scaled", "dtype", "erf", "exp", "exp2",
    "expand_dims", "extern_elementwise", "fdiv", "flip", "float16", "float32", "float64",
    "float8e4nv", "float8e5", "floor", "fma", "full", "full_like", "gather", "histogram",
    "inline_asm_elementwise", "int1", "int16", "int32", "int64", "int8", "interleave", "join",
    "load", "load_tensor_descriptor", "log", "log2", "make_block_ptr", "make_tensor_descriptor",
    "max", "max_constancy", "max_contiguous", "maximum", "min", "minimum", "mul", "multiple_of",
    "next_power_of_2", "num_programs", "permute", "pi32_t", "pointer_type", "program_id", "range",
    "ravel", "reduce", "reduce_or", "reshape", "rsqrt", "sigmoid", "sin", "softmax", "split",
    "sqrt", "sqrt_rn", "squeeze", "static_assert", "static_print", "static_range", "store",
    "store_tensor_descriptor", "sub", "sum", "tanh", "tensor", "tensor_descriptor", "to_tensor",
    "trans", "uint16", "uint32", "uint64", "uint8", "umulhi", "unsqueeze", "view", "void", "where",
    "xor_sum", "zeros", "zeros_like",
]  # fmt: skip
