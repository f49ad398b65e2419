"""Vector accesses: pack neighbors in memory into the 16- to 64-bit registers of one load or store."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir import instructions
from xdsl.ir import Attribute

from tilewright.backends.llvm.inline_ptx import inline_ptx, names
from tilewright.backends.llvm.types import I64, Value, as_vector, elements, llvm_type
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.dialects import tile
from tilewright.layouts.layout import Layout
from tilewright.passes.gpu.order_instructions import READ_ONLY

_EVICTIONS = ("evict_first", "evict_last", "no_allocate")
"""Eviction policies that have a qualifier."""


def _words(size: int, wide: bool = False) -> tuple[int, int]:
    """Number and bytes of the PTX registers that an access of `size` bytes uses (`wide`: of 8-byte
    elements)."""
    if size <= 4:
        return 1, size
    return (size // 8, 8) if wide or size == 8 else (size // 4, 4)


def _form(count: int, size: int) -> str:
    """The qualifiers of an access of `count` words of `size` bytes."""
    return f".v{count}.b{8 * size}" if count > 1 else f".b{8 * size}"


def _word_type(size: int) -> ir.IntType:
    return ir.IntType(max(16, 8 * size))


class Hints(NamedTuple):
    """How an access treats the caches: qualifiers of its PTX instruction and, for those of L2, a policy (i64)."""

    text: str
    policy: Value | None = None


def hints_of(gen: KernelCodegen, op: Any) -> Hints:
    """The cache modifier of an access, or its eviction policy in L1 and (PTX ISA 7.4: `createpolicy`) in L2."""
    cache = op.cache.data if op.cache is not None else ""
    eviction = op.eviction.data if op.eviction is not None else ""
    if cache:
        return Hints(f".{cache}")
    if eviction not in _EVICTIONS:
        return Hints("")
    if eviction == "no_allocate":
        return Hints(f".L1::{eviction}")
    text = f"createpolicy.fractional.L2::{eviction}.b64 $0, 1.0;"
    policy = gen.threads.at_start(
        ("createpolicy", eviction), lambda b: inline_ptx(b, text, (), I64)
    )
    return Hints(f".L1::{eviction}.L2::cache_hint", policy)


def load_vector(
    gen: KernelCodegen,
    address: Value,
    element: Attribute,
    number: int,
    live: Value | None,
    old: list[Value],
    hints: Hints,
) -> list[Value]:
    """`number` elements read at `address` where `live`, else those of the words `old`."""
    bytes_ = tile.element_bytes(element) * number
    count, size = _words(bytes_, tile.element_bytes(element) == 8)
    operands = [*(old if live is not None else []), address]
    where, guard = f"[${count + len(operands) - 1}]", ""
    if live is not None:
        guard = f"@${count + len(operands)} "
        operands.append(live)
    if hints.policy is not None:
        where += f", ${count + len(operands)}"
        operands.append(hints.policy)
    text = f"{guard}ld.global{hints.text}{_form(count, size)} {names(count)}, {where};"
    tied = range(count if live is not None else 0)
    words = gen.emit_asm(text, operands, [_word_type(size)] * count, tied=tied)
    if READ_ONLY in gen.current.attributes:
        gen.read_only.add(words[0] if count == 1 else words[0].aggregate)
    return unpack(gen, words, number, element)


def store_vector(
    gen: KernelCodegen,
    address: Value,
    values: list[Value],
    element: Attribute,
    live: Value | None,
    hints: Hints,
) -> None:
    """Write neighbours at `address` where `live`."""
    words = pack(gen, values, element)
    size = tile.element_bytes(element)
    count, size = _words(size * len(values), size == 8)
    data, operands, guard = names(count, 1), [address, *words], ""
    if live is not None:
        guard = f"@${len(operands)} "
        operands.append(live)
    if hints.policy is not None:
        data += f", ${len(operands)}"
        operands.append(hints.policy)
    gen.emit_asm(f"{guard}st.global{hints.text}{_form(count, size)} [$0], {data};", operands)


def pack(gen: KernelCodegen, values: list[Value], element: Attribute) -> list[Value]:
    """Registers of neighbours as the words of one access."""
    b = gen.builder
    stored = [storage(gen, v, element) for v in values]
    size = stored[0].type.width // 8
    count, word_size = _words(size * len(values), size == 8)
    each = len(values) // count
    words = []
    for i in range(count):
        value = joined(stored[i * each : (i + 1) * each], b)
        words.append(b.zext(value, _word_type(word_size)) if word_size == 1 else value)
    return words


def unpack(gen: KernelCodegen, words: list[Value], count: int, element: Attribute) -> list[Value]:
    """The words of one access as registers of neighbours."""
    b = gen.builder
    size = tile.element_bytes(element)
    each = count // len(words)
    values: list[Value] = []
    for word in words:
        if each == 1:
            narrow = word if word.type.width == 8 * size else b.trunc(word, ir.IntType(8 * size))
            values.append(register(gen, narrow, element))
            continue
        parts = elements(b, b.bitcast(word, ir.VectorType(ir.IntType(8 * size), each)))
        values += [register(gen, part, element) for part in parts]
    return values


def storage(gen: KernelCodegen, value: Value, element: Attribute) -> Value:
    """A register value as the integer of its bits in memory."""
    b, size = gen.builder, tile.element_bytes(element)
    kind = ir.IntType(8 * size)
    if isinstance(value.type, ir.PointerType):
        return b.ptrtoint(value, kind)
    if isinstance(value.type, ir.IntType):
        return b.zext(value, kind) if value.type.width < kind.width else value
    if isinstance(value.type, ir.FloatType) and type(getattr(value, "constant", None)) in (
        float,
        int,
    ):
        return ir.Constant(kind, struct.unpack("<I", struct.pack("<f", value.constant))[0])
    return b.bitcast(value, kind)


def register(gen: KernelCodegen, bits: Value, element: Attribute) -> Value:
    """The register value of bits from memory."""
    b, kind = gen.builder, llvm_type(element)
    if isinstance(kind, ir.PointerType):
        return b.inttoptr(bits, kind)
    if isinstance(kind, ir.IntType):
        if kind.width == 1:
            return b.icmp_unsigned("!=", bits, 0)
        return bits
    return b.bitcast(bits, kind)


def part_of(parts: list[Value], register_: int) -> Value:
    """The value in a register of a tile; scalars, and tiles of equal elements, have one."""
    return parts[register_] if len(parts) > 1 else parts[0]


def with_copies(layout: Layout, parts: list[Any]) -> list[Any]:
    """The registers of a tile: those that repeat an element (None in `parts`) get the value of the first."""
    for r, offset in enumerate(layout.register_offsets):
        if parts[r] is None:
            parts[r] = parts[layout.register_of[offset]]
    return parts


def joined(bits: list[Value], b: Value) -> Value:
    """Integers side by side in one, the first lowest. Constants are one constant, and the parts of an integer that has
    been taken apart are that integer: LLVM finds both, in four instructions for each part."""
    if len(bits) == 1:
        return bits[0]
    kind = bits[0].type
    whole = ir.IntType(kind.width * len(bits))
    if all(type(value) is ir.Constant for value in bits):
        return _joined_constants(bits, whole)
    parts = [_part(value) for value in bits]
    source = parts[0][0] if parts[0] is not None else None
    if source is not None and source.type == whole:
        at = [start for word, start in filter(None, parts) if word is source]
        if at == [i * kind.width for i in range(len(bits))]:
            return source
    return b.bitcast(as_vector(b, bits), whole)


def _joined_constants(bits: list[Value], whole: ir.IntType) -> Value:
    """Constants side by side in one; undefined ones are 0, unless all are undefined."""
    if all(value.constant is ir.Undefined for value in bits):
        return ir.Constant(whole, ir.Undefined)
    width, number = bits[0].type.width, 0
    for i, value in enumerate(bits):
        part = 0 if value.constant is ir.Undefined else int(value.constant or 0)
        number |= (part & ((1 << width) - 1)) << (i * width)
    return ir.Constant(whole, number)


def _part(value: Value) -> tuple[Value, int] | None:
    """The integer that an integer is part of, and at which bit; None if there is none."""
    width: int = value.type.width
    if isinstance(value, instructions.ExtractElement):
        vector, index = value.operands
        if isinstance(vector, instructions.CastInstr) and type(index) is ir.Constant:
            word = vector.operands[0]
            if isinstance(word.type, ir.IntType):
                return word, index.constant * width
    elif isinstance(value, instructions.CastInstr) and value.opname == "trunc":
        word = value.operands[0]
        if getattr(word, "opname", "") == "lshr" and type(word.operands[1]) is ir.Constant:
            return word.operands[0], word.operands[1].constant
        return word, 0
    return None
