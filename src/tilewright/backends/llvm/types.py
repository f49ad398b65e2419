"""xDSL types as llvmlite types: what a value is in registers and what it is in memory.

llvmlite has no bfloat and no 8-bit floats, so those travel as the integers of their bits; arithmetic
on them widens to single precision (`casts`). `i1` is a byte in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from llvmlite import ir
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from tilewright.dialects.tile import PtrType
from tilewright.errors import PassError

#: llvmlite ships no type hints: its values and builders are anything to a type checker
Builder: TypeAlias = Any
Value: TypeAlias = Any

#: machine types of scalars
I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
VOID, POINTER = ir.VoidType(), ir.PointerType()
_PLAIN: dict[type[Attribute], ir.Type] = {
    PtrType: POINTER, IndexType: I64, Float16Type: F16, BFloat16Type: I16, Float32Type: F32,
    Float64Type: F64, Float8E4M3FNType: I8, Float8E5M2Type: I8,
}  # fmt: skip


class BFloatType(ir.Type):
    """LLVM's `bfloat`, which llvmlite has no class for; values are carried as i16 and cast."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloatType)

    def __hash__(self) -> int:
        return hash(BFloatType)


def llvm_type(kind: Attribute) -> ir.Type:
    """The register type of a scalar or a `vector<NxT>`. Raises PassError for other types."""
    # classes are compared, not asked: every class of xDSL answers `isinstance` in Python code
    which = type(kind)
    if which is IntegerType:
        return ir.IntType(cast(IntegerType, kind).width.data)
    if which is VectorType:
        kind = cast(VectorType, kind)
        return ir.VectorType(llvm_type(kind.element_type), kind.get_shape()[0])
    found = _PLAIN.get(which)
    if found is None:
        raise PassError(f"no machine type for {kind}")
    return found


def storage_type(kind: Attribute) -> ir.Type:
    """The type of one element in memory."""
    register = llvm_type(kind)
    return I8 if register == I1 else register


def scalar_kind(kind: Attribute) -> Attribute:
    """Element type of a vector, or the scalar type itself."""
    return kind.element_type if isinstance(kind, VectorType) else kind


def lanes(kind: ir.Type) -> int:
    """Lanes of an LLVM type, 1 for a scalar."""
    return kind.count if isinstance(kind, ir.VectorType) else 1


def lane_type(kind: ir.Type) -> ir.Type:
    """The type of a vector's lanes, or the scalar type itself."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def constant_lanes(value: Value) -> list[Any]:
    """The numbers in the lanes of a constant; none for other values."""
    if not isinstance(value, ir.Constant):
        return []
    parts = value.constant if isinstance(value.constant, (list, tuple)) else [value]
    return [getattr(part, "constant", part) for part in parts]


def like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """`element` in as many lanes as `kind` has."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def call(b: Builder, name: str, result: ir.Type, *values: Value) -> Value:
    """Call the function or intrinsic of that name, which is declared once per module, for the types of `values`."""
    found = b.module.globals.get(name)
    if found is None:
        kind = ir.FunctionType(result, [v.type for v in values])
        found = ir.Function(b.module, kind, name)
    return b.call(found, values)


def constant_bytes(module: ir.Module, name: str, data: bytes) -> Any:
    """A constant array of bytes of a module, called `name` where that is free."""
    kind = ir.ArrayType(I8, len(data))
    value: Any = ir.GlobalVariable(module, kind, module.get_unique_name(name))
    value.linkage, value.global_constant = "internal", True
    value.initializer = ir.Constant(kind, bytearray(data))
    return value


def constant(kind: ir.Type, value: float) -> ir.Constant:
    """`value` in every lane."""
    if not isinstance(kind, ir.VectorType) or value is None or value is ir.Undefined:
        return ir.Constant(kind, value)
    return _Splat(kind, value)


class _Spelled(ir.Constant):
    """A constant whose text is known; `constant` is what code that looks inside is to see."""

    def __init__(self, kind: ir.Type, text: str, constant: object = None) -> None:
        self.type = kind
        self.constant = constant
        self._text = text

    def _get_reference(self) -> str:
        return self._text


class _Splat(ir.Constant):
    """A vector constant whose lanes are equal.

    llvmlite makes and formats an object for every lane, which took a third of the time of a compile.
    """

    def __init__(self, kind: ir.VectorType, value: float) -> None:
        element = ir.Constant(kind.element, value)
        self.type = kind
        self.constant = (element,) * kind.count

    def _get_reference(self) -> str:
        element = self.constant[0]
        return f"splat ({element.type} {element.get_reference()})"


def undefined(kind: ir.Type) -> ir.Constant:
    """A value of which nothing is known (llvmlite would spell it out element-wise)."""
    return _Spelled(kind, "undef", ir.Undefined)


