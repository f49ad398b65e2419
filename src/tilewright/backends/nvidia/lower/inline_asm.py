"""Lower `tl.inline_asm_elementwise`: the author's PTX, once per `pack` registers of a tile."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.types import I32, Value, elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.vector_access import joined, register, storage
from tilewright.dialects import tile

_TYPES: dict[str, Any] = {
    "b": ir.IntType(1), "h": ir.IntType(16), "r": I32, "l": ir.IntType(64), "f": ir.FloatType(),
    "d": ir.DoubleType(),
}  # fmt: skip


def lower_inline_asm(gen: KernelCodegen, op: tile.InlineAsmOp) -> None:
    """Registers in groups of `pack`; the last group is filled up with what is at hand."""
    pack: int = op.pack.value.data
    outputs, inputs = _letters(op.constraints.data)
    first = op.outputs[0] if op.outputs else None
    layout = gen.layout(first) if first is not None and tile.is_tile(first) else None
    distinct = [0] if layout is None else sorted(set(layout.register_of.values()))
    results: list[dict[int, Value]] = [{} for _ in op.outputs]
    for start in range(0, len(distinct), pack):
        group = distinct[start : start + pack]
        group += group[-1:] * (pack - len(group))
        words: list[Value] = []
        for argument in op.arguments:
            parts, element = gen.parts(argument), tile.element_of(argument)
            values = [storage(gen, parts[r], element) for r in group]
            words += [joined(chunk, gen.builder) for chunk in _chunks(values)]
        words = [_as(gen, w, _TYPES[letter]) for w, letter in zip(words, inputs, strict=True)]
        made = _call(gen, op, words, [_TYPES[letter] for letter in outputs])
        for i, result in enumerate(op.outputs):
            element = tile.element_of(result)
            bits = ir.IntType(8 * tile.element_bytes(element))
            each = len(_chunks([None] * pack, bits.width)[0])
            for at in range(0, pack, each):
                values = _split(gen, made.pop(0), bits, each)
                for r, value in zip(group[at : at + each], values, strict=True):
                    results[i].setdefault(r, register(gen, value, element))
    for result, found in zip(op.outputs, results, strict=True):
        if layout is None:
            gen.bind(result, [found[0]])
        else:
            gen.bind(result, [found[layout.register_of[o]] for o in layout.register_offsets])


def _letters(constraints: str) -> tuple[list[str], list[str]]:
    """The register letters of results and of arguments; a tied argument has its result's."""
    parts = [p.strip() for p in constraints.split(",") if not p.strip().startswith("~{")]
    outputs = [p.lstrip("=&") for p in parts if p.startswith("=")]
    inputs = [outputs[int(p)] if p.isdigit() else p for p in parts if p and not p.startswith("=")]
    return outputs, inputs


def _chunks(values: list[Any], width: int = 0) -> list[list[Any]]:
    """Values that share a register: as many as fit into 32 bits."""
    each = max(1, 32 // (width or values[0].type.width))
    return [values[i : i + each] for i in range(0, len(values), each)]


def _split(gen: KernelCodegen, value: Value, kind: ir.IntType, count: int) -> list[Value]:
    """The other way round, from a register of any kind."""
    b, width = gen.builder, kind.width * count
    bits = _as(gen, value, ir.IntType(_width(value.type)))
    if bits.type.width > width:
        bits = b.trunc(bits, ir.IntType(width))
    elif bits.type.width < width:  # a predicate
        bits = b.zext(bits, ir.IntType(width))
    return [*elements(b, b.bitcast(bits, ir.VectorType(kind, count)) if count > 1 else bits)]


def _width(kind: ir.Type) -> int:
    if isinstance(kind, ir.IntType):
        return kind.width
    return 64 if isinstance(kind, ir.DoubleType) else 32


def _as(gen: KernelCodegen, value: Value, kind: Any) -> Value:
    """The bits of a value in a register of a kind at least as wide (predicates: the lowest bit)."""
    b, wanted = gen.builder, _width(kind)
    if value.type == kind:
        return value
    if not isinstance(value.type, ir.IntType):
        value = b.bitcast(value, ir.IntType(_width(value.type)))
    if value.type.width < wanted:
        value = b.zext(value, ir.IntType(wanted))
    elif value.type.width > wanted:
        value = b.trunc(value, ir.IntType(wanted))
    return value if value.type == kind else b.bitcast(value, kind)


def _call(
    gen: KernelCodegen, op: tile.InlineAsmOp, words: list[Value], kinds: list[Any]
) -> list[Value]:
    """One instance of the text: its results' registers."""
    b = gen.builder
    several = len(kinds) > 1
    result: Any = ir.LiteralStructType(kinds) if several else (kinds or [ir.VoidType()])[0]
    kind = ir.FunctionType(result, [w.type for w in words])
    pure = bool(op.pure.value.data)
    constraints = op.constraints.data.replace(" ", "")
    made = b.asm(kind, op.asm.data, constraints, words, side_effect=not pure)
    return (
        [b.extract_value(made, i) for i in range(len(kinds))] if several else [made][: len(kinds)]
    )
