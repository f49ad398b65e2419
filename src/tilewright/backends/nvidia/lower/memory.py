"""Lower global loads and stores: up to 16 bytes per thread, predicated instead of branched.

A structured access computes its thread's address once; registers differ by constants or by
multiples of a stride. Where a bound may fall inside a vector, the vector is taken when it is whole
and its elements one by one otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.backends.llvm.blocks import both
from tilewright.backends.llvm.types import I32, I64, Value, clamped, constant, llvm_type
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.register_groups import representatives
from tilewright.backends.nvidia.lower.vector_access import (
    Hints,
    hints_of,
    load_vector,
    pack,
    part_of,
    store_vector,
    with_copies,
)
from tilewright.dialects import tile
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.unobserved_lanes import inactive_lanes_unobserved
from tilewright.passes.gpu.analysis.accesses import (
    CHECKED,
    EQUAL,
    VECTOR_DIM,
    View,
    contiguous_dim,
    tile_of,
    vector_of,
)

_FEW_COMPARISONS = 4
"""With a limit, below which 64 bits of it are compared: each comparison takes two instructions then."""


# ---- where -----------------------------------------------------------------------------------------


class ViewAddress:
    """Addresses and bounds of a structured access, register by register."""

    def __init__(self, gen: KernelCodegen, op: Any, layout: Layout, element: Attribute) -> None:
        self.gen, self.op = gen, op
        self.layout, self.element = layout, element
        self.size = tile.element_bytes(self.element)
        self.kinds = tile.view_kinds(op)
        self.limits = tile.view_limits(op)
        self._starts = iter(zip(op.starts, op.sizes, strict=True))
        self._indices = iter(getattr(op, "indices", ()))
        self._terms: dict[tuple[int, int], Value] = {}
        self._live: dict[tuple[int, int], Value] = {}
        self._wraps = {d: next(self._starts) for d, k in enumerate(self.kinds) if k == "wrapped"}
        self._lines = {d: next(self._indices) for d, k in enumerate(self.kinds) if k == "indexed"}
        self.base = gen.builder.ptrtoint(gen.scalar(op.base), I64)
        if self.layout.has_disjoint_bits:
            for d, kind in enumerate(self.kinds):
                if kind == "strided":
                    self.base = self._plus(self.base, self._thread_term(d))

    def _plus(self, a: Value, b: Value) -> Value:
        if isinstance(b, ir.Constant) and b.constant == 0:
            return a
        return self.gen.builder.add(a, b)

    def _times(self, index: Value, stride: SSAValue) -> Value:
        """An index times a stride, in bytes, i64."""
        b, known = self.gen.builder, constant_int(stride)
        if isinstance(index, ir.Constant) and known is not None:
            return ir.Constant(I64, index.constant * known * self.size)
        wide = ir.Constant(I64, index.constant) if isinstance(index, ir.Constant) else (
            b.zext(index, I64) if index.type != I64 else index
        )  # fmt: skip
        if known is not None:
            return b.mul(wide, known * self.size)
        product = b.mul(wide, self.gen.scalar(stride))
        return b.mul(product, self.size)

    def _thread_term(self, dim: int) -> Value:
        return self._times(self.gen.threads.coordinate(self.layout, dim), self.op.strides[dim])

    def _term(self, dim: int, offset: int) -> Value:
        """What coordinate `offset` (of a register) along `dim` adds to the address."""
        key = (dim, offset)
        if key not in self._terms:
            self._terms[key] = self._make_term(dim, offset)
        return self._terms[key]

    def _make_term(self, dim: int, offset: int) -> Value:
        gen, b, kind = self.gen, self.gen.builder, self.kinds[dim]
        stride = self.op.strides[dim]
        if kind == "strided" and self.layout.has_disjoint_bits:
            return self._times(ir.Constant(I64, offset), stride)
        if kind == "indexed":
            line = self._lines[dim]
            register = gen.layout(line).register_of[(offset,)]
            return b.mul(gen.parts(line)[register], self.size)
        index = self._coordinate(dim, offset)
        if kind == "strided":
            return self._times(index, stride)
        start, size = (gen.scalar(v) for v in self._wraps[dim])
        at = b.add(b.trunc(start, I32), index)
        return self._times(b.urem(at, b.trunc(size, I32)), stride)

    def _coordinate(self, dim: int, offset: int) -> Value:
        thread = self.gen.threads.coordinate(self.layout, dim)
        vector = tuple(offset if d == dim else 0 for d in range(self.layout.rank))
        return self.gen.threads.with_offset(self.gen.builder, self.layout, thread, vector, dim)

    def address(self, offset: Vector) -> Value:
        """The address of a register's element, an i64."""
        value = self.base
        for d, c in enumerate(offset):
            value = self._plus(value, self._term(d, c))
        return value

    def alive(self, offset: Vector, run: int = 1, dim: int | None = None) -> Value | None:
        """i1: `run` elements along `dim` from `offset` on are within all limits; None: always."""
        result: Value | None = None
        for d in self.limits:
            last = offset[d] + (run - 1 if d == dim else 0)
            result = both(self.gen.builder, result, self._within(d, last))
        return result

    def bytes_alive(self, offset: Vector, run: int, dim: int) -> Value | None:
        """i32: bytes of a run along `dim` that are within all limits; None: all."""
        if not self.limits:
            return None
        gen, b, whole = self.gen, self.gen.builder, ir.Constant(I32, run * self.size)
        amount: Value = whole
        if dim in self.limits:
            thread = gen.threads.coordinate(self.layout, dim)
            room = self._room(dim, thread, gen.scalar(self.limits[dim]))
            left = b.sub(room, offset[dim])
            left = clamped(b, left, run)
            left = left if room.type == I32 else b.trunc(left, I32)
            amount = b.mul(left, self.size)
        for d in self.limits:
            if d != dim:
                live = self._within(d, offset[d])
                amount = b.select(live, amount, 0)
        return amount

    def _within(self, dim: int, offset: int) -> Value:
        key = (dim, offset)
        if key not in self._live:
            b, limit = self.gen.builder, self.gen.scalar(self.limits[dim])
            if self.layout.has_disjoint_bits:
                thread = self.gen.threads.coordinate(self.layout, dim)
                room = self._room(dim, thread, limit)
                self._live[key] = b.icmp_signed(">", room, offset)
            else:
                index = b.zext(self._coordinate(dim, offset), I64)
                self._live[key] = b.icmp_signed("<", index, limit)
        return self._live[key]

    def _room(self, dim: int, thread: Value, limit: Value) -> Value:
        """Elements from this thread's place to the limit, as far as they are within the tile: in 32 bits, where several
        comparisons make up for clamping the limit, which all threads do alike."""
        key = (dim, -1)
        if key not in self._live:
            b, narrow = self.gen.builder, self._is_narrow(dim)
            if narrow:
                limit = self._clamped(dim, limit)
            if isinstance(thread, ir.Constant):
                thread = thread.constant
            elif not narrow:
                thread = b.zext(thread, I64)
            self._live[key] = b.sub(limit, thread)
        return self._live[key]

    def _is_narrow(self, dim: int) -> bool:
        """Whether a thread compares with a limit more than a few times."""
        places = len({offset[dim] for offset in self.layout.register_offsets})
        at_once = vector_of(self.op) if dim == contiguous_dim(self.op) else 1
        return places >= _FEW_COMPARISONS * at_once

    def _clamped(self, dim: int, limit: Value) -> Value:
        """A limit as 32 bits, from 0 to the extent."""
        b, bounds = self.gen.builder, (0, tile.shape_of(tile_of(self.op))[dim])
        for sign, bound in zip(("<", ">"), bounds, strict=True):
            limit = b.select(b.icmp_signed(sign, limit, bound), bound, limit)
        return b.trunc(limit, I32)


