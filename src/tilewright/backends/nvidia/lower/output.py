"""Assertions (a record in host memory, or the driver's `__assertfail`) and prints (its `vprintf`)."""

from __future__ import annotations

from llvmlite import ir
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from tilewright.backends.base import AssertSite
from tilewright.backends.llvm import casts
from tilewright.backends.llvm.blocks import where
from tilewright.backends.llvm.types import I1, I8, I32, I64, POINTER, Value, call, constant_bytes
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.vector_access import part_of
from tilewright.dialects import tile
from tilewright.ir.location import source_location
from tilewright.layouts import Layout

ASSERT_TRAPS = "gpu.assert_traps"
"""Attribute of functions whose failed assertions end the kernel."""


def traps(function: Operation) -> bool:
    """Whether failed assertions end the kernel (`ASSERT_TRAPS`)."""
    return ASSERT_TRAPS in function.attributes


def lower_assert(gen: KernelCodegen, op: tile.AssertOp) -> None:
    """The first failing thread claims the record `{i64 state, i64 program, i64 site}`, and all go on; or all that
    fail call `__assertfail`, which does not return."""
    b = gen.builder
    site = len(gen.asserts)
    where = source_location(op.location)
    at = (where.file, where.line, where.column) if where is not None else ("", 0, 0)
    good: Value = ir.Constant(I1, 1)
    for part in gen.parts(op.condition):
        good = b.and_(good, part)
    if not gen.records_asserts:
        with b.if_then(b.not_(good), likely=False):
            texts = [_string(gen, t) for t in (_text(op.message), at[0], gen.function.name)]
            given = [*texts[:2], ir.Constant(I32, at[1]), texts[2], ir.Constant(I64, 1)]
            call(b, "__assertfail", ir.VoidType(), *given)
        return
    gen.asserts.append(AssertSite(_text(op.message), *at))
    with b.if_then(b.not_(good), likely=False):
        state = b.ptrtoint(gen.fault, I64)
        text = "atom.relaxed.sys.global.cas.b64 $0, [$1], $2, $3;"
        found = gen.emit_asm(text, [state, *(ir.Constant(I64, n) for n in (0, 1))], I64)
        with b.if_then(b.icmp_unsigned("==", found, 0)):
            for offset, value in ((1, _program(gen)), (2, ir.Constant(I64, site))):
                slot = b.gep(gen.fault, [ir.Constant(I64, offset)], source_etype=I64)
                b.store(value, slot, align=8)


def _text(attribute: Attribute) -> str:
    return attribute.data if isinstance(attribute, StringAttr) else str(attribute)


def _program(gen: KernelCodegen) -> Value:
    """Linear index of the program, x fastest."""
    b = gen.builder
    x, y, z = (b.zext(gen.threads.program(d), I64) for d in "xyz")
    nx, ny = (b.zext(gen.threads.programs(d), I64) for d in "xy")
    return b.add(x, b.mul(nx, b.add(y, b.mul(ny, z))))


def lower_print(gen: KernelCodegen, op: tile.PrintOp) -> None:
    """One line an element: program ids, coordinates, prefix, values."""
    gen.prints = True
    tiles = [v for v in op.arguments if tile.is_tile(v)]
    layout = gen.layout(tiles[0]) if tiles else None
    count = layout.registers_per_thread if layout is not None else 1
    first = gen.first_holder(tiles[0]) if tiles else gen.is_first_thread()
    for r in range(count):
        if layout is not None and layout.register_of[layout.register_offsets[r]] != r:
            continue
        with where(gen.builder, first):
            _print_register(gen, op, r, layout)


def _print_register(gen: KernelCodegen, op: tile.PrintOp, r: int, layout: Layout | None) -> None:
    b = gen.builder
    values: list[Value] = [gen.threads.program(d) for d in "xyz"]
    text = "pid (%d, %d, %d) "
    if layout is not None:
        values += [gen.threads.element(b, layout, r, d) for d in range(layout.rank)]
        text += f"idx ({', '.join(['%d'] * layout.rank)}) "
    text += _text(op.prefix).replace("%", "%%")
    hexadecimal = bool(op.hex.value.data)
    for argument, signed in zip(op.arguments, op.signed.get_values(), strict=True):
        part = part_of(gen.parts(argument), r)
        value, code = _printable(gen, part, argument.type, bool(signed), hexadecimal)
        values.append(value)
        text += f" {code}"
    _printf(gen, text + "\n", values)


def _printable(
    gen: KernelCodegen, value: Value, kind: Attribute, signed: bool, hexadecimal: bool
) -> tuple[Value, str]:
    """A value as `printf` takes it, and its conversion."""
    b, element = gen.builder, tile.element_of(kind)
    if isinstance(value.type, ir.PointerType):
        return b.ptrtoint(value, I64), "0x%llx"
    if str(element).startswith(("f", "bf")):
        if casts.is_narrow(element):
            value = casts.to_f32(b, value, element)
        return (value if str(element) == "f64" else b.fpext(value, ir.DoubleType())), "%g"
    width = value.type.width
    if width < 32:
        extend = b.sext if signed and width > 1 and not hexadecimal else b.zext
        value = extend(value, I32)
    long = "ll" if width == 64 else ""
    if hexadecimal:
        return value, f"0x%0{max(2, width // 4)}{long}x"
    return value, f"%{long}{'d' if signed else 'u'}"


def _printf(gen: KernelCodegen, text: str, values: list[Value]) -> None:
    """Call the driver's `vprintf`, whose arguments lie one after another, each aligned to its size."""
    b = gen.builder
    string = _string(gen, text)
    offsets, end = [], 0
    for value in values:
        size = 8 if value.type in (I64, ir.DoubleType()) else 4
        start = -(-end // size) * size
        offsets.append(start)
        end = start + size
    space = gen.threads.local(ir.ArrayType(I64, -(-end // 8)))
    for value, offset in zip(values, offsets, strict=True):
        slot = b.gep(space, [offset], source_etype=I8)
        b.store(value, slot, align=4)
    call(b, "vprintf", I32, string, space)


def _string(gen: KernelCodegen, text: str) -> Value:
    """The address of a constant string."""
    string = constant_bytes(gen.module, "format", text.encode() + b"\0")
    string.type = POINTER
    return string
