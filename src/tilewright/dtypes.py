"""Scalar, pointer, tile and tuple types of the kernel language, and `constexpr`.

One `dtype` object exists per scalar type; `pointer_type` and `block_type` wrap it. Signedness is a
property of the language type only: the IR below is signless, and `semantics/` picks the signed or
unsigned operation. Names and properties are Triton's, so that kernels which say
`x_ptr.dtype.element_ty` or `tl.float32.primitive_bitwidth` work unchanged.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.compile_time import constexpr, constexpr_type, unwrap_constexpr  # noqa: F401

_INTEGERS = {"int1": 1, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_FLOATS = {"fp8e4nv": 8, "fp8e5": 8, "fp8e4b8": 8, "fp8e5b16": 8, "fp8e4b15": 8,
           "fp16": 16, "bf16": 16, "fp32": 32, "fp64": 64}  # fmt: skip
#: bits of the significand without the implicit one
_MANTISSA = {"fp8e4nv": 3, "fp8e5": 2, "fp8e4b8": 3, "fp8e5b16": 2, "fp8e4b15": 3,
             "fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52}  # fmt: skip
#: what is subtracted from the exponent field of a normal number
_EXPONENT_BIAS = {"fp8e4nv": 7, "fp8e5": 15, "fp8e4b8": 8, "fp8e5b16": 16, "fp8e4b15": 15,
                  "fp16": 15, "bf16": 127, "fp32": 127, "fp64": 1023}  # fmt: skip
#: the spelling used in signatures ("*fp32", "i32") and in cache keys
_SHORT = {"int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
          "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64"}  # fmt: skip
#: names by which arrays (NumPy, ml_dtypes, torch) call the same type
_ARRAY_NAMES = {"int1": "bool", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2",
                "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}  # fmt: skip
#: names in the language, where they differ from `dtype.name`
_LANGUAGE_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
                   **{f"fp8{kind}": f"float8{kind}" for kind in ("e4nv", "e5", "e4b8", "e5b16", "e4b15")}}  # fmt: skip
#: the module that `repr` of a type names; the Triton drop-in sets the name that its programs import
language_module = "tilewright.language"


class Signedness(enum.Enum):
    """Whether an integer type is signed."""

    SIGNED = 0
    UNSIGNED = 1


class Kind(enum.Enum):
    """Kinds of scalar types, in the order of promotion."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2


