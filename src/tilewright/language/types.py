"""Types a kernel author names: `tl.tensor`, `tl.range`, `tl.PropagateNan` … and the dtypes."""

from __future__ import annotations

import builtins
import enum
from collections.abc import Iterator
from typing import Any

from tilewright.dtypes import (
    bfloat16,
    block_type,
    constexpr,
    constexpr_type,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    from_short_name,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    tuple_type,
    uint8,
    uint16,
    uint32,
    uint64,
    unwrap_constexpr,
    void,
)
from tilewright.language.builtin import active_semantics

__all__ = [
    "PropagateNan",
    "bfloat16",
    "block_type",
    "const",
    "constexpr",
    "constexpr_type",
    "dtype",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "get_int_dtype",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "pi32_t",
    "pointer_type",
    "range",
    "static_range",
    "str_to_ty",
    "tensor",
    "tensor_descriptor",
    "tuple_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
]  # fmt: skip


class PropagateNan(enum.Enum):
    """What `maximum`, `minimum` and `clamp` do with a NaN operand."""

    NONE = 0
    """The other operand wins."""
    ALL = 0xFFFF
    """The NaN wins."""


class const:
    """Annotation of a pointer parameter that is only read."""


class _TensorMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return builtins.bool(getattr(type(instance), "__tl_tensor__", False))


class tensor(metaclass=_TensorMeta):
    """A scalar, pointer or tile in a kernel: for annotations and `isinstance(x, tl.tensor)`.

    Attributes: `dtype`, `shape`, `type`, `numel`, `T`. Python's operators work lane by lane with
    broadcasting; `x[:, None]` adds dimensions. Most functions of this module are methods too:
    `x.to(tl.float32)`, `x.sum(axis=0)`, `x.reshape(4, 8)`.
    """


def get_int_dtype(bitwidth: Any, signed: Any) -> dtype:
    """The integer type of 8, 16, 32 or 64 bits (1 for int1): `get_int_dtype(32, True) is int32`."""
    bits = unwrap_constexpr(bitwidth)
    kinds = (int8, int16, int32, int64) if unwrap_constexpr(signed) else (
        uint8, uint16, uint32, uint64
    )  # fmt: skip
    found = [kind for kind in (int1, *kinds) if kind.primitive_bitwidth == bits]
    if not found:
        raise ValueError(f"there is no integer of {bits} bits")
    return found[0]


def str_to_ty(name: Any, c: Any = None) -> Any:
    """The type that a signature's text names: `str_to_ty("*kfp32")`, `"i64"`, `"tensordesc<fp16[8,16]>"`.

    A tuple of texts gives a `tuple_type`, "constexpr" the type of the value `c`. Raises ValueError.
    """
    if isinstance(name, tuple):
        fields = getattr(name, "_fields", None)
        return tuple_type([str_to_ty(item, c) for item in name], fields)
    if name.startswith("constexpr"):
        return constexpr_type(unwrap_constexpr(c))
    if name == "void":
        return void
    inner = name.removeprefix("tensordesc<")
    if inner != name:
        element, _, extents = inner.rstrip(">").partition("[")
        shape = tuple(int(extent) for extent in extents.partition("]")[0].split(","))
        return block_type(str_to_ty(element), shape)
    try:
        return from_short_name(name)
    except KeyError:
        raise ValueError(f"'{name}' is not a type of signatures, such as *fp32, i64, u1") from None


class _DescriptorMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance).__name__ == "TensorDescriptor" and hasattr(instance, "block_shape")


class tensor_descriptor(metaclass=_DescriptorMeta):
    """What `tl.make_tensor_descriptor` gives: `.load(offsets)`, `.store(offsets, value)`."""


class range:
    """`for i in tl.range(start, end, step)`: a loop at run time, with hints for the compiler.

    `arg1` alone is the end. `num_stages` asks for software pipelining, `loop_unroll_factor` for
    unrolling; `flatten`, `warp_specialize`, `disallow_acc_multi_buffer` and `disable_licm` are
    accepted and may be ignored by a target.
    """

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = False,
        disable_licm: Any = False,
    ) -> None:
        single = unwrap_constexpr(arg2) is None
        self.start = 0 if single else arg1
        self.end = arg1 if single else arg2
        self.step = 1 if unwrap_constexpr(step) is None else step
        self.num_stages = unwrap_constexpr(num_stages)
        self.loop_unroll_factor = unwrap_constexpr(loop_unroll_factor)
        self.disallow_acc_multi_buffer = unwrap_constexpr(disallow_acc_multi_buffer)
        self.flatten = unwrap_constexpr(flatten)
        self.warp_specialize = unwrap_constexpr(warp_specialize)
        self.disable_licm = unwrap_constexpr(disable_licm)

    def _numbers(self) -> builtins.range:
        return builtins.range(self.start.__index__(), self.end.__index__(), self.step.__index__())

    def __iter__(self) -> Iterator[Any]:
        semantics = active_semantics.get()
        for number in self._numbers():
            yield number if semantics is None else semantics.to_tensor(number)


class static_range(range):
    """`for i in tl.static_range(n)`: a loop unrolled at compile time; `i` is a constexpr."""

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        super().__init__(arg1, arg2, step)

    def __iter__(self) -> Iterator[Any]:
        return (constexpr(number) for number in self._numbers())
