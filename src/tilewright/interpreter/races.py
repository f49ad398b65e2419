"""Detect data races: unordered conflicting accesses of programs, and of warps of a program that no barrier orders."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects import gpu, tile
from tilewright.errors import RaceError, SourceLocation
from tilewright.interpreter.pointers import Access, Allocation, Part
from tilewright.ir.location import location_of
from tilewright.layouts import Layout

if TYPE_CHECKING:
    from tilewright.interpreter.claims import Touched
    from tilewright.interpreter.executor import Executor


class _Site(NamedTuple):
    program: tuple[int, int, int]
    clock: int
    what: str
    verb: str
    atomic: bool
    location: SourceLocation | None


class _Shadow:
    """Numbers of the last accesses of each byte; 0 is none."""

    def __init__(self, base: int, nbytes: int) -> None:
        self.base = base
        self.writes = np.zeros(nbytes, np.int32)
        self.reads = np.zeros(nbytes, np.int32)
        self.earlier_reads = np.zeros(nbytes, np.int32)
        """The last read by another program than `reads`'s."""


class RaceDetector:
    """Fed by `Memory` with every access that passed the other checks."""

    def __init__(self) -> None:
        self._sites: list[_Site | None] = [None]
        self._shadows: list[_Shadow] = []
        self._clocks: dict[Any, int] = {}
        self._known: dict[Any, dict[Any, int]] = {}
        self._released: dict[int, dict[Any, int]] = {}

    def read(self, part: Part) -> None:
        """A plain load."""
        shadow, places = self._place(part)
        self._compare(part, shadow.writes, places)
        site = self._site(part.access, False)
        program = part.access.ctx.program
        last = shadow.reads[places]
        others = [s for s in np.unique(last) if s and self._sites[s].program != program]
        if others:
            moved = np.isin(last, others)
            shadow.earlier_reads[places[moved]] = last[moved]
        shadow.reads[places] = site

    def write(self, part: Part) -> None:
        """A plain store."""
        shadow, places = self._place(part)
        for earlier in (shadow.writes, shadow.reads, shadow.earlier_reads):
            self._compare(part, earlier, places)
        shadow.writes[places] = self._site(part.access, False)

    def atomic(self, part: Part, sem: str) -> None:
        """Record an atomic, which does not conflict with other atomics. A scalar one orders programs as `sem` says."""
        access = part.access
        program, address = access.ctx.program, int(access.pointers.addresses.flat[0])
        scalar = not access.pointers.shape
        known = self._known.setdefault(program, {})
        if scalar and sem in ("acquire", "acq_rel"):
            _merge(known, self._released.get(address, {}))
        shadow, places = self._place(part)
        for earlier in (shadow.writes, shadow.reads, shadow.earlier_reads):
            self._compare(part, earlier, places, atomic=True)
        shadow.writes[places] = self._site(access, True)
        if scalar and sem in ("release", "acq_rel"):
            clock = self._clocks.get(program, 1)
            released = self._released.setdefault(address, {})
            _merge(released, known)
            _merge(released, {program: clock})
            self._clocks[program] = clock + 1

    def _place(self, part: Part) -> tuple[_Shadow, Any]:
        """The shadow of an allocation and the positions in it of the bytes that are accessed."""
        allocation = part.allocation
        for shadow in self._shadows:
            inside = shadow.base <= allocation.base
            if inside and allocation.end <= shadow.base + shadow.writes.size:
                break
        else:
            shadow = self._grow(allocation.base, allocation.end)
        starts = np.atleast_1d(part.offsets) + (allocation.base - shadow.base)
        return shadow, (starts[:, None] + np.arange(part.access.itemsize)).ravel()

    def _grow(self, base: int, end: int) -> _Shadow:
        """A new shadow for `[base, end)`, which takes over those it overlaps."""
        joined = [s for s in self._shadows if s.base < end and base < s.base + s.writes.size]
        base = min([base, *(s.base for s in joined)])
        end = max([end, *(s.base + s.writes.size for s in joined)])
        shadow = _Shadow(base, end - base)
        for old in joined:
            part = slice(old.base - base, old.base - base + old.writes.size)
            shadow.writes[part], shadow.reads[part] = old.writes, old.reads
            shadow.earlier_reads[part] = old.earlier_reads
            self._shadows.remove(old)
        self._shadows.append(shadow)
        return shadow

    def _site(self, access: Access, atomic: bool) -> int:
        program = access.ctx.program
        clock = self._clocks.setdefault(program, 1)
        site = _Site(program, clock, access.what, access.verb, atomic, access.ctx.location)
        if self._sites[-1] != site:
            self._sites.append(site)
        return len(self._sites) - 1

    def _compare(
        self, part: Part, earlier: np.ndarray, places: np.ndarray, atomic: bool = False
    ) -> None:
        access, found = part.access, earlier[places]
        known = self._known.get(access.ctx.program, {})
        for number in np.unique(found):
            site = self._sites[number]
            if site is None or site.program == access.ctx.program:
                continue
            if (site.atomic and atomic) or known.get(site.program, 0) >= site.clock:
                continue
            at = int(np.argmax(found == number)) // access.itemsize
            self._report(part, site, at)

    def _report(self, part: Part, site: _Site, at: int) -> None:
        access, allocation, lanes, _ = part
        addresses = access.pointers.addresses
        address = int(addresses[tuple(axis[at] for axis in lanes)] if lanes else addresses)
        lane = f", lane {[int(axis[at]) for axis in lanes]}" if lanes else ""
        line = f" at {site.location}" if site.location else ""
        raise RaceError(
            f"programs {site.program} and {access.ctx.program} race for element"
            f" {allocation.element(address)} of '{allocation.name}': {site.what} of program"
            f" {site.program}{line} {site.verb} it, and {access.what} of program"
            f" {access.ctx.program} {access.verb} it{lane}; nothing orders the two",
            help="let each program write its own elements, or use tl.atomic_add and its kin",
            location=access.ctx.location,
        )


def _merge(into: dict[Any, int], other: dict[Any, int]) -> None:
    for program, clock in other.items():
        into[program] = max(into.get(program, 0), clock)


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
