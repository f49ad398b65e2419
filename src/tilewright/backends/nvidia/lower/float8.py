"""Lower conversions from and to 8-bit floats to `cvt.rn.f16x2.{e5m2,e4m3}x2` and
`cvt.rn.satfinite.{e5m2,e4m3}x2.f32`, two elements per instruction.

Every 8-bit float is an fp16, too. The instruction saturates on overflow; the language overflows to infinity (e5m2) or NaN (e4m3fn), like `ml_dtypes`
(the software conversion in `backends/llvm/casts.py` needs a dozen integer instructions). Overflow is rare and shows
as the largest finite code or above: one check for many elements branches to a path that corrects them. What is
clamped to constants before needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type, f32
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.backends.llvm.blocks import conditional
from tilewright.backends.llvm.casts import from_f32, to_f32
from tilewright.backends.llvm.types import Value
from tilewright.dialects import gpu, tile
from tilewright.layouts.quads import words_of
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.targets import Feature

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

I8, I16, I32, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()


_AT_ONCE, _OF_MANY = 16, 4
"""Words per check, of tiles with as many and with more words: until then both source and rounded values are live."""
_NOT_SMALL = 0x40404040
"""The exponent's highest bit in each code of a word: magnitudes of 2.0 and above."""


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
    checks = not _is_clamped(op.input, form)
    parts = [to_f32(gen.builder, part, source) for part in gen.parts(op.input)]
    layout, result = gpu.layout_of(op.result), list[Value](parts)
    words = words_of(layout, 4) if layout is not None else [[0]]
    at_once = _AT_ONCE if len(words) <= _AT_ONCE else _OF_MANY
    for start in range(0, len(words), at_once):
        chosen = words[start : start + at_once]
        given = [[parts[i] for i in word] for word in chosen]
        rounded = _rounded(gen, given, form) if checks else [_word(gen, p, form) for p in given]
        for registers, word in zip(chosen, rounded, strict=True):
            for i, register in enumerate(registers):
                result[register] = _byte(gen.builder, word, i)
    gen.bind(op.result, result)


def _is_clamped(value: SSAValue, form: _Format) -> bool:
    """Whether a value is a number between two constants that do not overflow (`tl.clamp` to the largest numbers)."""
    for names in (("arith.minnumf", "arith.maxnumf"), ("arith.maxnumf", "arith.minnumf")):
        inner = value
        for name in names:
            owner = inner.owner
            if not isinstance(owner, Operation) or owner.name != name:
                break
            bounds = [(v, uniform_constant(v)) for v in owner.operands]
            known = [(v, c) for v, c in bounds if c is not None and abs(c) < form.limit]
            if len(known) != 1:
                break
            inner = next(v for v in owner.operands if v is not known[0][0])
        else:
            return True
    return False


def lower_extf(gen: KernelCodegen, op: arith.ExtFOp) -> None:
    """Convert two elements at a time to fp16, and those to wider floats."""
    form, wide = _FORMATS.get(type(tile.element_of(op.input))), tile.element_of(op.result)
    known = wide == f32 or isinstance(wide, Float16Type | BFloat16Type)
    if form is None or not known or not gen.target.has(Feature.FLOAT8_CONVERSIONS):
        gen.elementwise(op)
        return
    layout, parts = gpu.layout_of(op.result), gen.parts(op.input)
    result = list[Value](parts)
    for registers in words_of(layout, 2) if layout is not None else [[0]]:
        for register, half in zip(registers, _halves(gen, parts, registers, form), strict=False):
            result[register] = half if isinstance(wide, Float16Type) else _wider(gen, half, wide)
    gen.bind(op.result, result)


def _halves(
    gen: KernelCodegen, parts: list[Value], registers: list[int], form: _Format
) -> list[Value]:
    """Up to two elements as fp16."""
    b = gen.builder
    pair: Value = ir.Constant(I16, 0)
    for i, register in enumerate(registers):
        pair = b.or_(pair, b.shl(b.zext(parts[register], I16), ir.Constant(I16, 8 * i)))
    kind = ir.FunctionType(I32, [I16])
    text = f"cvt.rn.f16x2.{form.name}x2 $0, $1;"
    word = b.asm(kind, text, "=r,h", [pair], side_effect=False)
    halves = b.bitcast(word, ir.VectorType(ir.HalfType(), 2))
    return [b.extract_element(halves, ir.Constant(I32, i)) for i in range(2)]


def _wider(gen: KernelCodegen, half: Value, kind: Attribute) -> Value:
    single = gen.builder.fpext(half, F32)
    return single if kind == f32 else from_f32(gen.builder, single, kind, gen.math)


def _rounded(gen: KernelCodegen, parts: list[list[Value]], form: _Format) -> list[Value]:
    """Convert the elements of each word, with a common check for overflow in two steps: a test of one bit per element,
    which takes a third of an instruction per word, then an exact one and a cold path that corrects the words."""
    b = gen.builder
    words = [_word(gen, own, form) for own in parts]
    bits = reduce(b.or_, words)
    large = b.icmp_unsigned("!=", b.and_(bits, ir.Constant(I32, _NOT_SMALL)), ir.Constant(I32, 0))
    return conditional(b, large, lambda: _corrected(gen, words, parts, form), words, likely=False)


def _corrected(
    gen: KernelCodegen, words: list[Value], parts: list[list[Value]], form: _Format
) -> list[Value]:
    """Convert elements that overflowed exactly, if there are any."""
    b = gen.builder
    suspects: Value = ir.Constant(I32, 0)
    for word in words:  # codes of the largest finite value and above carry into the sign bit
        magnitude = b.and_(word, ir.Constant(I32, 0x7F7F7F7F))
        carried = b.add(magnitude, ir.Constant(I32, (0x80 - form.largest) * 0x01010101))
        suspects = b.or_(suspects, carried)
    signs = b.and_(suspects, ir.Constant(I32, 0x80808080 - (1 << 32)))
    rare = b.icmp_unsigned("!=", signs, ir.Constant(I32, 0))

    def exact() -> list[Value]:
        return [
            _packed(gen, [_exact(gen, x, _byte(b, word, i), form) for i, x in enumerate(own)])
            for word, own in zip(words, parts, strict=True)
        ]

    return conditional(b, rare, exact, words, likely=False)


def _packed(gen: KernelCodegen, codes: list[Value]) -> Value:
    b, word = gen.builder, ir.Constant(I32, 0)
    for i, code in enumerate(codes):
        word = b.or_(word, b.shl(b.zext(code, I32), ir.Constant(I32, 8 * i)))
    return word


def _word(gen: KernelCodegen, parts: list[Value], form: _Format) -> Value:
    """Convert up to four elements to the bytes of one 32-bit word."""
    parts = [*parts, *[ir.Constant(F32, 0.0)] * (4 - len(parts))]
    kind = ir.FunctionType(I32, [F32] * 4)
    convert = f"cvt.rn.satfinite.{form.name}x2.f32"
    text = (
        f"{{ .reg .b16 low, high; {convert} low, $2, $1; {convert} high, $4, $3;"
        " mov.b32 $0, {low, high}; }"
    )
    return gen.builder.asm(kind, text, "=r,f,f,f,f", parts, side_effect=False)


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


HANDLERS: dict[type[Operation], Any] = {arith.TruncFOp: lower_truncf, arith.ExtFOp: lower_extf}
