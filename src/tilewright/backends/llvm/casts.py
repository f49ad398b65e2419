"""Lower conversions between numeric types, for scalars and vectors. Conversions never trap.

bf16 and 8-bit floats are represented as integers of their width. Narrowing rounds to nearest, ties to even;
8-bit floats saturate: larger values and infinities become the largest finite value, as in `cvt.rn.satfinite`
of PTX, Triton's conversion on every GPU. Narrowing from fp64 first rounds to odd in
fp32, which avoids double rounding (Boldo and Melquiond, 2005).
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir
from llvmlite.ir import instructions as llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import ptx
from tilewright.backends.llvm.types import (
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    Builder,
    Value,
    call,
    constant,
    like,
    llvm_type,
    scalar_kind,
)


@dataclass(frozen=True)
class _Small:
    """An 8-bit float format: explicit mantissa bits, exponent bias and special codes."""

    mantissa: int
    bias: int
    largest: int
    """Code of the largest finite value."""
    nan: int


_E4M3 = _Small(3, 7, 0x7E, 0x7F)
_E5M2 = _Small(2, 15, 0x7B, 0x7E)


def is_narrow(kind: Attribute) -> bool:
    """Return whether arithmetic on the type is done in fp32."""
    return isinstance(
        scalar_kind(kind), Float16Type | BFloat16Type | Float8E4M3FNType | Float8E5M2Type
    )


def to_f32(b: Builder, value: Value, kind: Attribute) -> Value:
    """Convert a narrow float to fp32 (exact)."""
    element = scalar_kind(kind)
    single = like(value.type, F32)
    if isinstance(element, Float32Type):
        return value
    if isinstance(element, Float16Type):
        return b.fpext(value, single)
    if isinstance(element, BFloat16Type):
        return b.bitcast(_bf16_in_high_half(b, value), single)
    wide = b.zext(value, like(value.type, I16))
    if isinstance(element, Float8E5M2Type):
        half = b.bitcast(b.shl(wide, constant(wide.type, 8)), like(value.type, F16))
        return b.fpext(half, single)
    magnitude = b.and_(wide, constant(wide.type, 0x7F))
    sign = b.shl(b.and_(wide, constant(wide.type, 0x80)), constant(wide.type, 8))
    bits = b.or_(sign, b.shl(magnitude, constant(wide.type, 7)))
    number = b.fpext(b.bitcast(bits, like(value.type, F16)), single)
    number = b.fmul(number, constant(single, 256.0))
    is_nan = b.icmp_unsigned("==", magnitude, constant(wide.type, 0x7F))
    return b.select(is_nan, constant(single, float("nan")), number)


def _bf16_in_high_half(b: Builder, value: Value) -> Value:
    """Return the fp32 bits of bf16 values.

    A value in a packed pair needs one shift or mask of the word; extracting it first costs one more instruction.
    """
    if isinstance(value, llvm.ExtractElement) and isinstance(value.operands[0], llvm.CastInstr):
        vector, index = value.operands
        (word,) = vector.operands
        known = isinstance(index, ir.Constant) and vector.type == ir.VectorType(I16, 2)
        if known and word.type == I32:
            if index.constant == 1:
                return b.and_(word, constant(I32, 0xFFFF0000))
            return b.shl(word, constant(I32, 16))
    rounded = ptx.rounded_to_bf16(value)
    if rounded is not None:
        return rounded
    wide = b.zext(value, like(value.type, I32))
    return b.shl(wide, constant(wide.type, 16))


def from_f32(
    b: Builder, value: Value, kind: Attribute, ctx: MathContext, computed: bool = False
) -> Value:
    """Round fp32 to a narrow float (its register representation).

    `computed`: the value is a sum, product or quotient of values of that narrow type.
    """
    element = scalar_kind(kind)
    if isinstance(element, Float32Type):
        return value
    if isinstance(element, Float16Type):
        return b.fptrunc(value, like(value.type, F16))
    if ctx.on_nvidia and isinstance(element, BFloat16Type):
        return ptx.to_bf16(b, value)
    bits_type = like(value.type, I32)
    bits = b.bitcast(value, bits_type)
    if isinstance(element, BFloat16Type):
        return _to_bf16(b, value, bits, never_carries=computed and not ctx.on_nvidia)
    small = _E5M2 if isinstance(element, Float8E5M2Type) else _E4M3
    return _to_small(b, value, bits, small)


def _to_bf16(b: Builder, value: Value, bits: Value, never_carries: bool) -> Value:
    """Round to the nearest bf16, ties to even; NaN stays NaN.

    `never_carries`: the low half of every NaN is zero, so rounding preserves it. This holds for arithmetic on
    bf16 values on CPUs, whose result is an operand's NaN or the default NaN.
    """
    c = lambda v: constant(bits.type, v)  # noqa: E731
    odd = b.icmp_unsigned("!=", b.and_(bits, c(0x10000)), c(0))
    chosen = b.add(bits, b.select(odd, c(0x8000), c(0x7FFF)))
    if not never_carries:
        quiet = b.or_(bits, c(0x400000))
        chosen = b.select(b.fcmp_unordered("uno", value, value), quiet, chosen)
    return b.trunc(b.lshr(chosen, c(16)), like(bits.type, I16))


def _to_small(b: Builder, value: Value, bits: Value, f: _Small) -> Value:
    c = lambda v: constant(bits.type, v)  # noqa: E731
    shift = 23 - f.mantissa
    magnitude = b.and_(bits, c(0x7FFFFFFF))
    sign = b.and_(b.lshr(bits, c(24)), c(0x80))
    odd = b.and_(b.lshr(magnitude, c(shift)), c(1))
    normal = b.lshr(b.add(b.add(magnitude, c((1 << (shift - 1)) - 1)), odd), c(shift))
    normal = b.sub(normal, c((127 - f.bias) << f.mantissa))
    # adding 2^23 times the weight of the last subnormal bit rounds at that bit, ties to even
    magic = (127 - f.bias + shift + 1) << 23
    magic_float = b.bitcast(c(magic), value.type)
    summed = b.fadd(b.bitcast(magnitude, value.type), magic_float)
    subnormal = b.sub(b.bitcast(summed, bits.type), c(magic))
    is_small = b.icmp_unsigned("<", magnitude, c((128 - f.bias) << 23))
    code = b.select(is_small, subnormal, normal)
    code = b.select(b.icmp_signed(">", code, c(f.largest)), c(f.largest), code)
    code = b.select(b.icmp_unsigned(">", magnitude, c(0x7F800000)), c(f.nan), code)
    return b.trunc(b.or_(code, sign), like(bits.type, I8))


def _round_to_odd(b: Builder, value: Value, ctx: MathContext) -> Value:
    """Convert fp64 to fp32 with round-to-odd, so that a further narrowing rounds as if from fp64."""
    single = b.fptrunc(value, like(value.type, F32))
    back = b.fpext(single, value.type)
    bits = b.bitcast(single, like(value.type, I32))
    exceeds = b.fcmp_ordered(">", ctx.intrinsic(b, "fabs", back), ctx.intrinsic(b, "fabs", value))
    inexact = b.fcmp_ordered("!=", back, value)
    lower = b.sub(bits, b.zext(exceeds, bits.type))
    return b.bitcast(b.or_(lower, b.zext(inexact, bits.type)), single.type)


def float_cast(
    b: Builder, value: Value, source: Attribute, result: Attribute, ctx: MathContext
) -> Value:
    """Convert between any two floating-point types, rounding to nearest."""
    a, r = scalar_kind(source), scalar_kind(result)
    if a == r:
        return value
    if isinstance(a, Float64Type):
        if isinstance(r, Float32Type):
            return b.fptrunc(value, like(value.type, F32))
        return from_f32(b, _round_to_odd(b, value, ctx), result, ctx)
    single = to_f32(b, value, source)
    if isinstance(r, Float64Type):
        return b.fpext(single, like(value.type, F64))
    return from_f32(b, single, result, ctx)


def float_cast_towards_zero(
    b: Builder, value: Value, source: Attribute, result: Attribute, ctx: MathContext
) -> Value:
    """Narrow with rounding toward zero: the nearest value, decremented in magnitude if it exceeds the source."""
    near = float_cast(b, value, source, result, ctx)
    back = float_cast(b, near, result, source, ctx)
    wide = back if not is_narrow(source) else to_f32(b, back, source)
    original = value if not is_narrow(source) else to_f32(b, value, source)
    size = ctx.intrinsic(b, "fabs", original)
    exceeds = b.fcmp_ordered(">", ctx.intrinsic(b, "fabs", wide), size)
    register = near.type
    width = {"half": 16, "float": 32}.get(str(llvm_type(scalar_kind(result))), 0)
    bits_type = like(register, ir.IntType(width)) if width else register
    bits = b.bitcast(near, bits_type) if width else near
    stepped = b.sub(bits, b.zext(exceeds, bits_type))
    return b.bitcast(stepped, register) if width else stepped


def int_to_float(
    b: Builder, value: Value, source: Attribute, result: Attribute, signed: bool, ctx: MathContext
) -> Value:
    """Convert an integer to any floating-point type; narrow results are rounded once."""
    convert = b.sitofp if signed else b.uitofp
    element = scalar_kind(result)
    if isinstance(element, Float32Type | Float64Type):
        return convert(value, llvm_type(result))
    width = scalar_kind(source)
    if isinstance(width, IntegerType) and width.width.data <= 16:
        return from_f32(b, convert(value, like(value.type, F32)), result, ctx)
    if ctx.on_nvidia:
        if isinstance(element, Float16Type):
            return convert(value, like(value.type, F16))
        return from_f32(b, _int_to_odd(b, value, signed), result, ctx)
    if isinstance(width, IntegerType) and width.width.data == 64:
        value = _sticky(b, value, signed)
    double = convert(value, like(value.type, F64))
    return from_f32(b, _round_to_odd(b, double, ctx), result, ctx)


def _int_to_odd(b: Builder, value: Value, signed: bool) -> Value:
    """Convert an integer of 32 or 64 bits to fp32 with round-to-odd, from fp32 that is rounded toward zero."""
    name = f"{'' if signed else 'u'}{'i' if value.type == I32 else 'll'}2f"
    down = call(b, f"llvm.nvvm.{name}.rz", F32, value)
    back = b.fptosi(down, value.type) if signed else b.fptoui(down, value.type)
    inexact = b.icmp_unsigned("!=", back, value)
    return b.bitcast(b.or_(b.bitcast(down, I32), b.zext(inexact, I32)), F32)


def _sticky(b: Builder, value: Value, signed: bool) -> Value:
    """Return 64-bit integers that fp64 represents exactly and that round to 8 or 11 bits like `value`. In large
    values bit 11 is a sticky bit: whether any of the 12 lowest bits is set."""
    c = lambda v: constant(value.type, v)  # noqa: E731
    some = b.icmp_unsigned("!=", b.and_(value, c(0xFFF)), c(0))
    kept = b.or_(b.and_(value, c(-4096)), b.shl(b.zext(some, value.type), c(11)))
    shifted = b.add(value, c(1 << 53)) if signed else value
    is_small = b.icmp_unsigned("<=", shifted, c(1 << (54 if signed else 53)))
    return b.select(is_small, value, kept)


def float_to_int(
    b: Builder, value: Value, source: Attribute, result: Attribute, signed: bool
) -> Value:
    """Convert to an integer, rounding toward zero; out-of-range values give an unspecified integer."""
    wide = to_f32(b, value, source) if is_narrow(source) else value
    target = llvm_type(result)
    bits = scalar_kind(result)
    if isinstance(bits, IntegerType) and bits.width.data < 32:
        # the conversion instruction yields 32 bits; narrower integers are its low bits
        wide = b.fptosi(wide, like(target, I32))
        return b.trunc(wide, target)
    return b.fptosi(wide, target) if signed else b.fptoui(wide, target)
