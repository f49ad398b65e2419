"""Lower assertions, which write a fault record for the host, and prints, which call C's printf."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import IntegerType, f32, f64
from xdsl.ir import Attribute

from tilewright.backends.cpu.lower import KernelCodegen
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.types import I32, I64, POINTER, Value, constant_bytes
from tilewright.dialects import cpu, tile

FREE, TAKEN, BUSY = 0, 1, 2


def lower_fault_if(gen: KernelCodegen, op: cpu.FaultIfOp) -> None:
    """Record a failed assertion; the kernel goes on."""
    b = gen.builder
    fault = gen.function.append_basic_block("fault")
    after = gen.function.append_basic_block("passed")
    b.cbranch(gen.scalar(op.condition), fault, after)
    b.position_at_end(fault)
    slot = b.gep(gen.thread, [ir.Constant(I64, 2)], source_etype=I64)
    record = b.load(slot, typ=POINTER)
    site = ir.Constant(I64, op.site.value.data)
    b.call(record_fault(gen.module), [record, gen.scalar(op.program), site])
    b.branch(after)
    b.position_at_end(after)


def record_fault(module: ir.Module) -> ir.Function:
    """`void (ptr record, i64 program, i64 site)`: keep the fault of the lowest program."""
    name = "tilewright.record_fault"
    if name in module.globals:
        return module.globals[name]
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, I64, I64]), name)
    fn.linkage = "internal"
    fn.attributes.add("cold")
    record, program, site = fn.args
    entry, lock, check, write, unlock = (
        fn.append_basic_block(n) for n in ("entry", "lock", "check", "write", "unlock")
    )
    b = ir.IRBuilder(entry)
    b.branch(lock)
    b.position_at_end(lock)
    old = b.atomic_rmw("xchg", record, ir.Constant(I64, BUSY), "acq_rel")
    b.cbranch(b.icmp_unsigned("==", old, ir.Constant(I64, BUSY)), lock, check)
    b.position_at_end(check)
    holder = b.gep(record, [ir.Constant(I64, 1)], source_etype=I64)
    free = b.icmp_unsigned("==", old, ir.Constant(I64, FREE))
    earlier = b.icmp_signed("<", program, b.load(holder, typ=I64))
    b.cbranch(b.or_(free, earlier), write, unlock)
    b.position_at_end(write)
    b.store(program, holder)
    b.store(site, b.gep(record, [ir.Constant(I64, 2)], source_etype=I64))
    b.branch(unlock)
    b.position_at_end(unlock)
    b.atomic_rmw("xchg", record, ir.Constant(I64, TAKEN), "release")
    b.ret_void()
    return fn


def _text(module: ir.Module, text: str) -> Value:
    return constant_bytes(module, "text", text.encode() + b"\0")


def _count(op: tile.PrintOp) -> int:
    """How many operands after the program ids are lane coordinates."""
    attribute: Any = op.attributes["coordinates"]
    return attribute.value.data


def lower_print(gen: KernelCodegen, op: tile.PrintOp) -> None:
    """One line a value: `pid (x, y, z) idx (i, j) prefix: value`, through C's printf."""
    b, module = gen.builder, gen.module
    printf = module.globals.get("printf")
    if printf is None:
        printf = ir.Function(module, ir.FunctionType(I32, [POINTER], var_arg=True), "printf")
    count = _count(op) if "coordinates" in op.attributes else 0
    operands = list(op.operands)
    program, index, values = operands[:3], operands[3 : 3 + count], operands[3 + count :]
    where = f"pid ({', '.join(['%lld'] * 3)}) "
    if count:
        where += f"idx ({', '.join(['%lld'] * count)}) "
    prefix = op.prefix.data.replace("%", "%%")
    if values and prefix.strip():
        prefix = f"{prefix.rstrip().rstrip(':')}: "
    position = [b.sext(gen.scalar(v), I64) for v in program] + [gen.scalar(v) for v in index]
    signed = [bool(v) for v in op.signed.get_values()]
    _set_printing(gen, 1)
    if not values:
        b.call(printf, [_text(module, where + prefix + "\n"), *position])
    for value, is_signed in zip(values, signed, strict=False):
        spec, converted = _printable(
            gen, value.type, gen.scalar(value), bool(op.hex.value.data), is_signed
        )
        b.call(printf, [_text(module, f"{where}{prefix}{spec}\n"), *position, converted])
    _set_printing(gen, 0)
    _leave_if_stopped(gen)


def _set_printing(gen: KernelCodegen, value: int) -> None:
    """Say whether C's locks may be held: the kernel is not stopped meanwhile (`runtime.native.signals`)."""
    b = gen.builder
    place = b.gep(gen.thread, [ir.Constant(I64, 3)], source_etype=I64)
    b.atomic_rmw("xchg", place, ir.Constant(I64, value), "seq_cst")


def _leave_if_stopped(gen: KernelCodegen) -> None:
    """Return where the kernel was to stop while it printed."""
    b = gen.builder
    place = b.gep(gen.thread, [ir.Constant(I64, 4)], source_etype=I64)
    later = b.atomic_rmw("or", place, ir.Constant(I64, 0), "seq_cst")
    leave = gen.function.append_basic_block("stopped")
    after = gen.function.append_basic_block("printed")
    b.cbranch(b.icmp_unsigned("!=", later, ir.Constant(I64, 0)), leave, after)
    b.position_at_end(leave)
    b.ret(ir.Constant(I32, 1))
    b.position_at_end(after)


def _printable(
    gen: KernelCodegen, kind: Attribute, value: Value, hexadecimal: bool, signed: bool
) -> tuple[str, Value]:
    b = gen.builder
    if isinstance(kind, tile.PtrType):
        return "%p", value
    if isinstance(kind, IntegerType):
        wide = value
        if kind.width.data < 64:
            extends = signed and not hexadecimal and kind.width.data > 1
            wide = b.sext(value, I64) if extends else b.zext(value, I64)
        if hexadecimal:
            return f"0x%0{max(1, kind.width.data // 4)}llx", wide
        return ("%lld" if signed else "%llu"), wide
    if kind == f64:
        return "%g", value
    if kind != f32:
        (value,) = lower_elementwise(b, "arith.extf", [value], {}, [f32], [kind], gen.math)
    (value,) = lower_elementwise(b, "arith.extf", [value], {}, [f64], [f32], gen.math)
    return "%f", value