def _place(gen: KernelCodegen, op: View) -> ViewAddress:
    value = tile.accessed(op)
    return ViewAddress(gen, op, gen.layout(value), tile.element_of(value))


# ---- vectors ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Registers that hold neighbours in memory, and the offset of the first."""

    registers: tuple[int, ...]
    offset: Vector


def runs(layout: Layout, dim: int | None, length: int) -> list[Run]:
    """All registers in runs of up to `length` along `dim`."""
    length = layout.num_consecutive(dim, length) if dim is not None else 1
    result = []
    seen: set[Vector] = set()
    for register, offset in enumerate(layout.register_offsets):
        if offset in seen:
            continue
        if dim is None or length == 1:
            seen.add(offset)
            result.append(Run((register,), offset))
            continue
        start = tuple(c - c % length if d == dim else c for d, c in enumerate(offset))
        members = [
            tuple(c + i if d == dim else c for d, c in enumerate(start)) for i in range(length)
        ]
        seen.update(members)
        result.append(Run(tuple(layout.register_of[m] for m in members), start))
    return result


# ---- structured accesses ------------------------------------------------------------------------------


def _masks(gen: KernelCodegen, mask: SSAValue | None) -> list[Value] | None:
    return gen.parts(mask) if mask is not None else None


def other_value(
    gen: KernelCodegen, other: SSAValue | None, element: Attribute, register_: int
) -> Value:
    """What a masked load gives for register `register_` where its mask is false: `other`, or 0."""
    if other is None:
        kind = llvm_type(element)
        return ir.Constant(kind, None) if isinstance(kind, ir.PointerType) else constant(kind, 0)
    return part_of(gen.parts(other), register_)


