"""Checks the claims that passes write on operations (`dialects/tile/claims.py`) while they execute.

What each claim means is in `tile.claims.MEANING`; this module is the only one that checks them. A claim
that does not hold raises ClaimError with the pass, the kernel's line, the program, and the lanes and
values concerned. Alignment counts from the start of the argument that an address comes from: that
arguments themselves are aligned is a condition of the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.dialects import tile
from tilewright.dialects.tile.claims import Entry
from tilewright.errors import ClaimError
from tilewright.interpreter import Executor
from tilewright.interpreter.pointers import Allocation, PointerValue
from tilewright.interpreter.races import WarpRaces
from tilewright.ir.location import location_of

_ASSUMES = tile.AssumesAttr.name
_SHOWN = 4


@dataclass(frozen=True)
class Touched:
    """The live lanes of an access."""

    addresses: np.ndarray
    """Addresses of the live lanes, in order."""
    lanes: np.ndarray
    """Their coordinates, a row each."""
    size: int
    """Bytes of an element."""
    writes: bool
    pointers: PointerValue
    mask: np.ndarray | None

    @staticmethod
    def of(pointers: PointerValue, mask: Any, size: int, writes: bool) -> Touched:
        """The lanes of `pointers` that `mask` leaves on."""
        shape = pointers.shape
        live = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        where = np.argwhere(live) if shape else np.zeros((int(live), 0), int)
        addresses = np.atleast_1d(pointers.addresses[live])
        return Touched(addresses, where, size, writes, pointers, live)

    def describe(self, wrong: np.ndarray) -> str:
        """`lanes (3,) (7,): 'x' elements 3 7` for the live lanes with these numbers."""
        shown = wrong[:_SHOWN]
        lanes = " ".join(str(tuple(int(i) for i in self.lanes[n])) for n in shown)
        more = " …" if len(wrong) > _SHOWN else ""
        return f"lanes {lanes}{more}: {self.places(self.addresses[shown])}{more}"

    def places(self, addresses: np.ndarray) -> str:
        """Addresses as elements of the array they are in."""
        owner = self.pointers.allocation
        if owner is None:
            return "addresses " + " ".join(hex(int(a)) for a in addresses)
        return f"'{owner.name}' elements " + " ".join(str(owner.element(int(a))) for a in addresses)

    def overlaps(self, others: np.ndarray, size: int) -> np.ndarray:
        """Numbers of the live lanes that touch elements of `size` bytes at sorted addresses `others`."""
        if not len(others):
            return np.zeros(0, int)
        before = np.searchsorted(others, self.addresses + self.size) - 1
        found = others[np.maximum(before, 0)] + size > self.addresses
        return np.flatnonzero(found & (before >= 0))


@dataclass
class _Region:
    """Addresses that nothing else may touch while a loop runs."""

    by: str
    owner: Allocation | None
    addresses: np.ndarray
    size: int
    active: bool = False


class _Order:
    """Positions of the accesses of one number, by byte of each array."""

    def __init__(self) -> None:
        self.run = 1
        self.positions: dict[Allocation, tuple[np.ndarray, np.ndarray]] = {}
        """For each byte the latest position that read it, and that wrote it: `run << 32 | position`."""

    def begin(self) -> None:
        self.run += 1

    def broken_by(self, touched: Touched, position: int) -> np.ndarray | None:
        """Note an access; the live lanes that come too late, or None."""
        owner = touched.pointers.allocation
        if owner is None or not len(touched.addresses):
            return None
        if owner not in self.positions:
            empty = np.zeros(owner.nbytes, np.int64)
            self.positions[owner] = (empty, empty.copy())
        reads, writes = self.positions[owner]
        at = (touched.addresses - owner.base)[:, None] + np.arange(touched.size)
        now = self.run << 32 | position
        late = writes[at] > now
        if touched.writes:
            late |= reads[at] > now
        if late.any():
            return np.flatnonzero(late.any(axis=1))
        held = writes if touched.writes else reads
        held[at] = np.maximum(held[at], now)
        return None


class ClaimChecker:
    """Checks the claims of one execution."""

    def __init__(self, run: Executor) -> None:
        self.run = run
        self.races = WarpRaces.of(run)
        self._regions: dict[int, _Region] = {}
        self._orders: dict[int, _Order] = {}
        self._open: list[Entry] = []
        """Claims about the access of the running operation."""

    def new_program(self) -> None:
        """Another program begins, in which nothing has been accessed."""
        self._regions.clear()
        for order in self._orders.values():
            order.begin()
        self.barrier()

    def barrier(self) -> None:
        """All threads of the program synchronize."""
        if self.races is not None:
            self.races.synchronize()

    # ---- operations ----

    def execute(self, op: Operation, handler: Callable[[Operation], list[Any]]) -> list[Any]:
        """Run an operation that has claims."""
        entries = list(tile.claims_of(op))
        loop = isinstance(op, scf.ForOp)
        self._before(op, entries, loop)
        if loop:
            results = handler(op)
            for _, claim, values in entries:
                if claim == "exclusive":
                    self._regions.pop(values[0], None)
            return results
        self._open = [e for e in entries if e[1] in _OF_ACCESSES]
        try:
            results = handler(op)
        finally:
            self._open = []
        for by, claim, _ in entries:
            if claim == "uniform":
                self._uniform(by, op, results)
        return results

    def _before(self, op: Operation, entries: list[Entry], loop: bool) -> None:
        for by, claim, values in entries:
            if claim == "order":
                self._order(values[0]).begin()
            elif claim == "exclusive" and loop and values[0] in self._regions:
                self._regions[values[0]].active = True
            elif claim == "nonnegative" and isinstance(op, _WRAPPING):
                self._starts(by, op)

    def iterate(self, op: scf.ForOp) -> None:
        """An iteration of a loop with claims begins."""
        for _, claim, values in tile.claims_of(op):
            if claim == "order_each":
                self._order(values[0]).begin()

    def claim(self, op: tile.ClaimOp) -> list[Any]:
        """`tile.claim`."""
        operands = [int(self.run.value(v)) for v in op.values]
        for by, claim, values in op.assumes.data:
            if claim == "order":
                self._order(values[0]).begin()
            elif claim == "in_range":
                limit, count, first = (*operands, *(1, 0)[len(operands) - 1 :])
                n, step = values
                worst = min(limit + step * first, limit + step * (first + count - 1))
                if count > 0 and worst < n:
                    text = f"limit {limit}, {count} times from {first} on: {worst} is less than {n}"
                    self._fail(by, claim, text)
            elif claim == "unwrapped":
                start, size = operands
                if size <= 0 or start % size + values[0] > size:
                    self._fail(by, claim, f"{start} % {size} + {values[0]} is more than {size}")
        return []

    def _order(self, number: int) -> _Order:
        return self._orders.setdefault(number, _Order())

    def _starts(self, by: str, op: Any) -> None:
        for start, size in zip(op.starts, op.sizes, strict=True):
            held = int(self.run.value(start)), int(self.run.value(size))
            if held[0] < 0 or held[1] < 1:
                text = f"a dimension starts at {held[0]} and wraps around at {held[1]}"
                self._fail(by, "nonnegative", text)

    # ---- accesses ----

    def access(
        self, pointers: PointerValue, mask: Any, size: int, writes: bool, atomic: bool
    ) -> None:
        """The running operation is about to access memory."""
        active = [r for r in self._regions.values() if r.active and r.owner is pointers.allocation]
        if not (self._open or active or self.races):
            return
        touched = Touched.of(pointers, mask, size, writes)
        for region in active:
            wrong = touched.overlaps(region.addresses, region.size)
            if len(wrong):
                self._fail(
                    region.by, "exclusive", f"{touched.describe(wrong)} are accessed in the loop"
                )
        for entry in self._open:
            _OF_ACCESSES[entry[1]](self, entry, touched)
        if self.races is not None:
            found = self.races.conflict(self.run.current, touched, atomic)
            if found is not None:
                wrong, before = found
                self._fail(
                    "insert-barriers", "ordered", f"{touched.describe(wrong)} are accessed by another warp"
                    f" than before (at {before}), one of the two writes, and no barrier is in between",
                )  # fmt: skip

    def _aligned(self, entry: Entry, touched: Touched) -> None:
        by, _, (nbytes,) = entry
        group = next((e[2] for e in self._open if e[0] == by and e[1] == "contiguous"), None)
        owner = touched.pointers.allocation
        origin = owner.origin if owner is not None else 0
        first = np.ones(len(touched.addresses), bool)
        if group is not None:
            first = touched.lanes[:, group[0]] % group[1] == 0
        elif touched.lanes.shape[1]:
            first = touched.lanes[:, -1] == 0
        wrong = np.flatnonzero(first & ((touched.addresses - origin) % nbytes != 0))
        if len(wrong):
            text = f"{touched.describe(wrong)} are not multiples of {nbytes} bytes"
            self._fail(by, "aligned", text)

    def _contiguous(self, entry: Entry, touched: Touched) -> None:
        by, _, (dim, n) = entry
        last = np.moveaxis(touched.pointers.addresses, dim, -1)
        live = np.moveaxis(np.asarray(touched.mask), dim, -1)
        groups = last.reshape(*last.shape[:-1], -1, n)
        lives = live.reshape(groups.shape)
        apart = lives.all(-1) & (np.diff(groups, axis=-1) != touched.size).any(-1)
        if not apart.any():
            return
        number = np.argwhere(apart)[0]
        lane = [*(int(i) for i in number[:-1]), int(number[-1]) * n]
        lane.insert(dim, lane.pop())
        places = touched.places(groups[tuple(number)])
        self._fail(
            by, "contiguous", f"{n} lanes from {tuple(lane)} on are not consecutive: {places}"
        )

    def _distinct(self, entry: Entry, touched: Touched) -> None:
        order = np.argsort(touched.addresses, kind="stable")
        twice = order[1:][np.diff(touched.addresses[order]) == 0]
        if len(twice):
            text = f"{touched.describe(twice)} are the addresses of other lanes, too"
            self._fail(entry[0], "distinct_lanes", text)

    def _exclusive(self, entry: Entry, touched: Touched) -> None:
        by, _, (number,) = entry
        owner = touched.pointers.allocation
        self._regions[number] = _Region(by, owner, np.sort(touched.addresses), touched.size)

    def _in_order(self, entry: Entry, touched: Touched) -> None:
        by, _, (number, position) = entry
        late = self._order(number).broken_by(touched, position)
        if late is not None:
            verb = "written" if touched.writes else "read"
            text = f"{touched.describe(late)} are {verb} after an access that comes later in the kernel"
            self._fail(by, "in_order", text)

    def alignment(self, base: PointerValue, offset: int, nbytes: int) -> None:
        """`cpu.vector_load` and `_store` claim the alignment of the vector; that of elements is the caller's."""
        owner = base.allocation
        if owner is not None and nbytes > owner.itemsize:
            place = int(base.addresses) + int(offset) - owner.origin
            if place % nbytes:
                self._fail(
                    "vectorize",
                    "aligned",
                    f"byte {place} of '{owner.name}' is not a multiple of {nbytes}",
                )

    # ---- results ----

    def _uniform(self, by: str, op: Operation, results: Sequence[Any]) -> None:
        for result in results:
            lanes = np.asarray(result).reshape(-1)
            raw = lanes.view(np.uint8).reshape(len(lanes), -1) if len(lanes) else lanes
            if len(lanes) > 1 and (raw != raw[0]).any():
                lane = int(np.argwhere(raw != raw[0])[0][0])
                text = f"lane {lane} of {op.name} is {lanes[lane]}, lane 0 is {lanes[0]}"
                self._fail(by, "uniform", text)

    def _fail(self, by: str, claim: str, text: str) -> None:
        run = self.run
        where = location_of(run.current) if run.current is not None else None
        raise ClaimError(by, claim, f"program {run.program}, {text}", where)


_WRAPPING = (tile.LoadViewOp, tile.StoreViewOp)
_OF_ACCESSES: dict[str, Callable[[ClaimChecker, Entry, Touched], None]] = {
    "aligned": ClaimChecker._aligned,
    "contiguous": ClaimChecker._contiguous,
    "distinct_lanes": ClaimChecker._distinct,
    "exclusive": ClaimChecker._exclusive,
    "in_order": ClaimChecker._in_order,
}


def has_claims(op: Operation) -> bool:
    """Whether passes claim something of an operation."""
    return _ASSUMES in op.attributes
