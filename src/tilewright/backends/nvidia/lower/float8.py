"""Lower conversions to 8-bit floats to `cvt.rn.satfinite.{e5m2,e4m3}x2.f32`, two elements per instruction.

The instruction saturates on overflow; the language overflows to infinity (e5m2) or NaN (e4m3fn), like `ml_dtypes`
(the software conversion in `backends/llvm/casts.py` needs a dozen integer instructions). Overflow is rare and shows
as the largest finite code or above: one check for many elements branches to a path that corrects them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type, f32
from xdsl.ir import Attribute

from tilewright.backends.llvm.casts import to_f32
from tilewright.backends.llvm.types import Value
from tilewright.dialects import tile
from tilewright.targets import Feature

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

I8, I16, I32, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()


_AT_ONCE = 16
"""Elements per check. Until then both their source and rounded values are live."""


@dataclass(frozen=True)
class _Format:
    name: str
    largest: int
    """Code of the largest finite value; greater codes are infinity and NaN."""
    limit: float
    """Magnitudes above this overflow; with `ties`, this magnitude as well."""
    ties: bool
    overflow: int
    nan: int


_FORMATS: dict[type[Attribute], _Format] = {
    Float8E5M2Type: _Format("e5m2", 0x7B, 61440.0, True, 0x7C, 0x7E),
    Float8E4M3FNType: _Format("e4m3", 0x7E, 464.0, False, 0x7F, 0x7F),
}


def lower_truncf(gen: KernelCodegen, op: arith.TruncFOp) -> None:
    """Convert four elements at a time if the target has `cvt` to 8-bit floats, else one at a time."""
    source, form = tile.element_of(op.input), _FORMATS.get(type(tile.element_of(op.result)))
    known = source == f32 or isinstance(source, Float16Type | BFloat16Type)
    if form is None or not known or not gen.target.has(Feature.FLOAT8_CONVERSIONS):
        gen.elementwise(op)
        return
    parts = [to_f32(gen.builder, part, source) for part in gen.parts(op.input)]
    result: list[Value] = []
    for start in range(0, len(parts), _AT_ONCE):
        result += _rounded(gen, parts[start : start + _AT_ONCE], form)
    gen.bind(op.result, result)


def _rounded(gen: KernelCodegen, parts: list[Value], form: _Format) -> list[Value]:
    """Convert elements with one common overflow check and a cold correction path."""
    b = gen.builder
    words = [_word(gen, parts[i : i + 4], form) for i in range(0, len(parts), 4)]
    suspects: Value = ir.Constant(I32, 0)
    for word in words:  # codes of the largest finite value and above carry into the sign bit
        magnitude = b.and_(word, ir.Constant(I32, 0x7F7F7F7F))
        carried = b.add(magnitude, ir.Constant(I32, (0x80 - form.largest) * 0x01010101))
        suspects = b.or_(suspects, carried)
    signs = b.and_(suspects, ir.Constant(I32, 0x80808080 - (1 << 32)))
    rare = b.icmp_unsigned("!=", signs, ir.Constant(I32, 0))
    before = b.block
    with b.if_then(rare, likely=False):
        exact = [
            _joined(gen, [_exact(gen, x, _byte(b, word, i), form) for i, x in enumerate(own)])
            for word, own in zip(
                words, (parts[i : i + 4] for i in range(0, len(parts), 4)), strict=True
            )
        ]
        inside = b.block
    result = []
    for fast, slow in zip(words, exact, strict=True):
        word = b.phi(I32)
        word.add_incoming(fast, before)
        word.add_incoming(slow, inside)
        result.append(word)
    return [_byte(b, word, i) for word in result for i in range(4)][: len(parts)]


def _joined(gen: KernelCodegen, codes: list[Value]) -> Value:
    b, word = gen.builder, ir.Constant(I32, 0)
    for i, code in enumerate(codes):
        word = b.or_(word, b.shl(b.zext(code, I32), ir.Constant(I32, 8 * i)))
    return word


def _word(gen: KernelCodegen, parts: list[Value], form: _Format) -> Value:
    """Convert up to four elements to the bytes of one 32-bit word."""
    b = gen.builder
    zero = ir.Constant(F32, 0.0)
    parts = [*parts, *[zero] * (4 - len(parts))]
    halves = []
    for low, high in ((parts[0], parts[1]), (parts[2], parts[3])):
        kind = ir.FunctionType(I16, [F32, F32])
        text = f"cvt.rn.satfinite.{form.name}x2.f32 $0, $1, $2;"
        halves.append(b.zext(b.asm(kind, text, "=h,f,f", [high, low], side_effect=False), I32))
    return b.or_(halves[0], b.shl(halves[1], ir.Constant(I32, 16)))


def _byte(b: Value, word: Value, number: int) -> Value:
    moved = b.lshr(word, ir.Constant(I32, 8 * number)) if number else word
    return b.trunc(moved, I8)


def _exact(gen: KernelCodegen, value: Value, byte: Value, form: _Format) -> Value:
    """Return the exact code of an element that may have overflowed or be NaN."""
    b = gen.builder
    bits = b.bitcast(value, I32)
    magnitude = b.bitcast(b.and_(bits, ir.Constant(I32, 0x7FFFFFFF)), F32)
    limit = ir.Constant(F32, form.limit)
    sign = b.and_(b.lshr(bits, ir.Constant(I32, 24)), ir.Constant(I32, 0x80))
    over = b.fcmp_unordered(">=" if form.ties else ">", magnitude, limit)
    is_nan = b.fcmp_unordered("uno", value, value)
    code = b.select(is_nan, ir.Constant(I32, form.nan), ir.Constant(I32, form.overflow))
    return b.select(over, b.trunc(b.or_(code, sign), I8), byte)