@dataclass(frozen=True)
class _Others:
    """What a masked load gives where it is inactive; undefined if nobody observes that."""

    gen: KernelCodegen
    op: tile.LoadOp | tile.LoadViewOp

    @cached_property
    def _undefined(self) -> Value | None:
        unobserved = self.op in self.gen.first and inactive_lanes_unobserved(self.op)
        kind = llvm_type(tile.element_of(self.op.result))
        return ir.Constant(kind, ir.Undefined) if unobserved else None

    def packed(self, registers: Sequence[int]) -> list[Value]:
        """For some of its registers, as words."""
        element = tile.element_of(self.op.result)
        found = [self._undefined] * len(registers)
        if self._undefined is None:
            found = [other_value(self.gen, self.op.other, element, r) for r in registers]
        return pack(self.gen, found, element)


class _Predicates:
    """Which elements of the runs of a structured access are active: by its limits and its mask."""

    def __init__(self, gen: KernelCodegen, place: ViewAddress) -> None:
        self.gen, self.place = gen, place
        self.dim = contiguous_dim(place.op)
        self.masks = _masks(gen, place.op.mask)

    def whole(self, run: Run) -> Value | None:
        """i1: all elements of `run` are active; None: always."""
        live = self.place.alive(run.offset, len(run.registers), self.dim)
        for mask in self._of_run(run):
            live = both(self.gen.builder, live, mask)
        return live

    def element(self, run: Run, i: int) -> Value | None:
        """i1: element `i` of `run` is active; None: always."""
        offset = self.offset(run, i)
        mask = self.masks[run.registers[i]] if self.masks is not None else None
        return both(self.gen.builder, self.place.alive(offset), mask)

    def offset(self, run: Run, i: int) -> Vector:
        return tuple(c + i if d == self.dim else c for d, c in enumerate(run.offset))

    def may_differ(self, run: Run) -> bool:
        """Whether some elements of `run` may be active and others not."""
        if len(run.registers) == 1:
            return False
        limit = self.place.limits.get(self.dim) if self.dim is not None else None
        if limit is not None and self.gen.known.divisor(limit) % len(run.registers) != 0:
            return True
        return len(self._of_run(run)) > 1

    def left(self, run: Run) -> int:
        """How many of the first elements of `run` may be active where others are not: not the last one, below a limit."""
        return len(run.registers) - (len(self._of_run(run)) <= 1)

    def _of_run(self, run: Run) -> list[Value]:
        """The distinct mask bits of a run."""
        if self.masks is None:
            return []
        return list({id(m): m for m in (self.masks[r] for r in run.registers)}.values())


def lower_load_view(gen: KernelCodegen, op: tile.LoadViewOp) -> None:
    place = _place(gen, op)
    layout, element = place.layout, place.element
    active, hints, others = _Predicates(gen, place), hints_of(gen, op), _Others(gen, op)

    def load(run: Run) -> list[Value]:
        count, live = len(run.registers), active.whole(run)
        old = others.packed(run.registers) if live is not None else []
        values = load_vector(gen, place.address(run.offset), element, count, live, old, hints)
        if live is not None and active.may_differ(run):
            return _load_rest(gen, active, run, live, values, hints)
        return values

    parts = _loaded(op, layout.registers_per_thread, runs(layout, active.dim, vector_of(op)), load)
    gen.bind(op.result, with_copies(layout, parts))


def _loaded(
    op: Operation, count: int, places: list[Run], load: Callable[[Run], list[Value]]
) -> list[Any]:
    """The `count` registers of a load, run by run; of runs that are known to be equal the first is loaded."""
    parts: list[Any] = [None] * count
    firsts = representatives(op, EQUAL) or range(count)
    loaded: dict[tuple[int, ...], list[Value]] = {}
    for run in places:
        group = tuple(firsts[r] for r in run.registers)
        if group not in loaded:
            loaded[group] = load(run)
        for r, value in zip(run.registers, loaded[group], strict=True):
            parts[r] = value
    return parts


