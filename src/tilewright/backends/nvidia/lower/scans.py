"""Lower scans: in a thread, then across its lanes, then across warps, then across a thread's later runs.

Along the axis a thread holds runs of consecutive elements. The runs of a segment follow each other from lane to lane
and from warp to warp; further registers hold further segments. With one segment a thread loads and stores its whole run;
with several of 16 bytes each the accesses of a warp are contiguous. Any combine region works; its order is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from tilewright.backends.llvm.blocks import where
from tilewright.backends.llvm.types import I32, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.reductions import (
    Group,
    along,
    compact,
    flat_place,
    shuffle,
)
from tilewright.backends.nvidia.lower.scratch_tiles import SharedTile, allocate_scratch, peek, poke
from tilewright.dialects import tile
from tilewright.errors import PassError
from tilewright.ir.location import location_of
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector

Line = list[Group]
"""The elements of a run, in the order of the scan."""

_FEW_ELEMENTS = 2
"""Elements of a run that are combined with two prefixes as cheaply as the prefixes with each other."""


@dataclass(frozen=True)
class _Run:
    """A run of a thread, scanned by itself."""

    elements: Line
    total: Group
    """Of the run and those of earlier lanes."""
    before: Group | None = None
    """Of the runs of earlier lanes; None where the elements contain it."""
    has_before: Value | None = None
    """Whether there are earlier lanes."""


def lower_scan(gen: KernelCodegen, op: tile.ScanOp) -> None:
    layout, axis = gen.layout(op.inputs[0]), op.axis.value.data
    if layout.repeats[axis] > 1:
        raise PassError(
            f"a scan over {layout.shape[axis]} elements, no power of two, has no form on a GPU",
            help="scan a tile whose extent is a power of two",
            location=location_of(op),
        )
    _Scan(gen, op, layout, axis).run()


class _Scan:
    """One scan; `rows` has a thread's registers for each element of the other dimensions, by segment."""

    def __init__(self, gen: KernelCodegen, op: tile.ScanOp, layout: Layout, axis: int) -> None:
        self.gen, self.op, self.layout, self.axis = gen, op, layout, axis
        self.reverse = bool(op.reverse.value.data)
        self.block = op.combine.block
        self.elements = [tile.element_of(v) for v in op.inputs]
        self.lane_bits = along(layout.lanes, axis)
        self.warp_bits = along(layout.warps, axis)
        self.rows = self._rows()

    def _rows(self) -> dict[Vector, list[list[int]]]:
        layout, axis = self.layout, self.axis
        threads = [v[axis] for v in (*layout.lanes, *layout.warps) if v[axis]]
        segment = 2 * threads[-1] if threads else layout.shape[axis]
        found: dict[Vector, dict[int, list[int]]] = {}
        order = sorted(
            set(layout.register_of.values()),
            key=lambda r: layout.register_offsets[r][axis],
            reverse=self.reverse,
        )
        for r in order:
            offset = layout.register_offsets[r]
            row = found.setdefault(offset[:axis] + offset[axis + 1 :], {})
            row.setdefault(offset[axis] // segment, []).append(r)
        return {place: list(segments.values()) for place, segments in found.items()}

    def run(self) -> None:
        gen, op = self.gen, self.op
        results = [list(gen.parts(v)) for v in op.inputs]
        scanned = [
            [self._in_thread(r, results) for r in segments] for segments in self.rows.values()
        ]
        runs = [[self._across_lanes(line) for line in lines] for lines in scanned]
        if self.warp_bits:
            rows = self._across_warps(runs)
        else:
            rows = [self._across_segments(line) for line in runs]
        for segments, lines in zip(self.rows.values(), rows, strict=True):
            for registers, line in zip(segments, lines, strict=True):
                for r, group in zip(registers, line, strict=True):
                    for parts, value in zip(results, group, strict=True):
                        parts[r] = value
        found = self.layout.register_of
        for i, result in enumerate(op.results):
            gen.bind(result, [results[i][found[o]] for o in self.layout.register_offsets])

    def _combine(self, first: Group, second: Group) -> Group:
        return self.gen.region(self.block, first + second)

    def _select(self, condition: Value, yes: Group, no: Group) -> Group:
        return [self.gen.builder.select(condition, y, n) for y, n in zip(yes, no, strict=True)]

    def _in_thread(self, registers: list[int], inputs: list[list[Value]]) -> Line:
        line = [[parts[r] for parts in inputs] for r in registers]
        for i in range(1, len(line)):
            line[i] = self._combine(line[i - 1], line[i])
        return line

    def _prepend(self, line: Line, prefix: Group, valid: Value | None = None) -> Line:
        """Combine the exclusive prefix of a run into each of its elements, where it is valid."""
        combined = [self._combine(prefix, group) for group in line]
        if valid is None:
            return combined
        return [self._select(valid, c, group) for c, group in zip(combined, line, strict=True)]

    def _after(self, run: _Run, prefix: Group | None = None, valid: Value | None = None) -> Line:
        """The elements of a run after earlier lanes and after `prefix`, where it is valid.

        Prefixes are combined with each other first, so that each element is combined once.
        """
        line, b = run.elements, self.gen.builder
        if prefix is None and run.before is not None:
            return [*self._prepend(line[:-1], run.before, run.has_before), run.total]
        if prefix is None:
            return line
        if run.before is None:
            return self._prepend(line, prefix, valid)
        start = self._combine(prefix, run.before)
        if valid is not None:
            start = self._select(valid, start, run.before)
        if run.has_before is not None:
            start = self._select(run.has_before, start, prefix)
        any_prefix = None
        if valid is not None and run.has_before is not None:
            any_prefix = b.or_(valid, run.has_before)
        return [
            *self._prepend(line[:-1], start, any_prefix),
            *self._prepend([run.total], prefix, valid),
        ]

    # ---- lanes ----

    def _across_lanes(self, line: Line) -> _Run:
        bits, b = self.lane_bits, self.gen.builder
        if not bits:
            return _Run(line, line[-1])
        place, count = self._lane_place(), 1 << len(bits)
        if self.reverse:
            place = b.sub(count - 1, place)
        running = line[-1]
        step = 1
        while step < count:
            combined = self._combine(self._from_earlier(running, step), running)
            use = b.icmp_unsigned(">=", place, step)
            running = self._select(use, combined, running)
            step *= 2
        if len(line) == 1:
            return _Run([running], running)
        valid = b.icmp_unsigned(">", place, 0)
        before = self._from_earlier(running, 1)
        if len(line) <= _FEW_ELEMENTS:
            return _Run([*self._prepend(line[:-1], before, valid), running], running)
        return _Run(line, running, before, valid)

    def _lane_place(self) -> Value:
        """Position of the lane among those along the axis (their bits are consecutive)."""
        b, bits = self.gen.builder, self.lane_bits
        shifted = b.lshr(self.gen.threads.lane, bits[0])
        return b.and_(shifted, (1 << len(bits)) - 1)

    def _from_earlier(self, group: Group, step: int) -> Group:
        """The values of the lane `step` positions earlier along the axis (its own or another's if there is none)."""
        mode, distance = (
            "down" if self.reverse else "up",
            ir.Constant(I32, step << self.lane_bits[0]),
        )
        return [
            shuffle(self.gen, v, e, mode, distance)
            for v, e in zip(group, self.elements, strict=True)
        ]

    def _of_lane(self, group: Group, lane: Value) -> Group:
        return [
            shuffle(self.gen, v, e, "idx", lane) for v, e in zip(group, self.elements, strict=True)
        ]

    # ---- segments ----

    def _across_segments(self, runs: list[_Run]) -> list[Line]:
        """Each segment of a row after the earlier ones, whose total its last lane has."""
        b, carry = self.gen.builder, None
        result: list[Line] = []
        for run in runs:
            found = self._after(run, carry)
            result.append(found)
            carry = found[-1]
            if self.lane_bits and len(runs) > 1:
                mask = sum(1 << bit for bit in self.lane_bits)
                lane = b.and_(self.gen.threads.lane, 31 & ~mask)
                if not self.reverse:
                    lane = b.or_(lane, mask)
                carry = self._of_lane(carry, lane)
        return result

    # ---- warps ----

    def _across_warps(self, rows: list[list[_Run]]) -> list[list[Line]]:
        """Totals go through shared memory; each warp combines those of earlier segments and warps."""
        gen, b = self.gen, self.gen.builder
        parts, segments = 1 << len(self.warp_bits), len(rows[0])
        target = self.layout.drop(self.axis)
        columns = max(1, prod(target.shape))
        shape = (columns, segments * parts)
        tiles = allocate_scratch(gen, [(element, shape) for element in self.elements])
        part = compact(gen, self.warp_bits)
        if self.reverse:
            part = b.sub(parts - 1, part)
        places = [flat_place(gen, target, offset) for offset in self.rows]
        last = self._is_last_lane()
        for place, runs in zip(places, rows, strict=True):
            for s, run in enumerate(runs):
                at = b.add(part, s * parts)
                with where(b, last):
                    for to, value in zip(tiles, run.total, strict=True):
                        poke(self.gen, to, place, at, value)
        gen.barrier()
        return [
            self._after_warps(tiles, place, part, runs)
            for place, runs in zip(places, rows, strict=True)
        ]

    def _after_warps(
        self, tiles: list[SharedTile], place: Value, part: Value, runs: list[_Run]
    ) -> list[Line]:
        """The segments of a row, each after the totals of all earlier segments and of the earlier warps in its own."""
        gen, b, parts = self.gen, self.gen.builder, 1 << len(self.warp_bits)
        running: Group | None = None
        result: list[Line] = []
        for s, run in enumerate(runs):
            prefix, is_last = running, s == len(runs) - 1
            valid = None if running else b.icmp_unsigned(">", part, 0)
            for p in range(parts - is_last):
                at = ir.Constant(I32, s * parts + p)
                total = [peek(gen, where, place, at) for where in tiles]
                running = self._combine(running, total) if running else total
                if prefix is None:
                    prefix = running
                elif p < parts - 1:
                    use = b.icmp_unsigned(">", part, p)
                    prefix = self._select(use, running, prefix)
            result.append(self._after(run, prefix, valid))
        return result

    def _is_last_lane(self) -> Value | None:
        if not self.lane_bits:
            return None
        last = 0 if self.reverse else (1 << len(self.lane_bits)) - 1
        return self.gen.builder.icmp_unsigned("==", self._lane_place(), last)


__all__ = ["lower_scan"]
