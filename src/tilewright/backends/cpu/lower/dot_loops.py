"""Small helpers over `llvmlite.Builder` for hand-written kernels: addresses, loops, vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.llvm.blocks import counted_loop
from tilewright.backends.llvm.types import I32, I64, POINTER, VOID, Builder, Value, call, shuffle

BYTE = ir.IntType(8)


_TYPES: dict[str, ir.Type] = {
    "f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType(), "bf16": ir.IntType(16),
    "i8": ir.IntType(8), "i16": ir.IntType(16), "i32": I32, "i64": I64,
}  # fmt: skip


def element_type(name: str) -> ir.Type:
    """The LLVM type of a buffer's elements; bf16 is carried as i16."""
    return _TYPES[name]


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def at(b: Builder, pointer: Value, offset: Value | int) -> Value:
    """The address `offset` bytes after `pointer`."""
    if isinstance(offset, int):
        if offset == 0:
            return pointer
        offset = i64(offset)
    return b.gep(pointer, [offset], source_etype=BYTE)


def load(b: Builder, pointer: Value, kind: ir.Type, align: int) -> Value:
    return b.load(pointer, align=align, typ=kind)


def zip_vectors(b: Builder, rows: Sequence[Value]) -> Value:
    """Interleave two or four vectors: lane 0 of each, lane 1 of each …"""
    if len(rows) == 4:
        # in two steps: (0, 2) and (1, 3), then both
        rows = [zip_vectors(b, [rows[0], rows[2]]), zip_vectors(b, [rows[1], rows[3]])]
    lanes = rows[0].type.count
    return shuffle(b, rows[0], rows[1], [lane for n in range(lanes) for lane in (n, lanes + n)])


def repeat(b: Builder, count: int, body: Callable[[Value], None]) -> None:
    """`body(i)` for i below `count`: nothing, once, or a loop."""
    if count == 1:
        body(i64(0))
    elif count > 1:
        counted_loop(b, count, 1, lambda i, _: body(i))


_LINE = 64
#: the hint of `llvm.prefetch` that becomes prefetcht1: into the second-level cache
_SECOND_LEVEL = 2


@dataclass(frozen=True)
class _Stream:
    """A tile to prefetch: `lines` cache lines, `per_row` per row, `share` per register tile."""

    base: Value
    stride: Value
    lines: int
    per_row: int
    share: int


class Fetcher:
    """Distributes the prefetches of the next tiles evenly over the register tiles of this step."""

    def __init__(
        self,
        b: Builder,
        tiles: int,
        sources: list[tuple[Value, Value, tuple[int, int]]],
        fallback: Value,
    ) -> None:
        """`sources`: (address or null, row pitch, (rows, bytes per row)); `fallback`: any cached address.

        A null address is replaced by `fallback`: prefetching cached lines is almost free, and no second
        version of the kernel is needed.
        """
        self._b = b
        self._streams: list[_Stream] = []
        for address, stride, (rows, row_bytes) in sources:
            if not rows or not row_bytes:
                continue
            none = b.icmp_unsigned("==", address, ir.Constant(POINTER, None))
            base = b.select(none, fallback, address)
            step = b.select(none, i64(0), stride)
            per_row = -(-row_bytes // _LINE)
            lines = rows * per_row
            self._streams.append(_Stream(base, step, lines, per_row, -(-lines // tiles)))

    def emit(self, tile: Value, trip: Value, trips: int) -> None:
        """Emit the prefetches of register tile `tile` for iteration `trip` of `trips`."""
        b = self._b
        hint = [ir.Constant(I32, v) for v in (0, _SECOND_LEVEL, 1)]
        for stream in self._streams:
            portion = -(-stream.share // trips)
            first = b.add(b.mul(tile, i64(stream.share)), b.mul(trip, i64(portion)))
            for n in range(portion):
                index = b.add(first, i64(n))
                if stream.lines == stream.per_row:  # contiguous
                    address = at(b, stream.base, b.mul(index, i64(_LINE)))
                    call(b, "llvm.prefetch.p0", VOID, address, *hint)
                    continue
                row = b.udiv(index, i64(stream.per_row))
                column = b.mul(b.urem(index, i64(stream.per_row)), i64(_LINE))
                address = at(b, stream.base, b.add(b.mul(row, stream.stride), column))
                call(b, "llvm.prefetch.p0", VOID, address, *hint)
