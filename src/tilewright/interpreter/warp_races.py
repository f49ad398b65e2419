"""Detect accesses by different warps of a program that no barrier orders (`gpu.barriers_inserted`).

`insert-barriers` asserts that a function has all the barriers it needs. To check this, every
access to global memory is attributed to the warps whose registers hold its elements: a store to the
first of them, a load to all. Two accesses conflict if, since the last barrier, a warp accesses bytes that another
warp wrote, or overwrites bytes that another warp read. Lanes of a warp are assumed to run in lockstep.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects import gpu, tile
from tilewright.interpreter.pointers import Allocation
from tilewright.ir.location import location_of
from tilewright.layouts import Layout

if TYPE_CHECKING:
    from tilewright.interpreter.claims import Touched
    from tilewright.interpreter.executor import Executor

_LOADS = (tile.LoadOp, tile.LoadViewOp)
_STORES = (tile.StoreOp, tile.StoreViewOp)
_ATOMICS = (tile.AtomicRMWOp, tile.AtomicCASOp)


class _Cells:
    """Who touched each byte of an array since the last barrier."""

    def __init__(self, size: int) -> None:
        self.since = np.zeros(size, np.int64)
        """Number of the last barrier before what follows was noted."""
        self.readers = np.zeros(size, np.uint64)
        self.writers = np.zeros(size, np.uint64)
        self.atomic = np.zeros(size, bool)


class WarpRaces:
    """The accesses since the last barrier, by array."""

    def __init__(self, warps: int) -> None:
        self.everyone = np.uint64((1 << warps) - 1)
        self._barriers = 1
        self._cells: dict[Allocation, _Cells] = {}
        self._last: dict[Allocation, Operation] = {}

    @staticmethod
    def of(run: Executor) -> WarpRaces | None:
        """A checker if the function is marked `gpu.barriers_inserted`, else None."""
        function = run.function
        warps: Any = function.attributes.get("gpu.num_warps")
        if (
            "gpu.barriers_inserted" not in function.attributes
            or warps is None
            or warps.value.data > 64
        ):
            return None
        return WarpRaces(warps.value.data)

    def synchronize(self) -> None:
        """CTA barrier: earlier accesses are ordered before later ones."""
        self._barriers += 1
        self._last.clear()

    def conflict(
        self, op: Operation | None, touched: Touched, atomic: bool
    ) -> tuple[np.ndarray, Any] | None:
        """Note an access; (live lanes that conflict, where an access before it was), or None."""
        owner = touched.pointers.allocation
        if op is None or owner is None or not isinstance(op, (*_LOADS, *_STORES, *_ATOMICS)):
            return None
        cells = self._cells.setdefault(owner, _Cells(owner.nbytes))
        warps = self._warps(op, touched)[:, None]
        at = (touched.addresses - owner.base)[:, None] + np.arange(touched.size)
        old = cells.since[at] < self._barriers
        writers = np.where(old, np.uint64(0), cells.writers[at])
        readers = np.where(old, np.uint64(0), cells.readers[at])
        atomics = ~old & cells.atomic[at]
        wrong = (writers & ~warps) != 0
        wrong |= (writers != 0) & ((warps & ~writers) != 0)
        if touched.writes:
            wrong |= (readers & ~warps) != 0
        if atomic:
            wrong &= ~atomics
        before = self._last.get(owner)
        self._last[owner] = op
        if wrong.any():
            return np.flatnonzero(wrong.any(axis=1)), location_of(before) if before else "a loop"
        self._note(cells, at, old, warps, touched.writes, atomic)
        return None

    def _note(
        self, cells: _Cells, at: Any, old: Any, warps: Any, writes: bool, atomic: bool
    ) -> None:
        fresh = at[old]
        cells.readers[fresh], cells.writers[fresh], cells.atomic[fresh] = 0, 0, False
        cells.since[at] = self._barriers
        held = cells.writers if writes else cells.readers
        np.bitwise_or.at(held, at, np.broadcast_to(warps, at.shape))
        if atomic:
            cells.atomic[at] = True

    def _warps(self, op: Any, touched: Touched) -> np.ndarray:
        """For each live lane the warps that do its access, as bits."""
        value = op.results[0] if isinstance(op, (*_LOADS, *_ATOMICS)) else op.value
        layout = gpu.layout_of(value)
        reads = isinstance(op, _LOADS)
        if layout is None:
            mine = self.everyone if reads else np.uint64(1)
            return np.full(len(touched.addresses), mine, np.uint64)
        holders = _holders(layout, reads)
        return holders[tuple(touched.lanes.T)]


@functools.lru_cache(64)
def _holders(layout: Layout, all_of_them: bool) -> np.ndarray:
    """For each element of a tile the warps that hold it (or the first of them), as bits."""
    held = np.zeros(layout.shape, np.uint64)
    offsets = np.array(layout.register_offsets).reshape(-1, layout.rank)
    block = np.array(layout.block)
    for warp in reversed(range(layout.warp_count)):
        for lane in range(32):
            thread = np.array(layout.thread_offset(lane, warp))
            at = offsets - offsets % block + (thread - thread % block)
            at = tuple((at + ((offsets % block) ^ (thread % block))).T)
            bit = np.uint64(1 << warp)
            held[at] = held[at] | bit if all_of_them else bit
    return held
