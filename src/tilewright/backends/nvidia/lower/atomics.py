"""Lower atomic operations on global memory (PTX ISA, `atom`) and volatile loads: once per element of a tile."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace

from llvmlite import ir
from xdsl.ir import Attribute, SSAValue

from tilewright.backends.llvm.blocks import both, conditional, retry, where
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.inline_ptx import names
from tilewright.backends.llvm.types import I32, I64, Value
from tilewright.backends.nvidia.lower import KernelCodegen, memory
from tilewright.backends.nvidia.lower.memory import runs
from tilewright.backends.nvidia.lower.scratch_tiles import SharedAccess, SharedTile
from tilewright.backends.nvidia.lower.vector_access import (
    Hints,
    joined,
    load_vector,
    pack,
    part_of,
    register,
    storage,
)
from tilewright.dialects import tile
from tilewright.passes.analysis.effects import is_volatile
from tilewright.passes.gpu.analysis.accesses import CHECKED, vector_of
from tilewright.targets import Feature

_INTEGER = {
    "add": ("add", "u"), "and": ("and", "b"), "or": ("or", "b"), "xor": ("xor", "b"),
    "xchg": ("exch", "b"), "max": ("max", "s"), "min": ("min", "s"), "umax": ("max", "u"),
    "umin": ("min", "u"),
}  # fmt: skip
_IDEMPOTENT = frozenset(("and", "or", "max", "min", "umax", "umin", "fmax", "fmin"))


def _scope(gen: KernelCodegen, op: tile.AtomicRMWOp | tile.AtomicCASOp) -> str:
    """The language's "cta" is the program, which may be a cluster."""
    scope = op.scope.data
    return "cluster" if scope == "cta" and gen.blocks > 1 else scope


@contextmanager
def _fenced(gen: KernelCodegen, op: tile.AtomicRMWOp | tile.AtomicCASOp) -> Generator[str]:
    """The qualifiers for the instructions of a tile: one fence before all releases, one after all
    acquires, and each is relaxed (PTX ISA, memory consistency model: release and acquire patterns).

    A fence costs as much as hundreds of instructions, and every `atom.acq_rel` holds two.
    """
    sem, scope = op.sem.data, _scope(gen, op)
    is_tile = tile.is_tile(op.result)
    fence = f"fence.acq_rel.{scope};"
    if is_tile and sem in ("release", "acq_rel"):
        gen.emit_asm(fence)
    yield (
        f"relaxed.{scope}" if is_tile else f"{sem}.{scope}"
    )  # a scalar is one instruction of one thread
    if not _acquires(gen, op):
        return
    if is_tile:
        gen.emit_asm(fence)
    if (
        not op.result.uses
    ):  # no exchange of a result makes the threads that did not do the operation wait for it
        gen.barrier()


def _acquires(gen: KernelCodegen, op: tile.AtomicRMWOp | tile.AtomicCASOp) -> bool:
    """Whether later reads must see what was released to the location. Without a result a program cannot tell what it
    has read, but of two that write, do this and then read what the other wrote, one sees the other's write."""
    used = bool(op.result.uses)
    return op.sem.data in ("acquire", "acq_rel") and (used or gen.reads_strongly)


def lower_atomic_rmw(gen: KernelCodegen, op: tile.AtomicRMWOp) -> None:
    element = tile.element_of(op.value)
    with _fenced(gen, op) as order:
        form, kind = _form(gen, op.kind.data, element), op.kind.data
        reduces = not op.result.uses and kind != "xchg"
        if form is not None and reduces and (tile.is_tile(op.result) or not _acquires(gen, op)):
            _reduce(gen, op, order, form)  # `red` does not acquire
            return

        def act(pointer: Value, value: Value) -> Value:
            if form is None:
                return _by_cas(gen, op, order, pointer, value)
            address, raw = gen.builder.ptrtoint(pointer, I64), _operand(gen, value, form, element)
            made = _atom(gen, f"atom.{order}.global.{form}", address, [raw], raw.type)
            return register(gen, made, element)

        _each(gen, op.result, [op.pointer, op.value], op.mask, act)


