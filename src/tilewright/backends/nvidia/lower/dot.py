"""`tile.dot` on tensor cores (`mma.sync`), or multiply-add by multiply-add from shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import f16
from xdsl.ir import Attribute

from tilewright.backends.llvm import casts
from tilewright.backends.llvm.blocks import counted_loop
from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import I8, I32, Value, llvm_type
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.fragments import fragments_of
from tilewright.backends.nvidia.lower.scratch_tiles import (
    SharedTile,
    element_pointer,
    store_to_shared,
)
from tilewright.backends.nvidia.lower.vector_access import joined, register, storage, unpack
from tilewright.dialects import tile
from tilewright.errors import PassError
from tilewright.ir.location import location_of
from tilewright.layouts import Layout
from tilewright.layouts.fragments import INSTRUCTIONS
from tilewright.layouts.layout import Vector
from tilewright.passes.gpu.select_mma import instruction_of
from tilewright.targets import Feature, MmaInstruction
from tilewright.targets.instructions import PAIRS

_FLOAT8 = ("e4m3", "e5m2")
_MOST_STEPS = 16
"""Elements of k whose operands are read at once."""
_FMAS_AT_ONCE = 128
"""Multiply-adds of a thread whose operands are read at once: more of them take too many registers."""


def lower_dot(gen: KernelCodegen, op: tile.DotOp) -> None:
    name = instruction_of(op)
    if name == "fma":
        _lower_fma(gen, op)
    elif name in INSTRUCTIONS:
        _lower_mma(gen, op, INSTRUCTIONS[name])
    else:
        raise PassError(
            f"{name} reads its operands from shared memory, and none was given to it",
            help="run promote-shared after select-mma, or select-mma{wgmma=false}",
            location=location_of(op),
        )


# ---- tensor cores -------------------------------------------------------------------------------------


def _lower_mma(gen: KernelCodegen, op: tile.DotOp, instruction: MmaInstruction) -> None:
    """All MMAs of one step of k, then the next: neighbours in time are independent. What has to
    be read from memory is read a step ahead."""
    left = fragments_of(gen, op.lhs, instruction, rows=True)
    right = fragments_of(gen, op.rhs, instruction, rows=False)
    layout = gen.layout(op.result)
    parts = list(gen.parts(op.acc))
    half = str(tile.element_of(op.acc)) == "f16"
    corner = [(0, 0), (0, 1)] + [(8, 0), (8, 1)] * (instruction.m == 16)
    blocks = [
        (batch, m, n, [layout.register_of[*batch, m + i, n + j] for i, j in corner])
        for *batch, m, n in layout.register_offsets
        if not (n & 1 or (instruction.m == 16 and m & 8))
    ]
    steps = list(range(0, tile.shape_of(op.lhs)[-1], instruction.k))
    for i, k in enumerate(steps):
        for ahead in steps[i : i + 2]:
            for batch, m, n, _ in blocks:
                if left.in_memory:
                    left.at(batch, m, ahead)
                if right.in_memory:
                    right.at(batch, n, ahead)
        for batch, m, n, registers in blocks:
            accumulators = [parts[r] for r in registers]
            a, b = left.at(batch, m, k), right.at(batch, n, k)
            accumulators = _multiply(gen, instruction, a, b, accumulators, half)
            for r, value in zip(registers, accumulators, strict=True):
                parts[r] = value
    gen.bind(op.result, parts)


def _multiply(
    gen: KernelCodegen,
    instruction: MmaInstruction,
    a: list[Value],
    b: list[Value],
    accumulators: list[Value],
    half: bool,
) -> list[Value]:
    """One `mma.sync`: accumulators + a @ b."""
    shape, kind, *other = instruction.name.removesuffix(PAIRS).split(".")
    if kind == "f64":
        text = f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64"
        return _emit(gen, text, a, b, accumulators)
    if half:
        packed = [joined([storage(gen, v, f16) for v in accumulators[i : i + 2]], gen.builder)
                  for i in (0, 2)]  # fmt: skip
        text = f"mma.sync.aligned.{shape}.row.col.f16.f16.f16.f16"
        made = _emit(gen, text, a, b, packed)
        return unpack(gen, made, 2 * len(made), f16)
    if kind in _FLOAT8 and not gen.target.has(Feature.FLOAT8_MMA_SYNC):
        return _multiply_as_half(gen, (kind, (*other, kind)[0]), a, b, accumulators)
    acc = "s32" if kind in ("s8", "u8") else "f32"
    text = f"mma.sync.aligned.{shape}.row.col.{acc}.{kind}.{(*other, kind)[0]}.{acc}"
    return _emit(gen, text, a, b, accumulators)


def _multiply_as_half(
    gen: KernelCodegen,
    kinds: tuple[str, str],
    a: list[Value],
    b: list[Value],
    accumulators: list[Value],
) -> list[Value]:
    """An MMA of 8-bit floats as two of fp16 (exact): the first of the lower halves of all registers, whose elements
    are the same of k in both operands, the second of the upper halves."""
    pairs = [
        [[_half_of_word(gen, word, kind, part) for word in words] for part in range(2)]
        for kind, words in zip(kinds, (a, b), strict=True)
    ]
    for left, right in zip(*pairs, strict=True):
        text = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
        accumulators = _emit(gen, text, left, right, accumulators)
    return accumulators


def _half_of_word(gen: KernelCodegen, word: Value, kind: str, part: int) -> Value:
    """Two of the four 8-bit floats of a register as fp16; once in a basic block."""
    key = word, gen.builder.block, part
    if key not in gen.rounded:
        text = f"{{ .reg .b16 h<2>; mov.b32 {{h0, h1}}, $1; cvt.rn.f16x2.{kind}x2 $0, h{part}; }}"
        gen.rounded[key] = inline_ptx(gen.builder, text, [word], I32)
    return gen.rounded[key]


def _emit(
    gen: KernelCodegen, text: str, a: list[Value], b: list[Value], c: list[Value]
) -> list[Value]:
    listed, at = [], 0
    for operand in (c, a, b):
        listed.append("{" + ", ".join(f"${at + i}" for i in range(len(operand))) + "}")
        at += len(operand)
    text = f"{text} {', '.join(listed)}, {listed[0]};"
    tied, kinds = range(at - len(c), at), [v.type for v in c]
    return gen.emit_convergent_asm(text, [*a, *b, *c], kinds, memory=False, tied=tied)


# ---- without tensor cores -----------------------------------------------------------------------------------


def _lower_fma(gen: KernelCodegen, op: tile.DotOp) -> None:
    """Both operands in shared memory; a loop over k in which each thread updates its accumulators, some elements of k at a
    time: their reads do not wait for each other."""
    a, b_tile = store_to_shared(gen, op.lhs, op.rhs)
    gen.barrier()
    b = gen.builder
    layout, acc = gen.layout(op.result), tile.element_of(op.acc)
    accumulators = [_widened(gen, v, acc, acc) for v in gen.parts(op.acc)]
    extent = a.shape[-1]
    most = min(_MOST_STEPS, max(1, _FMAS_AT_ONCE // len(accumulators)))
    count = gcd(extent, 1 << most.bit_length() - 1)

    def steps(k: Value, values: list[Value]) -> list[Value]:
        operands = _Operands(gen, layout, (a, b_tile), acc, k)
        for step in range(count):
            values = _step(gen, operands, step, values)
        return values

    results = counted_loop(b, extent, count, steps, accumulators, I32)
    gen.bind(op.result, [_narrowed(gen, v, acc) for v in results])


def _step(
    gen: KernelCodegen, operands: _Operands, step: int, accumulators: list[Value]
) -> list[Value]:
    """Add the products at one element of k."""
    b, result = gen.builder, []
    loaded: dict[tuple[int, Vector], Value] = {}
    for r, total in enumerate(accumulators):
        x, y = (operands.read(r, which, step, loaded) for which in range(2))
        if isinstance(total.type, ir.IntType):
            result.append(b.add(total, b.mul(x, y)))
        else:
            result.append(gen.math.intrinsic(b, "fma", x, y, total))
    return result


@dataclass
class _Operands:
    """The tiles of a dot in shared memory, read from an element of k on. Addresses are one per thread and operand plus
    constants where the bits of a thread's coordinates and those of its registers are disjoint."""

    gen: KernelCodegen
    layout: Layout
    tiles: tuple[SharedTile, SharedTile]
    acc: Attribute
    k: Value
    bases: dict[tuple[int, int], Value] = field(default_factory=dict[tuple[int, int], Value])

    def read(
        self, register_: int, which: int, step: int, loaded: dict[tuple[int, Vector], Value]
    ) -> Value:
        """The element of the left or right operand for a register of the accumulators, `step` elements of k on."""
        gen, where = self.gen, self.tiles[which]
        *batch, m, n = self.layout.register_offsets[register_]
        line = (*batch, n if which else m)
        if (which, line) not in loaded:
            disjoint = self.layout.has_disjoint_bits
            first = self._pointer(0 if disjoint else register_, which)
            place = line if disjoint else (0,) * len(line)
            outer, at = place[:-1], place[-1]
            constant = where.flat((*outer, step, at) if which else (*outer, at, step))
            offset = ir.Constant(I32, constant * where.size)
            pointer = gen.builder.gep(first, [offset], source_etype=I8)
            bits = gen.builder.load(pointer, typ=ir.IntType(8 * where.size), align=where.size)
            value = register(gen, bits, where.element)
            loaded[which, line] = _widened(gen, value, where.element, self.acc)
        return loaded[which, line]

    def _pointer(self, register_: int, which: int) -> Value:
        """Where the line of a register's element begins, at the first element of k."""
        key = register_, which
        if key not in self.bases:
            gen, layout = self.gen, self.layout
            *batch, m, n = (
                gen.threads.element(gen.builder, layout, register_, d) for d in range(layout.rank)
            )
            place = [*batch, self.k, n] if which else [*batch, m, self.k]
            self.bases[key] = element_pointer(gen, self.tiles[which], place)
        return self.bases[key]


def _widened(gen: KernelCodegen, value: Value, element: Attribute, acc: Attribute) -> Value:
    """An operand as wide as the accumulators (at least single precision, 32-bit for integers)."""
    b, text = gen.builder, str(acc)
    if text == "f64":
        if str(element) == "f64":
            return value
        wide = value if str(element) == "f32" else casts.to_f32(b, value, element)
        return b.fpext(wide, ir.DoubleType())
    if text.startswith(("f", "bf")):
        if str(element) == "f64":
            return b.fptrunc(value, ir.FloatType())
        return value if str(element) == "f32" else casts.to_f32(b, value, element)
    kind: Any = llvm_type(acc)
    return b.sext(value, kind) if value.type.width < kind.width else value


def _narrowed(gen: KernelCodegen, value: Value, acc: Attribute) -> Value:
    if casts.is_narrow(acc):
        return casts.from_f32(gen.builder, value, acc, gen.math)
    return value