def zeros(kind: ir.Type) -> ir.Constant:
    """All bits zero."""
    return _Spelled(kind, "zeroinitializer")


@functools.cache
def steps(element: ir.Type, lanes: int) -> ir.Constant:
    """0, 1, 2, … in the lanes of a vector of integers."""
    text = ", ".join(f"{element} {i}" for i in range(lanes))
    return _Spelled(ir.VectorType(element, lanes), f"<{text}>")


def splat(b: Builder, value: Value, lanes: int) -> Value:
    """Splat a scalar to all lanes of a vector."""
    kind = ir.VectorType(value.type, lanes)
    if isinstance(value, ir.Constant) and not isinstance(value.type, ir.PointerType):
        return constant(kind, value.constant)
    poison = undefined(kind)
    first = b.insert_element(poison, value, ir.Constant(I32, 0))
    return b.shuffle_vector(first, poison, constant(ir.VectorType(I32, lanes), 0))


def as_vector(b: Builder, values: Sequence[Value]) -> Value:
    """Scalars side by side in a vector; one is itself."""
    if len(values) == 1:
        return values[0]
    vector: Value = undefined(ir.VectorType(values[0].type, len(values)))
    for i, value in enumerate(values):
        vector = b.insert_element(vector, value, ir.Constant(I32, i))
    return vector


def elements(b: Builder, value: Value) -> Iterator[Value]:
    """The lanes of a vector, each taken out when it is asked for; a scalar is its own."""
    if not isinstance(value.type, ir.VectorType):
        yield value
        return
    for i in range(value.type.count):
        yield b.extract_element(value, ir.Constant(I32, i))


def load_elements(
    b: Builder, pointer: Value, kind: ir.Type, count: int, align: int
) -> Iterator[Value]:
    """Load `count` values that lie side by side, in one instruction."""
    loaded = b.load(pointer, typ=ir.VectorType(kind, count) if count > 1 else kind, align=align)
    return elements(b, loaded)


def shuffle(b: Builder, x: Value, y: Value | None, lanes: Iterable[int]) -> Value:
    """Lanes of the concatenation of two vectors, or of one."""
    picks = list(lanes)
    mask = ir.Constant(ir.VectorType(I32, len(picks)), picks)
    return b.shuffle_vector(x, undefined(x.type) if y is None else y, mask)


def by_parts(b: Builder, values: Sequence[Value], width: int, act: Callable[..., Value]) -> Value:
    """The results of `act` on `width` lanes after another of vectors, as one vector."""
    count = lanes(values[0].type)
    if count <= width:
        return act(*values)
    parts = [
        act(*(shuffle(b, v, None, range(start, start + width)) for v in values))
        for start in range(0, count, width)
    ]
    return concatenated(b, parts)


def concatenated(b: Builder, parts: list[Value]) -> Value:
    """The lanes of a power-of-two number of vectors in one."""
    while len(parts) > 1:
        joined = range(2 * parts[0].type.count)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffle(b, low, high, joined) for low, high in pairs]
    return parts[0]


def clamped(b: Builder, value: Value, high: int) -> Value:
    """A signed integer limited to 0 … `high`."""
    for sign, bound in (("<", high), (">", 0)):
        limit = ir.Constant(value.type, bound)
        value = b.select(b.icmp_signed(sign, value, limit), value, limit)
    return value


def any_lane(b: Builder, condition: Value) -> Value:
    """Whether a condition holds in some lane."""
    count = lanes(condition.type)
    if count == 1:
        return condition
    bits = ir.IntType(count)
    return b.icmp_unsigned("!=", b.bitcast(condition, bits), ir.Constant(bits, 0))


def masked_load(b: Builder, pointer: Value, align: int, mask: Value, other: Value) -> Value:
    """The lanes of a vector in memory where `mask` is true, else those of `other`."""
    name = f"llvm.masked.load.{mangled(other.type)}.p0"
    return call(b, name, other.type, pointer, ir.Constant(I32, align), mask, other)


def masked_store(b: Builder, value: Value, pointer: Value, align: int, mask: Value) -> None:
    """Write the lanes of a vector where `mask` is true."""
    name = f"llvm.masked.store.{mangled(value.type)}.p0"
    call(b, name, VOID, value, pointer, ir.Constant(I32, align), mask)


def mangled(kind: ir.Type) -> str:
    """The name of a type inside the name of an intrinsic."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}[str(kind)]


def frozen(builder: ir.IRBuilder, value: Value) -> Value:
    """LLVM's `freeze`: the value, of which its analyses do not know how it was computed."""
    instruction = ir.instructions.Instruction(builder.block, value.type, "freeze", [value])
    builder._insert(instruction)
    return instruction