def lower_atomic_cas(gen: KernelCodegen, op: tile.AtomicCASOp) -> None:
    element = tile.element_of(op.value)
    with _fenced(gen, op) as order:

        def act(pointer: Value, compare: Value, value: Value) -> Value:
            old, new = (storage(gen, v, element) for v in (compare, value))
            return register(gen, _cas(gen, order, pointer, old, new), element)

        _each(gen, op.result, [op.pointer, op.compare, op.value], None, act)


def lower_load(gen: KernelCodegen, op: tile.LoadOp) -> None:
    """A load through pointers. What a volatile one finds is the same in all threads that hold an element.

    Other programs may write between the loads of two warps: a loop that ends by such a value would end
    in one of them only, and the others would wait at its next barrier forever.
    """
    if not is_volatile(op) or gen.warps == 1:
        memory.lower_load(gen, op)
        return
    element = tile.element_of(op.result)

    def act(pointer: Value, live: Value | None = None, other: Value | None = None) -> Value:
        address = gen.builder.ptrtoint(pointer, I64)
        old = []
        if live is not None:
            kept = other if other is not None else memory.other_value(gen, None, element, 0)
            old = pack(gen, [kept], element)
        return load_vector(gen, address, element, 1, live, old, Hints(".cv"))[0]

    masked = [v for v in (op.mask, op.other) if v is not None] if op.mask is not None else []
    _each(gen, op.result, [op.pointer, *masked], None, act)


def _each(
    gen: KernelCodegen,
    result: SSAValue,
    operands: list[SSAValue],
    mask: SSAValue | None,
    act: Callable[..., Value],
) -> None:
    """Do `act` once for every element, in the thread that owns it; all its holders get the result."""
    b, first = gen.builder, gen.first_holder(result)
    element = tile.element_of(result)
    if tile.is_tile(result):
        layout = gen.layout(result)
        registers, count = sorted(set(layout.register_of.values())), layout.registers_per_thread
    else:
        layout, count, registers = None, 1, [0]
    masks = gen.parts(mask) if mask is not None else None
    values = [gen.parts(v) for v in operands]
    parts: list[Value] = [None] * count
    for r in registers:
        live = both(b, first, part_of(masks, r) if masks is not None else None)
        inputs = [part_of(v, r) for v in values]
        parts[r] = conditional(b, live, lambda inputs=inputs: [act(*inputs)], [None])[0]
    if layout is None:
        if result.uses:
            parts = [_from_first(gen, parts[0], element)]
    else:
        parts = [parts[layout.register_of[o]] for o in layout.register_offsets]
        if result.uses and first is not None:
            parts = _to_copies(gen, result, parts, first)
    gen.bind(result, parts)


# ---- without results: reductions in memory -----------------------------------------------------------------


def _form(gen: KernelCodegen, kind: str, element: Attribute) -> str | None:
    """Operation and type of `atom`, or `red`, for one element; None where there is no such instruction."""
    text, bits = str(element), 8 * tile.element_bytes(element)
    if kind in _INTEGER and bits >= 32:
        name, letter = _INTEGER[kind]
        return f"{name}.{letter}{bits}"
    if kind == "fadd" and text in ("f32", "f64"):
        return f"add.{text}"
    if kind == "fadd" and (
        text == "f16" or (text == "bf16" and gen.target.has(Feature.VECTOR_ATOMICS))
    ):
        return f"add.noftz.{text}"
    return None


