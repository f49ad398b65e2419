"""Prefetching the next step's global rows from inside a dot kernel, a few lines at a time."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_loops import (
    I32,
    POINTER,
    VOID,
    Builder,
    Value,
    at,
    i64,
)
from tilewright.backends.llvm.types import call

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
