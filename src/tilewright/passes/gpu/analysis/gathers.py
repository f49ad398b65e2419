"""Layouts of gathers and scatters: as wide as their addresses are known to run, and the same as the accesses around.

A gather through a tile of pointers or indices takes several neighbors at once where `LaneGroups` proves that their
addresses are consecutive and aligned. One whose addresses are unknown, or a load with strides of which none is 1, works
in any layout: it takes the layout of the accesses that it is combined with, so that neither its addresses nor its
values cross threads through shared memory.
"""

from __future__ import annotations

from math import prod
from typing import TypeGuard, cast

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.layouts import Layout
from tilewright.layouts.blocked import blocked
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.lane_groups import Kind, LaneGroups
from tilewright.passes.gpu.analysis.accesses import (
    INDEX_RUNS,
    WIDEST,
    access_layout,
    contiguous_dim,
    narrow_run,
    run_length,
    tile_of,
)

Gather = tile.LoadOp | tile.StoreOp | tile.AtomicRMWOp
_LARGEST_CLUSTER = 1000
"""Values that are searched for accesses around a gather."""


def is_gather(op: Operation) -> TypeGuard[Gather]:
    """Whether an operation accesses memory through a tile of pointers."""
    return isinstance(op, Gather) and tile.is_tile(op.pointer)


def is_scatter(op: Operation) -> bool:
    """Whether an operation writes through a tile of pointers or indices."""
    if isinstance(op, tile.StoreViewOp):
        return "indexed" in tile.view_kinds(op)
    return isinstance(op, tile.StoreOp | tile.AtomicRMWOp) and is_gather(op)


def is_memory_reduction(op: Operation) -> bool:
    """Whether an operation combines a tile with memory and gives nothing back (PTX ISA, `red`)."""
    return isinstance(op, tile.AtomicRMWOp) and tile.is_tile(op.pointer) and not op.result.uses


def _has_no_run(op: Operation) -> bool:
    """Whether a structured access has indices, or strides of which none is 1."""
    return (
        isinstance(op, tile.View) and tile.is_tile(tile.accessed(op)) and contiguous_dim(op) is None
    )