def _load_rest(
    gen: KernelCodegen,
    active: _Predicates,
    run: Run,
    whole: Value,
    values: list[Value],
    hints: Hints,
) -> list[Value]:
    """Elements of a run of which not all are active, one by one."""
    b, place = gen.builder, active.place
    cut, left = b.not_(whole), active.left(run)
    result = []
    for i, value in enumerate(values[:left]):
        offset = active.offset(run, i)
        live = both(gen.builder, active.element(run, i), cut)
        old = pack(gen, [value], place.element)
        result += load_vector(gen, place.address(offset), place.element, 1, live, old, hints)
    return result + values[left:]


def lower_store_view(gen: KernelCodegen, op: tile.StoreViewOp) -> None:
    place = _place(gen, op)
    active, hints = _Predicates(gen, place), hints_of(gen, op)
    b, first = gen.builder, gen.first_holder(op.value)
    values = gen.parts(op.value)
    checked = CHECKED in op.attributes
    for run in runs(place.layout, active.dim, vector_of(op)):
        live = both(b, first, active.whole(run))
        data = [values[r] for r in run.registers]
        if checked:
            live = both(b, live, _is_aligned(gen, place, run))
        store_vector(gen, place.address(run.offset), data, place.element, live, hints)
        if live is not None and (checked or active.may_differ(run)):
            left = data if checked else data[: active.left(run)]
            _store_rest(gen, active, run, left, both(b, first, b.not_(live)), hints)


def _is_aligned(gen: KernelCodegen, place: ViewAddress, run: Run) -> Value:
    """i1: the address of a run is a multiple of its size."""
    b, size = gen.builder, len(run.registers) * place.size
    return b.icmp_unsigned("==", b.and_(place.address(run.offset), size - 1), 0)


def _store_rest(
    gen: KernelCodegen,
    active: _Predicates,
    run: Run,
    data: list[Value],
    cut: Value | None,
    hints: Hints,
) -> None:
    """The first elements of a run of which not all are active, one by one."""
    place = active.place
    for i, value in enumerate(data):
        live = both(gen.builder, active.element(run, i), cut)
        store_vector(gen, place.address(active.offset(run, i)), [value], place.element, live, hints)


# ---- through tiles of pointers, and scalars ---------------------------------------------------------------


def lower_load(gen: KernelCodegen, op: tile.LoadOp) -> None:
    element, hints = tile.element_of(op.result), hints_of(gen, op)
    if op.volatile is not None and bool(op.volatile.value.data):
        hints = Hints(".cv")
    masks, pointers, others = _masks(gen, op.mask), gen.parts(op.pointer), _Others(gen, op)

    def load(run: Run) -> list[Value]:
        first, count = run.registers[0], len(run.registers)
        live = masks[first] if masks is not None else None
        old = others.packed(run.registers) if live is not None else []
        address = gen.builder.ptrtoint(pointers[first], I64)
        return load_vector(gen, address, element, count, live, old, hints)

    parts = _loaded(op, len(pointers), _gathered_runs(gen, op), load)
    if tile.is_tile(op.result):
        parts = with_copies(gen.layout(op.result), parts)
    gen.bind(op.result, parts)


def _gathered_runs(gen: KernelCodegen, op: tile.LoadOp | tile.StoreOp) -> list[Run]:
    """Registers of an access through pointers, in runs of neighbours that it takes at once."""
    if not tile.is_tile(op.pointer):
        return [Run((0,), ())]
    dim = op.attributes.get(VECTOR_DIM)
    along = dim.value.data if isinstance(dim, IntegerAttr) else None
    return runs(gen.layout(op.pointer), along, vector_of(op))


def lower_store(gen: KernelCodegen, op: tile.StoreOp) -> None:
    element, hints = tile.element_of(op.value), hints_of(gen, op)
    b, first = gen.builder, gen.first_holder(op.value)
    pointers, values, masks = gen.parts(op.pointer), gen.parts(op.value), _masks(gen, op.mask)
    for registers in (run.registers for run in _gathered_runs(gen, op)):
        live = both(b, first, masks[registers[0]] if masks is not None else None)
        address = gen.builder.ptrtoint(pointers[registers[0]], I64)
        store_vector(gen, address, [values[r] for r in registers], element, live, hints)