def _reduce(gen: KernelCodegen, op: tile.AtomicRMWOp, order: str, form: str) -> None:
    """`red` for each element, in the thread that owns it; neighbours together where `gpu.vector_width` says that they
    are neighbours in memory, at addresses that turn out to be multiples of their size."""
    b, element = gen.builder, tile.element_of(op.value)
    sem, scope = order.split(".")
    order = f"{'release' if sem in ('release', 'acq_rel') else 'relaxed'}.{scope}"
    pointers, values = gen.parts(op.pointer), gen.parts(op.value)
    masks = gen.parts(op.mask) if op.mask is not None else None
    first = gen.first_holder(op.value)
    if not tile.is_tile(op.value):
        live = both(b, first, masks[0] if masks is not None else None)
        _red(gen, order, form, b.ptrtoint(pointers[0], I64), values, element, live)
        return
    layout = gen.layout(op.value)
    dim = len(layout.shape) - 1
    together: dict[int, tuple[Value | None, list[tuple[Value, list[Value]]]]] = {}
    for run in runs(layout, dim, vector_of(op)):
        of_run: list[Value] = (
            [part_of(masks, r) for r in run.registers] if masks is not None else []
        )
        address = b.ptrtoint(part_of(pointers, run.registers[0]), I64)
        data = [part_of(values, r) for r in run.registers]
        if len(data) > 1 and CHECKED not in op.attributes and _all_same(of_run):
            mask = of_run[0] if of_run else None
            together.setdefault(id(mask), (mask, []))[1].append((address, data))
            continue
        live = first
        for mask in {id(m): m for m in of_run}.values():
            live = both(b, live, mask)
        if len(data) == 1:
            _red(gen, order, form, address, data, element, live)
            continue
        size = tile.element_bytes(element)
        bits = b.and_(address, size * len(data) - 1)
        aligned = b.icmp_unsigned("==", bits, 0)
        with b.if_else(both(b, live, aligned)) as (at_once, one_by_one):
            with at_once:
                _red(gen, order, form, address, data, element, None)
            with one_by_one:
                for i, value in enumerate(data):
                    live = both(b, of_run[i] if of_run else None, first)
                    at = b.add(address, i * size)
                    _red(gen, order, form, at, [value], element, live)
    for mask, accesses in together.values():
        with where(b, both(b, mask, first)):
            for address, data in accesses:
                _red(gen, order, form, address, data, element, None)


def _all_same(masks: list[Value]) -> bool:
    """Whether neighbours are done or left together; otherwise they are tried together only if all are live."""
    return len({id(mask) for mask in masks}) <= 1


def _operand(gen: KernelCodegen, value: Value, form: str, element: Attribute) -> Value:
    """A value as an instruction of this form takes it: fp32 and fp64 as they are, others as their bits."""
    return value if form.endswith(("f32", "f64")) else storage(gen, value, element)


def _red(
    gen: KernelCodegen, order: str, form: str, address: Value, values: list[Value], element: Attribute,
    live: Value | None,
) -> None:  # fmt: skip
    """One instruction that adds (or the like) `values` to neighbours from `address` on, where `live`."""
    if len(values) == 1 or str(element) in ("f32", "f64"):
        raw = [_operand(gen, v, form, element) for v in values]
        suffix = form
    else:
        bits = [storage(gen, v, element) for v in values]
        raw = [joined(bits[i : i + 2], gen.builder) for i in range(0, len(bits), 2)]
        suffix = f"{form}x2"
    name, kind = suffix.rsplit(".", 1)
    vector = f".v{len(raw)}" if len(raw) > 1 else ""
    guard = f"@${len(raw) + 1} " if live is not None else ""
    text = f"{guard}red.{order}.global.{name}{vector}.{kind} [$0], {names(len(raw), 1)};"
    gen.emit_asm(text, [address, *raw, *([live] if live is not None else [])])


# ---- with results ------------------------------------------------------------------------------------------


def _from_first(gen: KernelCodegen, value: Value, element: Attribute) -> Value:
    """The value of thread 0 in all threads."""
    b = gen.builder
    pointer = gen.scratch(16)
    bits = storage(gen, value, element)
    with b.if_then(gen.is_first_thread()):
        b.store(bits, pointer, align=8)
    gen.barrier()
    return register(gen, b.load(pointer, typ=bits.type, align=8), element)


def _to_copies(
    gen: KernelCodegen, result: SSAValue, parts: list[Value], first: Value
) -> list[Value]:
    """Results of the owning threads in all threads that hold a copy."""
    layout, element = gen.layout(result), tile.element_of(result)
    where = SharedTile(None, element, layout.shape)
    where = SharedTile(gen.scratch(where.bytes), element, layout.shape)
    access = SharedAccess(gen, where, layout)
    with gen.builder.if_then(first):
        access.write(parts)
    gen.barrier()
    return SharedAccess(gen, where, layout).read()