def _index_runs(op: Operation, groups: LaneGroups) -> tuple[int, int] | None:
    """The dimension along which the indices of a view count upwards in groups, and the size of these."""
    kinds, size = tile.view_kinds(op), tile.element_bytes(tile.accessed(op))
    shape, indices = tile.shape_of(tile_of(op)), iter(cast(tile.LoadViewOp, op).indices)
    for dim, kind in enumerate(kinds):
        if kind != "indexed":
            continue
        most = min(WIDEST // size, shape[dim] & -shape[dim])
        run = groups.counting_run(next(indices), 0, most)
        if run > 1:
            return dim, run
    return None


def gather_run(op: Gather, groups: LaneGroups) -> tuple[int, int]:
    """The dimension along which one aligned access may take several elements, and their number (1: none)."""
    shape = tile.shape_of(op.pointer)
    size = tile.element_bytes(tile.accessed(op))
    best = (len(shape) - 1, 1)
    for dim in reversed(range(len(shape))):
        run = WIDEST // size
        while run > best[1]:
            if shape[dim] % run == 0 and _runs(op, groups, dim, run, size):
                best = (dim, run)
            run //= 2
    return best


def _runs(op: Gather, groups: LaneGroups, dim: int, run: int, size: int) -> bool:
    """Whether the addresses of each group of `run` elements are consecutive and aligned, and all or none is active."""
    found = groups.of(op.pointer, dim, run)
    if (
        found is None
        or found.kind is not Kind.COUNTING
        or (run * size).bit_length() - 1 > found.zeros
    ):
        return False
    return groups.is_equal(op.mask, dim, run)


class GatherLayouts:
    """Layouts of the gathers of a function, of accesses around them, and of the arithmetic of their addresses."""

    def __init__(self, function: FuncOp, warps: int) -> None:
        self.warps = warps
        self.accesses: dict[Operation, Layout] = {}
        """The common layout of a gather and of the accesses that it is combined with."""
        self.addresses: dict[SSAValue, Layout] = {}
        """The layout in which pointers and masks of gathers are computed."""
        gathers = [op for op in function.walk() if is_gather(op) or _has_no_run(op)]
        if not gathers:
            return
        self.facts = Facts(address_arithmetic(function))
        self.groups = LaneGroups(self.facts)
        for op in gathers:
            if _has_no_run(op):
                runs = _index_runs(op, self.groups)
                if runs is not None:
                    op.attributes[INDEX_RUNS] = DenseArrayBase.from_list(i64, runs)
        for op in gathers:
            if op not in self.accesses:
                self._cluster(op)

    def _cluster(self, gather: Operation) -> None:
        """Assign one layout to all accesses that element-wise operations connect with a gather.

        A scatter that takes fewer elements at once keeps its own: the caches do not join the partial sectors that
        threads with several neighbors each would write one after the other (reshape_and_cache of flag_gems: 359 µs instead of 152).
        """
        preferred = {op: self._preferred(op) for op in _connected(gather)}
        run, layout = self._common(preferred)
        for op, own in preferred.items():
            narrow = own[0] < run and own[0] * _size(op) < WIDEST
            narrow = narrow or (own[0] != run and _adds_vectors(op, own[0]))
            self.accesses[op] = own[1] if is_scatter(op) and narrow else layout
        for op in sorted(preferred, key=lambda op: not is_scatter(op)):  # scatters compute first
            if is_gather(op):
                values = (op.pointer, op.mask)
            elif "indexed" in tile.view_kinds(op):
                values = (*cast(tile.LoadViewOp, op).indices, cast(tile.LoadViewOp, op).mask)
            else:
                continue
            for value in values:
                self._compute_in(value, self.accesses[op])

    def _common(self, preferred: dict[Operation, tuple[int, Layout]]) -> tuple[int, Layout]:
        """The widest access and its layout; or a reduction in memory, where other accesses keep 8 bytes. An access of rows
        that are not known to be aligned comes first: with longer runs each of its instructions touches more sectors.

        A sector that two instructions add halves to is read and written twice (fp32 gradients of bf16 embeddings:
        282 µs with 8 elements per thread instead of 226 with 4).
        """
        widest = max(preferred.values(), key=lambda found: found[0])
        adding = [own for op, own in preferred.items() if _adds_vectors(op, own[0])]
        if adding:
            smallest = min(_size(other) for other in preferred)
            return next((own for own in adding if own[0] * smallest >= WIDEST // 2), widest)
        views = {op: own for op, own in preferred.items() if isinstance(op, tile.View)}
        narrow = [own for op, own in views.items() if narrow_run(op, self.facts)]
        return min(narrow, key=lambda found: found[0], default=widest)

    def _preferred(self, op: Operation) -> tuple[int, Layout]:
        """Elements that an access takes at once by itself, and its layout then."""
        if isinstance(op, tile.View):
            run = run_length(op, self.facts) if contiguous_dim(op) is not None else 1
            return run, access_layout(op, self.facts, self.warps)
        dim, run = gather_run(cast(tile.LoadOp, op), self.groups)
        shape = tile.shape_of(tile_of(op))
        if is_memory_reduction(op):
            run = max(run, self._added_together(cast(tile.AtomicRMWOp, op)))
        order = [dim, *(d for d in reversed(range(len(shape))) if d != dim)]
        share = max(1, prod(shape) // (32 * self.warps))
        return run, blocked(shape, self.warps, min(run, share), tuple(order))

    def _added_together(self, op: tile.AtomicRMWOp) -> int:
        """Neighbours along the last dimension that one instruction may add to, whose alignment it tests."""
        if op.kind.data != "fadd":
            return 1
        last = len(tile.shape_of(op.value)) - 1
        return self.groups.counting_run(op.pointer, last, WIDEST // _size(op))

    def _compute_in(self, value: SSAValue | None, layout: Layout) -> None:
        pending = [value]
        while pending:
            current = pending.pop()
            if current is None or not tile.is_tile(current) or current in self.addresses:
                continue
            op, same = current.owner, tile.shape_of(current) == layout.shape
            if same and isinstance(op, Operation) and is_pure_elementwise(op):
                self.addresses[current] = layout
                pending += op.operands


def _adds_vectors(op: Operation, run: int) -> bool:
    """Whether an access adds `run` elements to memory with one instruction, and no more can be."""
    return is_memory_reduction(op) and run * _size(op) == WIDEST


def _size(op: Operation) -> int:
    """Bytes of an element of an access."""
    return tile.element_bytes(tile.accessed(op))


def _connected(gather: Operation) -> list[Operation]:
    """Accesses of the same shape and block that element-wise operations connect with a gather, itself included."""
    shape = tile.shape_of(tile_of(gather))
    accesses: dict[Operation, None] = {}
    seen: set[Operation] = {gather}
    pending = [gather]
    while pending and len(seen) < _LARGEST_CLUSTER:
        op = pending.pop()
        access = is_gather(op) or isinstance(op, tile.View)
        if access:
            if tile.shape_of(tile_of(op)) != shape:
                continue  # another tile's rows, whose indices or masks these are
            accesses[op] = None
        elif not is_pure_elementwise(op):
            continue
        values = [v for v in (*op.operands, *op.results) if tile.is_tile(v)]
        for value in values:
            if tile.shape_of(value) != shape:
                continue
            around = [value.owner, *(use.operation for use in value.uses)]
            for other in around:
                if isinstance(other, Operation) and other not in seen and other.parent is op.parent:
                    seen.add(other)
                    pending.append(other)
    return list(accesses)