class _Type:
    """What types are not, unless they say otherwise."""

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def is_void(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def is_bool(self) -> bool:
        return False


@dataclass(frozen=True, eq=True)
class dtype(_Type):
    """A scalar type, e.g. `float32`. Compare with `==`; `str()` gives the short name (`fp32`, `i8`).

    The lists below hold the names by kind, as Triton has them: `dtype(name)` is the type.
    """

    name: str

    SINT_TYPES: ClassVar = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar = [
        "fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64",
    ]  # fmt: skip
    STANDARD_FP_TYPES: ClassVar = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar = ["void"]
    SIGNEDNESS: ClassVar = Signedness
    KIND: ClassVar = Kind

    def __post_init__(self) -> None:
        name = unwrap_constexpr(self.name)
        if name not in _INTEGERS and name not in _UNSIGNED and name not in (*_FLOATS, "void"):
            raise ValueError(
                f"'{name}' is not the name of a scalar type; they are "
                f"{', '.join((*_INTEGERS, *_UNSIGNED, *_FLOATS, 'void'))}"
            )
        object.__setattr__(self, "name", name)

    @property
    def primitive_bitwidth(self) -> int:
        """Width in bits; 1 for `int1`, which occupies a whole byte in memory."""
        return _INTEGERS.get(self.name) or _UNSIGNED.get(self.name) or _FLOATS.get(self.name, 0)

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory."""
        return max(1, self.primitive_bitwidth // 8)

    @property
    def fp_mantissa_width(self) -> int:
        """Explicit significand bits of a floating type."""
        if not self.is_floating():
            raise AttributeError(f"{self} is not a floating type and has no fp_mantissa_width")
        return _MANTISSA[self.name]

    @property
    def exponent_bias(self) -> int:
        """Bias of the exponent of a floating type. Raises AttributeError for other types."""
        if not self.is_floating():
            raise AttributeError(f"{self} is not a floating type and has no exponent_bias")
        return _EXPONENT_BIAS[self.name]

    @property
    def int_signedness(self) -> Signedness:
        """`SIGNEDNESS.SIGNED` or `UNSIGNED` of an integer type. Raises AttributeError for others."""
        if not self.is_int():
            raise AttributeError(f"{self} is not an integer type and has no int_signedness")
        return Signedness.UNSIGNED if self.is_int_unsigned() else Signedness.SIGNED

    def kind(self) -> Kind:
        """Which kind promotion sees: boolean < integral < floating."""
        if self.is_bool():
            return Kind.BOOLEAN
        if self.is_int():
            return Kind.INTEGRAL
        if self.is_floating():
            return Kind.FLOATING
        raise TypeError(f"{self} is not a type of numbers")

    @staticmethod
    def is_dtype(name: str) -> bool:
        """Whether `name` is the name of a scalar type."""
        return name in _INTEGERS or name in _UNSIGNED or name in (*_FLOATS, "void")

    @property
    def int_bitwidth(self) -> int:
        """Width in bits of an integer type. Raises AttributeError for other types."""
        if not self.is_int():
            raise AttributeError(f"{self} is not an integer type and has no int_bitwidth")
        return self.primitive_bitwidth

    @property
    def scalar(self) -> dtype | pointer_type:
        return self

    @property
    def element_ty(self) -> dtype:
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def array_name(self) -> str:
        """The name NumPy, ml_dtypes and torch give this type (`bfloat16`, `float8_e4m3fn`, `bool`)."""
        return _ARRAY_NAMES.get(self.name, self.name)

    @property
    def short_name(self) -> str:
        """The spelling of signatures: `i32`, `u8`, `fp16`."""
        return _SHORT.get(self.name, self.name)

    def is_floating(self) -> bool:
        return self.name in _FLOATS

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        return self.name == "fp64"

    def is_standard_floating(self) -> bool:
        return self.name in ("fp16", "bf16", "fp32", "fp64")

    def is_int(self) -> bool:
        return self.name in _INTEGERS or self.name in _UNSIGNED

    def is_int_signed(self) -> bool:
        return self.name in _INTEGERS and self.name != "int1"

    def is_int_unsigned(self) -> bool:
        return self.name in _UNSIGNED or self.name == "int1"

    def is_bool(self) -> bool:
        return self.name == "int1"

    def is_void(self) -> bool:
        return self.name == "void"

    def with_shape(self, shape: tuple[int, ...]) -> dtype | block_type:
        """The tile of this type with `shape`, or the scalar itself for `()`."""
        return block_type(self, tuple(shape)) if shape else self

    def __str__(self) -> str:
        return self.short_name

    def __repr__(self) -> str:
        return f"{language_module}.{self.in_language}"

    @property
    def in_language(self) -> str:
        """The name that kernels write after `tl.`."""
        return _LANGUAGE_NAMES.get(self.name, self.name)


@dataclass(frozen=True, eq=True)
class pointer_type(_Type):
    """Pointer to `element_ty` (a scalar `dtype`); `const` marks a `*k` parameter that is only read."""

    element_ty: Any
    address_space: int = 1
    const: bool = False

    primitive_bitwidth = 64
    itemsize = 8
    shape = ()

    @property
    def name(self) -> str:
        return f"pointer<{self.element_ty}>"

    @property
    def scalar(self) -> pointer_type:
        return self

    @property
    def short_name(self) -> str:
        return f"*{'k' if self.const else ''}{self.element_ty.short_name}"

    def is_ptr(self) -> bool:
        return True

    def with_shape(self, shape: tuple[int, ...]) -> pointer_type | block_type:
        return block_type(self, tuple(shape)) if shape else self

    def __str__(self) -> str:
        return f"const {self.name}" if self.const else self.name


@dataclass(frozen=True, eq=True)
class block_type(_Type):
    """A tile: `scalar` elements (a `dtype` or `pointer_type`) in `shape` (a non-empty tuple of ints)."""

    scalar: Any
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if type(self.shape) is not tuple:
            object.__setattr__(self, "shape", tuple(map(unwrap_constexpr, self.shape)))

    def get_block_shapes(self) -> tuple[int, ...]:
        """The extents."""
        return self.shape

    @property
    def element_ty(self) -> Any:
        return self.scalar

    @property
    def numel(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def name(self) -> str:
        return f"<{'x'.join(map(str, self.shape))}x{self.scalar}>"

    @property
    def primitive_bitwidth(self) -> int:
        return self.scalar.primitive_bitwidth

    def is_block(self) -> bool:
        return True

    def is_floating(self) -> bool:
        return self.scalar.is_floating()

    def is_int(self) -> bool:
        return self.scalar.is_int()

    def is_bool(self) -> bool:
        return self.scalar.is_bool()

    def with_shape(self, shape: tuple[int, ...]) -> Any:
        return self.scalar.with_shape(shape)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=True)
class tuple_type:
    """The type of a tuple of values: `types` of its items, and the `fields` of a named tuple."""

    types: Sequence[Any]
    fields: Sequence[str] | None = None

    @property
    def name(self) -> str:
        names = (
            [f"{n}:" for n in self.fields] if self.fields is not None else [""] * len(self.types)
        )
        return f"[{','.join(f'{n}{t}' for n, t in zip(names, self.types, strict=True))}]"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.types)

    def __getitem__(self, index: int) -> Any:
        return self.types[index]

    def __len__(self) -> int:
        return len(self.types)

    def __str__(self) -> str:
        return self.name


def _install_predicates() -> None:
    """`is_uint8()` and so on, one for each type that has none yet; for pointers and tiles the same
    names: pointers are of no such type, tiles of what their elements are.
    """
    for one in (*_INTEGERS, *_UNSIGNED, *_FLOATS):
        if f"is_{one}" not in vars(dtype):
            setattr(dtype, f"is_{one}", lambda self, one=one: self.name == one)

    def of_scalar(name: str) -> Any:
        return lambda self: getattr(self.scalar, name)()

    for name in [n for n in vars(dtype) if n.startswith("is_") and n != "is_dtype"]:
        if not hasattr(pointer_type, name):
            setattr(pointer_type, name, lambda self: False)
        if not hasattr(block_type, name):
            setattr(block_type, name, of_scalar(name))


_install_predicates()

void = dtype("void")
int1 = dtype("int1")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
float8e5 = dtype("fp8e5")
float8e4nv = dtype("fp8e4nv")
#: formats of other makers' and older chips: they can be named and compared, not held by a kernel
float8e4b8, float8e5b16, float8e4b15 = (dtype(n) for n in ("fp8e4b8", "fp8e5b16", "fp8e4b15"))
FOREIGN = (float8e4b8, float8e5b16, float8e4b15)
float16 = dtype("fp16")
bfloat16 = dtype("bf16")
float32 = dtype("fp32")
float64 = dtype("fp64")
pi32_t = pointer_type(int32)

ALL_SCALARS: tuple[dtype, ...] = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float8e5, float8e4nv, float16, bfloat16, float32, float64,
)  # fmt: skip

_BY_SHORT_NAME = {t.short_name: t for t in (*ALL_SCALARS, *FOREIGN)} | {"u1": int1, "B": int1}
_BY_ARRAY_NAME = {t.array_name: t for t in ALL_SCALARS}


def from_short_name(text: str) -> dtype | pointer_type:
    """Parse a signature type: `"fp32"`, `"i1"`, `"*fp16"`, `"*kfp16"`. Raises KeyError if unknown."""
    if text.startswith("*"):
        const = text.startswith("*k")
        return pointer_type(_BY_SHORT_NAME[text[2:] if const else text[1:]], const=const)
    return _BY_SHORT_NAME[text]


def from_array_name(text: str) -> dtype:
    """The type of an array whose dtype prints as `text` (`"float32"`, `"torch.bfloat16"`, `"bool"`).

    Raises KeyError when kernels cannot hold that type (complex, strings).
    """
    return _BY_ARRAY_NAME[text.rpartition(".")[2]]


def accumulators(kind: dtype) -> tuple[dtype, ...]:
    """Types that matmuls of `kind` can be summed in, the usual one first."""
    if kind.is_int():
        return (int64 if kind.primitive_bitwidth == 64 else int32,)
    if kind.is_fp64():
        return (float64,)
    if kind.is_fp16() or kind.is_fp8():
        return (float32, float16)
    return (float32,)


def like(container: Any, items: Sequence[Any]) -> Any:
    """A list, named tuple or tuple like `container` that holds `items`; a shape of an array is a tuple."""
    if hasattr(container, "_fields"):
        return container._make(items)
    return list(items) if isinstance(container, list) else tuple(items)