# ---- instructions ----------------------------------------------------------------------------------------


def _atom(
    gen: KernelCodegen, text: str, address: Value, values: list[Value], kind: ir.Type
) -> Value:
    listed = ", ".join(f"${i + 2}" for i in range(len(values)))
    return gen.emit_asm(f"{text} $0, [$1], {listed};", [address, *values], kind)


def _cas(gen: KernelCodegen, order: str, pointer: Value, old: Value, new: Value) -> Value:
    """Compare and swap of 16, 32 or 64 bits; 8 bits inside their 32-bit word."""
    width = old.type.width
    address = gen.builder.ptrtoint(pointer, I64)
    if width >= 16:
        text = f"atom.{order}.global.cas.b{width}"
        return _atom(gen, text, address, [old, new], old.type)
    return _cas_byte(gen, order, address, old, new)


def _cas_byte(gen: KernelCodegen, order: str, address: Value, old: Value, new: Value) -> Value:
    """Retry on the word as long as only its other bytes change."""
    b = gen.builder
    word_address = b.and_(address, -4)
    shift = b.trunc(b.shl(b.and_(address, 3), 3), I32)
    hole = b.not_(b.shl(255, shift))
    wanted, put = (b.shl(b.zext(v, I32), shift) for v in (old, new))
    first = gen.emit_asm("ld.relaxed.gpu.global.b32 $0, [$1];", [word_address], I32)

    def attempt(seen: Value) -> tuple[Value, Value]:
        rest = b.and_(seen, hole)
        operands = [b.or_(rest, wanted), b.or_(rest, put)]
        found = _atom(gen, f"atom.{order}.global.cas.b32", word_address, operands, I32)
        byte_differs = b.icmp_unsigned("!=", b.and_(found, b.not_(hole)), wanted)
        return found, b.or_(byte_differs, b.icmp_unsigned("==", found, b.or_(rest, wanted)))

    found = retry(b, first, attempt)
    return b.trunc(b.lshr(found, shift), old.type)


def _by_cas(
    gen: KernelCodegen, op: tile.AtomicRMWOp, order: str, pointer: Value, value: Value
) -> Value:
    """Any read-modify-write as a loop of compare and swap.

    A maximum (or the like) that memory has reached is not swapped in if no result is used and nothing is acquired: whoever
    reads the same value afterwards cannot distinguish the writes, so nothing is released. Programs that share one maximum then
    mostly end after a load, where each swap waits for a fence and fails as often as another program writes.
    """
    b, kind, element = gen.builder, op.kind.data, tile.element_of(op.value)
    bits = ir.IntType(8 * tile.element_bytes(element))
    address = b.ptrtoint(pointer, I64)
    start = _peek(gen, address, bits)
    omits_writes = kind in _IDEMPOTENT and not op.result.uses and not _acquires(gen, op)

    def attempt(seen: Value) -> tuple[Value, Value]:
        old = register(gen, seen, element)
        new = value
        if kind in tile.RMW_OPERATIONS:
            types, math = [element], replace(gen.math, fp_fusion=False)
            given = b, tile.RMW_OPERATIONS[kind], [old, value], {}, types, types * 2, math
            (new,) = lower_elementwise(*given)
        new = storage(gen, new, element)
        changes = b.icmp_unsigned("!=", new, seen) if omits_writes else None
        (found,) = conditional(b, changes, lambda: [_cas(gen, order, pointer, seen, new)], [seen])
        return found, b.icmp_unsigned("==", found, seen)

    return register(gen, retry(b, start, attempt), element)


def _peek(gen: KernelCodegen, address: Value, bits: ir.IntType) -> Value:
    word = ir.IntType(max(16, bits.width))
    made = gen.emit_asm(f"ld.volatile.global.b{bits.width} $0, [$1];", [address], word)
    return gen.builder.trunc(made, bits) if word.width != bits.width else made
