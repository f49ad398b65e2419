"""Indices of the thread, warp and program, and coordinates of the elements that a thread holds of a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import SharingBuilder
from tilewright.backends.llvm.types import I32, Builder, Value, call
from tilewright.layouts import Layout
from tilewright.layouts.blocked import LANE_BITS
from tilewright.layouts.layout import Vector


def shuffle_word(b: Builder, word: Value, mode: str, lane: Value) -> Value:
    """A 32-bit register of another lane: `mode` "bfly" (lane xor), "up" (minus), "down" (plus) or "idx"."""
    clamp = ir.Constant(I32, 0 if mode == "up" else 31)
    every_lane = ir.Constant(I32, -1)
    return call(b, f"llvm.nvvm.shfl.sync.{mode}.i32", I32, every_lane, word, lane, clamp)


class Threads:
    """Thread index and coordinates of layouts, made once in the entry block of a kernel."""

    def __init__(self, entry: Value, blocks: int = 1, threads: int = 0, cluster: int = 1) -> None:
        """`index` counts through the program: `blocks` of `threads` threads, if there are several; or, with a
        `cluster`, through a block of it, which does one of the program's iterations."""
        self._start = SharingBuilder(entry)
        self._made: dict[object, Value] = {}
        self._program = "clusterid" if blocks > 1 or cluster > 1 else "ctaid"
        self.index = self.special("tid.x")
        if blocks > 1:
            first = self._start.mul(self.special("cluster.ctarank"), threads)
            self.index = self._start.add(first, self.index)
        self.lane = self.at_start("lane", lambda b: b.and_(self.index, 31))

    def special(self, name: str) -> Value:
        """A special register of PTX ("tid.x", "ctaid.y")."""
        return self.at_start(name, lambda b: call(b, f"llvm.nvvm.read.ptx.sreg.{name}", I32))

    def program(self, axis: str) -> Value:
        """The program's index along "x", "y" or "z"."""
        return self.special(f"{self._program}.{axis}")

    def programs(self, axis: str) -> Value:
        """The number of programs along "x", "y" or "z"."""
        return self.special(f"n{self._program}.{axis}")

    def finish(self, body: Value) -> None:
        """End the entry block: go on at `body`."""
        self._start.branch(body)

    def local(self, kind: ir.Type) -> Value:
        """Local memory for a value of the thread."""
        space = self._start.alloca(kind)
        space.type = ir.PointerType()  # llvmlite makes a typed pointer of it
        return space

    def at_start(self, key: object, make: Callable[[Any], Value]) -> Value:
        """A value that the whole kernel may use: emitted in the entry block."""
        if key not in self._made:
            self._made[key] = make(self._start)
        return self._made[key]

    def coordinate(self, layout: Layout, dim: int) -> Value:
        """What the thread contributes to the coordinate along `dim`, an i32."""
        vectors = (*layout.lanes, *layout.warps)
        bits = tuple((i, v[dim]) for i, v in enumerate(vectors) if v[dim])
        inside = self.at_start(("coordinate", bits), lambda b: self._combine(b, bits))
        step = layout.group_step(dim)
        if not step:
            return inside

        key = ("coordinate", bits, len(layout.warps), step)
        return self.at_start(key, lambda b: b.add(inside, b.mul(self.group_of(layout), step)))

    def group_of(self, layout: Layout) -> Value:
        """Which of the layout's groups of warps the thread is in, an i32."""
        shift = LANE_BITS + len(layout.warps)
        key = ("group of warps", shift)
        return self.at_start(key, lambda b: b.lshr(self.index, shift))

    def _combine(self, b: Builder, bits: tuple[tuple[int, int], ...]) -> Value:
        """Exclusive or of the values of the set bits of the thread index; runs of bits at once."""
        total: Value = ir.Constant(I32, 0)
        pending = list(bits)
        while pending:
            first, value = pending.pop(0)
            length = 1
            if value & (value - 1) == 0:
                while pending and pending[0] == (first + length, value << length):
                    pending.pop(0)
                    length += 1
                part = self._field(b, first, length, value.bit_length() - 1)
            else:
                bit = self._field(b, first, 1, 0)
                part = b.mul(bit, value)
            is_zero = isinstance(total, ir.Constant)
            total = part if is_zero else b.xor(total, part)
        return total

    def _field(self, b: Builder, first: int, length: int, to: int) -> Value:
        """Bits `first … first + length` of the thread index, moved to bit `to`."""
        value = self.index
        if first > to:
            value = b.lshr(value, first - to)
        elif to > first:
            value = b.shl(value, to - first)
        return b.and_(value, (1 << length) - 1 << to)

    def uniform_warp(self) -> Value:
        """Index of the warp, in a register that the assembler knows to be the same in all lanes."""
        return self._uniform("warp", LANE_BITS)

    def warp_group(self) -> Value:
        """Index of the group of four warps, likewise."""
        return self._uniform("warp group", LANE_BITS + 2)

    def _uniform(self, key: str, shift: int) -> Value:
        def make(b: Builder) -> Value:
            index = b.lshr(self.index, shift)
            return shuffle_word(b, index, "idx", ir.Constant(I32, 0))

        return self.at_start(key, make)

    def first_holder(self, layout: Layout) -> Value | None:
        """i1: this thread is the first that holds its elements; None: no element is held twice."""
        mask = sum(1 << b for b in layout.replicated("lanes"))
        mask |= sum(1 << (LANE_BITS + b) for b in layout.replicated("warps"))
        if layout.same_in_groups:  # all but the first group
            mask |= -1 << LANE_BITS + len(layout.warps) & 0x7FFFFFFF
        if not mask:
            return None

        def make(b: Builder) -> Value:
            masked = b.and_(self.index, mask)
            return b.icmp_unsigned("==", masked, 0)

        return self.at_start(("zero", mask), make)

    def element(self, b: Builder, layout: Layout, register: int, dim: int) -> Value:
        """The coordinate of a register's element along `dim`, an i32."""
        thread = self.coordinate(layout, dim)
        return self.with_offset(b, layout, thread, layout.register_offsets[register], dim)

    @staticmethod
    def with_offset(b: Builder, layout: Layout, thread: Value, offset: Vector, dim: int) -> Value:
        """A thread's contribution and a register's, as one coordinate."""
        if offset[dim] == 0:
            return thread
        inside = 0 if layout.has_disjoint_bits else layout.inside(offset)[dim]
        copy = offset[dim] - inside
        if isinstance(thread, ir.Constant):
            return ir.Constant(I32, (thread.constant ^ inside) + copy)
        if inside:
            thread = b.xor(thread, inside)
        return b.add(thread, copy) if copy else thread
