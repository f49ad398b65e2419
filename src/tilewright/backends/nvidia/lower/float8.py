"""Lower conversions from and to 8-bit floats to `cvt.rn.f16x2.{e5m2,e4m3}x2` and
`cvt.rn.satfinite.{e5m2,e4m3}x2.{f32,f16x2}`, two elements per instruction.

Every 8-bit float is an fp16, too. The software conversion in `backends/llvm/casts.py` needs a dozen integer instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type, f32
from xdsl.ir import Attribute, Operation

from tilewright.backends.llvm.casts import from_f32, to_f32
from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import F32, I8, I16, I32, Value, as_vector, elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.dialects import gpu, tile
from tilewright.layouts.fragments import words_of
from tilewright.targets import Feature

_NAMES: dict[type[Attribute], str] = {Float8E5M2Type: "e5m2", Float8E4M3FNType: "e4m3"}


def _has_conversion(gen: KernelCodegen, wide: Attribute) -> bool:
    """Whether the target has `cvt` between 8-bit floats and `wide`, itself or by way of fp16."""
    known = wide == f32 or isinstance(wide, Float16Type | BFloat16Type)
    return known and gen.target.has(Feature.FLOAT8_CONVERSIONS)


def lower_truncf(gen: KernelCodegen, op: arith.TruncFOp) -> None:
    """Convert four elements at a time if the target has `cvt` to 8-bit floats, else one at a time."""
    source, name = tile.element_of(op.input), _NAMES.get(type(tile.element_of(op.result)))
    if name is None or not _has_conversion(gen, source):
        gen.elementwise(op)
        return
    halves = isinstance(source, Float16Type)
    parts = gen.parts(op.input)
    if not halves:
        parts = [to_f32(gen.builder, part, source) for part in parts]
    layout, result = gpu.layout_of(op.result), list[Value](parts)
    for registers in words_of(layout, 4) if layout is not None else [[0]]:
        four = [parts[i] for i in registers]
        word = _word_of_halves(gen, four, name) if halves else _word(gen, four, name)
        for i, register in enumerate(registers):
            result[register] = _byte(gen.builder, word, i)
    gen.bind(op.result, result)


def lower_extf(gen: KernelCodegen, op: arith.ExtFOp) -> None:
    """Convert two elements at a time to fp16, and those to wider floats."""
    name, wide = _NAMES.get(type(tile.element_of(op.input))), tile.element_of(op.result)
    if name is None or not _has_conversion(gen, wide):
        gen.elementwise(op)
        return
    layout, parts = gpu.layout_of(op.result), gen.parts(op.input)
    result = list[Value](parts)
    for registers in words_of(layout, 2) if layout is not None else [[0]]:
        for register, half in zip(registers, _halves(gen, parts, registers, name), strict=False):
            result[register] = half if isinstance(wide, Float16Type) else _wider(gen, half, wide)
    gen.bind(op.result, result)


def _halves(gen: KernelCodegen, parts: list[Value], registers: list[int], name: str) -> list[Value]:
    """Up to two elements as fp16."""
    b = gen.builder
    pair: Value = ir.Constant(I16, 0)
    for i, register in enumerate(registers):
        pair = b.or_(pair, b.shl(b.zext(parts[register], I16), 8 * i))
    word = inline_ptx(b, f"cvt.rn.f16x2.{name}x2 $0, $1;", [pair], I32)
    return [*elements(b, b.bitcast(word, ir.VectorType(ir.HalfType(), 2)))]


def _wider(gen: KernelCodegen, half: Value, kind: Attribute) -> Value:
    single = gen.builder.fpext(half, F32)
    return single if kind == f32 else from_f32(gen.builder, single, kind, gen.math)


def _word(gen: KernelCodegen, parts: list[Value], name: str) -> Value:
    """Convert up to four elements to the bytes of one 32-bit word."""
    parts = [*parts, *[ir.Constant(F32, 0.0)] * (4 - len(parts))]
    convert = f"cvt.rn.satfinite.{name}x2.f32"
    text = (
        f"{{ .reg .b16 low, high; {convert} low, $2, $1; {convert} high, $4, $3;"
        " mov.b32 $0, {low, high}; }"
    )
    return inline_ptx(gen.builder, text, parts, I32)


def _word_of_halves(gen: KernelCodegen, parts: list[Value], name: str) -> Value:
    """The same of fp16."""
    b = gen.builder
    parts = [*parts, *[ir.Constant(ir.HalfType(), 0.0)] * (4 - len(parts))]
    words = [b.bitcast(as_vector(b, two), I32) for two in (parts[:2], parts[2:])]
    convert = f"cvt.rn.satfinite.{name}x2.f16x2"
    text = f"{{ .reg .b16 low, high; {convert} low, $1; {convert} high, $2; mov.b32 $0, {{low, high}}; }}"
    return inline_ptx(b, text, words, I32)


def _byte(b: Value, word: Value, number: int) -> Value:
    moved = b.lshr(word, 8 * number) if number else word
    return b.trunc(moved, I8)


HANDLERS: dict[type[Operation], Any] = {arith.TruncFOp: lower_truncf, arith.ExtFOp: lower_extf}
