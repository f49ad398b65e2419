"""Anchor layouts: of each tile the layout in which the operation that defines it works best.

Accesses want neighbouring addresses in neighbouring lanes, tensor cores prescribe fragments, the
rest follows its operands. Tiles that cost nothing to make anywhere (constants, aranges, masks) have
no anchor, nor do changes of shape: they take the layout their user asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.types import position_of
from tilewright.ir.walk import closure, innermost_loop
from tilewright.layouts import Layout
from tilewright.layouts.blocked import blocked, outer_product_layout, reduced_access_layout
from tilewright.layouts.fragments import COLUMNS, ROWS, mma_layouts, parse_wgmma
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import (
    WIDEST,
    View,
    access_layout,
    accesses_as_well,
    contiguous_dim,
    default_layout,
    run_length,
)
from tilewright.passes.gpu.analysis.accumulator_factors import AccumulatorFactors
from tilewright.passes.gpu.analysis.common_runs import (
    CommonRuns,
    operands_of,
    results_of,
    users_of,
)
from tilewright.passes.gpu.analysis.gathers import GatherLayouts, is_gather, is_memory_reduction
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.shape_layouts import (
    LONGEST_RUN,
    divided_over_lanes,
    moved_layout,
    reduced_beside,
    reduces_across_warps,
    scan_layout,
)
from tilewright.passes.gpu.analysis.split_networks import joined, loaded_for_splits, split_source
from tilewright.passes.gpu.select_mma import SHARED_FMA, instruction_of, is_wgmma, reads_shared

REMAPS = frozenset(
    (tile.BroadcastOp, tile.ExpandDimsOp, tile.TransOp, tile.ReshapeOp, tile.HintOp)
)  # fmt: skip
"""Operations whose result is the source under other coordinates."""
_ACCESSES = (tile.Load, tile.Store)
_MOST_ROWS_OF_A_WARP = 64
"""Rows of a dot up to which warps have whole columns, and all of them read the left operand."""
_ROW = 128
"""Bytes that neighbouring lanes store side by side: a cache line."""
EXPENSIVE = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.divf")


def is_cheap(op: Operation) -> bool:
    """Whether an element-wise operation takes an instruction or two."""
    if op.name in EXPENSIVE:
        return _divides_by_power_of_2(op)
    return is_pure_elementwise(op) and not op.name.startswith("math.")


def _divides_by_power_of_2(op: Operation) -> bool:
    """Whether an integer is divided by a constant power of two: shifts or a mask."""
    by = uniform_constant(op.operands[1])
    return isinstance(by, int) and by > 0 and by & (by - 1) == 0


class AnchorLayouts:
    """Homes of the tiles of one function; `of` gives None for tiles without one."""

    def __init__(self, function: FuncOp, warps: int) -> None:
        self.warps = warps
        self.known = Facts()
        self._anchors: dict[SSAValue, Layout | None] = {}
        self.operands: dict[Operation, tuple[Layout, ...]] = {}
        """Of MMAs, reductions, scans and splits. Chosen with the results': conversions hide the loads that decide them."""
        self._free: dict[SSAValue, bool] = {}
        self._common_runs = CommonRuns(self.known, self.is_free)
        self._open_loops = 0
        """Enclosing loops whose carried tiles have no anchor layout yet: neither has what is computed from those alone."""
        self._of_clusters: dict[tuple[int, ...], Layout] | None = (
            {} if num_ctas_of(function) > 1 else None
        )
        self._rows_of_reductions: set[SSAValue] = set()
        self._divided: set[Layout | None] = set()
        """Layouts of carried tiles that lanes divide instead of holding copies."""
        self._gathers = GatherLayouts(function, warps)
        self._factors = AccumulatorFactors(self._of_accumulator, self.is_free)
        self._splits = any(isinstance(op, tile.SplitOp) for op in function.walk())
        self._block(function.body.block)

    def access(self, op: Operation) -> Layout:
        """The layout in which an access is done with the fewest transactions, and like the gathers around it."""
        around = self._gathers.accesses.get(op)
        if around is not None and is_gather(op):
            return around
        best = access_layout(op, self.known, self.warps, self._common_runs.of(op))
        if around is None or not isinstance(op, View):
            return best
        return around if accesses_as_well(op, tile.accessed(op), around, best) else best

    def is_free(self, value: SSAValue) -> bool:
        """Whether a tile is cheaper to make where it is wanted than to move: constants, aranges, and arithmetic on
        such, or on broadcasts of smaller tiles."""
        found = self._free.get(value)
        if found is None:
            found = self._free[value] = self._makes_free(value.owner)
        return found

    def _makes_free(self, op: Operation | Block) -> bool:
        if isinstance(op, Block):
            return False
        if type(op) is tile.ArangeOp or type(op) is tile.SplatOp:
            return True
        if type(op) in REMAPS or is_cheap(op):
            if all(not tile.is_tile(v) or self.is_free(v) for v in op.operands):
                return True
            return type(op) not in REMAPS and self._of_broadcasts(op)
        return False

    def _of_broadcasts(self, op: Operation) -> bool:
        """Whether an operation on broadcasts of smaller tiles alone has one user, in the same block, or is the mask of
        accesses in the same block."""
        uses = [use.operation for result in op.results for use in result.uses]
        return (
            (len(uses) == 1 or all(isinstance(user, _ACCESSES) for user in uses))
            and all(user.parent is op.parent for user in uses)
            and all(
                not tile.is_tile(v) or isinstance(v.owner, tile.BroadcastOp) or self.is_free(v)
                for v in op.operands
            )
        )

    def of(self, value: SSAValue) -> Layout | None:
        """The anchor layout of a tile, looking through changes of shape where they keep one."""
        if value in self._anchors:
            return self._anchors[value]
        op = value.owner
        if not isinstance(op, tile.ExpandDimsOp | tile.TransOp | tile.ReshapeOp | tile.HintOp):
            return None
        found = self.of(op.source)
        return found and moved_layout(op, found)

    def _of_accumulator(self, value: SSAValue) -> Layout | None:
        """The anchor layout of a tile; of a dot's result also before the walk has come to the dot."""
        op = value.owner
        return accumulator_layout(op, self.warps) if isinstance(op, tile.DotOp) else self.of(value)

    def default(self, value: SSAValue) -> Layout:
        """The anchor layout, or a default for tiles that have none."""
        return self.of(value) or default_layout(tile.shape_of(value), self.warps)

    def in_place(self, value: SSAValue, best: Layout) -> Layout:
        """`best`, unless `value` is a row that the CTAs of a cluster share: all rows of one length have the layout
        of the first one then, for another would be asked for through another CTA's memory."""
        shape = tile.shape_of(value)
        if self._of_clusters is None or prod(shape) != max(shape):
            return best
        return self._of_clusters.setdefault(shape, best)

    # ---- the walk ----

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case scf.ForOp():
                    self._for(op)
                case scf.WhileOp():
                    self._while(op)
                case scf.IfOp():
                    self._if(op)
                case _:
                    self._visit(op)

    def _visit(self, op: Operation) -> None:
        tiles = [r for r in op.results if tile.is_tile(r)]
        if not tiles or type(op) in REMAPS or all(self.is_free(r) for r in tiles):
            return
        for result, layout in zip(tiles, self._layouts(op, tiles), strict=True):
            self._anchors[result] = layout
            if len(tile.shape_of(result)) == 1 and self._is_of_reduction(op):
                self._rows_of_reductions.add(result)

    def _is_of_reduction(self, op: Operation) -> bool:
        """Whether an operation reduces a tile, or computes element-wise from what another has reduced."""
        rows = self._rows_of_reductions.intersection(op.operands)
        return isinstance(op, tile.ReduceOp) or (is_pure_elementwise(op) and bool(rows))

    def _layouts(self, op: Operation, tiles: list[Any]) -> Sequence[Layout | None]:
        if is_pure_elementwise(op):
            return self._alike(op, tiles)
        if isinstance(op, tile.Load):
            layout = self._loaded_for_users(op) or self.access(op)
            return [self.in_place(tiles[0], layout)]
        if isinstance(op, tile.DotOp):
            if instruction_of(op) != "fma" and not reads_shared(op):
                self.operands[op] = dot_layouts(op, self.warps)
            return [accumulator_layout(op, self.warps)]
        if isinstance(op, tile.AtomicRMWOp) and is_memory_reduction(op):
            return [self._memory_reduction(op)]
        if isinstance(op, tile.ReduceOp):
            self.operands[op] = (source := self.reduced(op),) * len(tiles)
            return [source.drop(op.axis.value.data)] * len(tiles)
        if isinstance(op, tile.ScanOp):
            self.operands[op] = (scan_layout(op, self.known, self.warps),) * len(tiles)
            return self.operands[op]
        if isinstance(op, tile.JoinOp):
            return [joined(self.default(op.lhs))]
        if isinstance(op, tile.SplitOp):
            source = split_source(op, self.default(op.source), self.warps, self.access)
            self.operands[op] = (source,)
            return [source.drop(source.rank - 1)] * 2
        return self._alike(op, tiles)

    def _loaded_for_users(self, op: tile.Load) -> Layout | None:
        """The layout of a load that the scan or the splits it is for take as it is; None where there is none."""
        if not isinstance(op, tile.LoadViewOp):
            return None
        scanned = _scanned_layout(op, self.access(op), self.known, self.warps)
        if scanned is not None or not self._splits:
            return scanned
        return loaded_for_splits(op, self.known, self.warps)

    def _memory_reduction(self, op: tile.AtomicRMWOp) -> Layout:
        """The layout of the values that are added to memory, unless lanes hold copies or runs longer than an instruction
        takes; then that in which it touches the fewest sectors."""
        best, anchor = self._gathers.accesses[op], self.of(op.value)
        if anchor is None or (anchor.replicated("lanes") and not best.replicated("lanes")):
            return best
        size, last = tile.element_bytes(op.value), best.rank - 1
        run = best.num_consecutive(last, WIDEST)
        too_long = run * size == WIDEST and anchor.num_consecutive(last, WIDEST) > run
        return best if too_long else anchor

    def _alike(self, op: Operation, tiles: list[Any]) -> Sequence[Layout | None]:
        """The layout of an operand of the same shape for all results, or of what the only user combines them with.
        Operands that a loop computes come first: the others change their layout before the loop. Of rows and columns
        those of reductions do: in their layout they are broadcast, and others are loaded in any."""
        same = [v for v in op.operands if tile.shape_of(v) == tile.shape_of(tiles[0])]
        same.sort(key=lambda v: self.of(v) not in self._divided)
        same.sort(key=lambda v: (not _is_loop_variant(v, op), v not in self._rows_of_reductions))
        found = self._factors.layout(tiles[0]) if is_pure_elementwise(op) else None
        found = found or next((h for v in same if (h := self.of(v)) is not None), None)
        found = found or self._gathers.addresses.get(tiles[0]) or self._of_other_operand(op)
        if not any(_is_loop_variant(v, op) and self.of(v) is not None for v in same):
            found = self._reduced_in_loop(op, tiles[0]) or found
        return [found or self._fallback(tiles[0])] * len(tiles)

    def _reduced_in_loop(self, op: Operation, value: SSAValue) -> Layout | None:
        """The layout for a tile that a loop reduces, and computes of nothing but tiles from before it, rows and columns:
        threads hold runs along the axis, so that a reduction takes few shuffles. Where the loop stores the tile, too,
        lanes store whole rows side by side."""
        loop = op.parent_op()
        if not isinstance(loop, scf.ForOp | scf.WhileOp) or len(tile.shape_of(value)) != 2:
            return None
        shape, share = tile.shape_of(value), _share(tile.shape_of(value), self.warps)
        uses = [use for made in closure([value], results_of) for use in made.uses]
        reductions = (use.operation for use in uses if isinstance(use.operation, tile.ReduceOp))
        found = next((user for user in reductions if user.parent is op.parent), None)
        if found is None:
            return None
        axis, run = found.axis.value.data, min(LONGEST_RUN, share)
        for store in (use.operation for use in uses if loop.is_ancestor(use.operation)):
            if isinstance(store, tile.StoreViewOp) and (dim := contiguous_dim(store)) is not None:
                access = min(run_length(store, self.known), share)
                row = _ROW // tile.element_bytes(store.value)
                return reduced_access_layout(shape, self.warps, axis, dim, (access, row, run))
        return blocked(shape, self.warps, run, (axis, 1 - axis))

    def _fallback(self, value: SSAValue) -> Layout | None:
        """The layout of a tile that nothing prescribes one for: that of its first use that has one."""
        if self._open_loops:
            return None
        shape = tile.shape_of(value)
        for op, made in users_of(value):
            if isinstance(op, _ACCESSES) and tile.shape_of(tile.accessed(op)) == shape:
                return self.access(op)
            others = op.operands if is_pure_elementwise(op) else ()
            for other in others:
                found = self._anchors.get(other)
                if other is not made and found is not None and found.shape == shape:
                    return found
        return default_layout(shape, self.warps)

    def _of_other_operand(self, op: Operation) -> Layout | None:
        """The layout of the tile that element-wise operations combine the result of `op` with, where each
        has one user: factors made of rows and columns are computed in the layout of a dot's accumulator."""
        current = op
        while len(current.results) == 1:
            value = current.results[0]
            use = value.get_unique_use()
            if use is None or not is_pure_elementwise(use.operation):
                return None
            current = use.operation
            for other in current.operands:
                if other is not value and tile.shape_of(other) == tile.shape_of(value):
                    found = self.of(other)
                    if found is None and isinstance(other.owner, tile.DotOp):
                        found = accumulator_layout(other.owner, self.warps)
                    if found is not None:
                        return found
        return None

    def reduced(self, op: tile.ReduceOp) -> Layout:
        """The layout in which the inputs of a reduction are combined: theirs, or if they can be made in any, that of the
        tile that the result is combined with, where a thread can hold the whole axis."""
        anchors = [h for v in op.inputs if (h := self.of(v)) is not None]
        if anchors:
            return anchors[0]
        layout = reduced_beside(op, self._of_other_operand(op))
        return layout or default_layout(tile.shape_of(op.inputs[0]), self.warps)

    # ---- control flow ----

    def _for(self, op: scf.ForOp) -> None:
        body = op.body.block
        carried = [
            (init, arg, result)
            for init, arg, result in zip(op.iter_args, body.args[1:], op.results, strict=True)
            if tile.is_tile(arg)
        ]
        self._anchors.update((arg, None) for _, arg, _ in carried)
        self._open_loops += 1
        # What a loop yields decides what it carries: the initial value changes its layout once.
        for _ in range(2):
            self._block(body)
            for init, arg, result in carried:
                yielded = self.of(end_of(body).operands[position_of(result)])
                self._anchors[arg] = yielded or self.of(init)
        self._open_loops -= 1
        args = [arg for _, arg, _ in carried]
        for _, arg, result in carried:
            anchor = self._anchors[arg] or self._of_another(arg, args) or self._fallback(arg)
            if anchor is not None and (divided := divided_over_lanes(anchor)) is not None:
                self._divided.add(anchor := divided)
            self._anchors[arg] = self._anchors[result] = anchor
        for init, arg, _ in carried:
            self._load_for(op, init, self._anchors[arg])
        self._block(body)

    def _load_for(self, loop: scf.ForOp, init: SSAValue, layout: Layout | None) -> None:
        """Load what only initializes a carried tile in the layout of that, where this takes no more transactions."""
        made = [v for v in closure([init], operands_of) if not self.is_free(v)]
        users = {loop, *(v.owner for v in made)}
        anchors = {self._anchors.get(v) for v in made}
        if layout is None or len(anchors) > 1 or None in anchors or layout in anchors:
            return
        if any(use.operation not in users for v in made for use in v.uses):
            return
        sources = [v for v in made if not operands_of(v)]
        if all(_loads_as_well(v.owner, layout, self._anchors[v]) for v in sources):
            self._anchors.update((v, layout) for v in made)

    def _of_another(self, value: SSAValue, others: Sequence[SSAValue]) -> Layout | None:
        """The anchor layout of another tile of the same shape that the loop carries (an accumulator, for a count)."""
        same = (v for v in others if tile.shape_of(v) == tile.shape_of(value))
        return next((h for v in same if (h := self._anchors.get(v)) is not None), None)

    def _if(self, op: scf.IfOp) -> None:
        for region in op.regions:
            if region.blocks:
                self._block(region.block)
        for i, result in enumerate(op.results):
            if tile.is_tile(result):
                ends = [self.of(end_of(r.block).operands[i]) for r in op.regions]
                found = next((e for e in ends if e is not None), None)
                self._anchors[result] = found or self._fallback(result)

    def _while(self, op: scf.WhileOp) -> None:
        """As of `scf.for`: what the loop yields decides on what nothing prescribes a layout for before it."""
        before, after = op.before_region.block, op.after_region.block
        args = [arg for arg in before.args if tile.is_tile(arg)]
        self._anchors.update((arg, self.of(op.arguments[position_of(arg)])) for arg in args)
        self._open_loops += 1
        for _ in range(2):
            self._while_regions(op)
            for arg in args:
                yielded = self.of(end_of(after).operands[position_of(arg)])
                self._anchors[arg] = self._anchors[arg] or yielded
        self._open_loops -= 1
        for arg in args:
            found = self._anchors[arg] or self._of_another(arg, args) or self._fallback(arg)
            self._anchors[arg] = found
        self._while_regions(op)

    def _while_regions(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        self._block(before)
        for i, (arg, result) in enumerate(zip(after.args, op.results, strict=True)):
            if tile.is_tile(arg):
                anchor = self.of(end_of(before).operands[i + 1])
                if anchor is None and not self._open_loops:
                    anchor = self._fallback(arg)
                self._anchors[arg] = self._anchors[result] = anchor
        self._block(after)


def _loads_as_well(op: Operation | Block, layout: Layout, best: Layout | None) -> bool:
    """Whether a load takes no more transactions in a layout than in the best one, and lanes no longer runs."""
    if best is None or not isinstance(op, tile.LoadViewOp):
        return False
    dim, size = contiguous_dim(op), tile.element_bytes(op.result)
    longest = dim is not None and layout.num_consecutive(dim, 2 * WIDEST) * size <= WIDEST
    return longest and accesses_as_well(op, op.result, layout, best)


def _is_loop_variant(value: SSAValue, op: Operation) -> bool:
    """Whether the innermost loop around `op` computes or carries `value`."""
    loop = innermost_loop(op)
    return loop is None or loop.is_ancestor(value.owner)


# ---- layouts that operations prescribe ------------------------------------------------------------


def dot_layouts(op: tile.DotOp, warps: int) -> tuple[Layout, Layout, Layout]:
    """Layouts of A, B and the accumulator of a dot on tensor cores."""
    *batch, m, k = tile.shape_of(op.lhs)
    n = tile.shape_of(op.rhs)[-1]
    shapes = instruction_of(op), (m, n, k), warps
    if batch:
        return mma_layouts(*shapes, batch[0])
    if _in_chain(op):
        return mma_layouts(*shapes, along=ROWS)
    layouts = mma_layouts(*shapes)
    if m <= _MOST_ROWS_OF_A_WARP and reduces_across_warps(op.result, layouts[-1]):
        columns = mma_layouts(*shapes, along=COLUMNS)
        if not reduces_across_warps(op.result, columns[-1]):
            return columns
    return layouts


def _in_chain(op: tile.DotOp) -> bool:
    """Whether the left operand is computed element-wise from an accumulator, or the result makes such an operand: with
    whole rows a warp, those registers need not move (attention)."""
    return any(
        isinstance(value.owner, tile.DotOp) and value is not op.result
        for value in closure([op.lhs], operands_of)
    ) or any(
        isinstance(use.operation, tile.DotOp) and use.index == 0
        for value in closure([op.result], results_of)
        for use in value.uses
    )


def accumulator_layout(op: tile.DotOp, warps: int) -> Layout:
    """The layout of a dot's result."""
    if is_wgmma(op):
        m, n = tile.shape_of(op.result)
        partition = partition_wgmma(parse_wgmma(instruction_of(op)), m, n, warps)
        if partition is not None:
            return partition.accumulator_layout
    if instruction_of(op) == SHARED_FMA:
        return outer_product_layout(
            tile.shape_of(op.result), warps, (_runs(op.lhs, 0), _runs(op.rhs, 1))
        )
    if instruction_of(op) != "fma":
        return dot_layouts(op, warps)[2]
    shape = tile.shape_of(op.result)
    return blocked(shape, warps, min(4, _share(shape, warps)))


def _share(shape: tuple[int, ...], warps: int) -> int:
    """Elements of a tile per thread."""
    return max(1, prod(shape) // (32 * warps))


def _runs(value: SSAValue, dim: int) -> bool:
    """Whether an operand comes contiguous along `dim` from memory (along columns when it is unknown)."""
    load = value.owner
    found = contiguous_dim(load) if isinstance(load, tile.LoadViewOp) else None
    return (1 if found is None else found) == dim


def _scanned_layout(load: tile.LoadViewOp, best: Layout, known: Facts, warps: int) -> Layout | None:
    """The layout of the scan that a load is for, where it reads memory in it about as well as in `best`: always
    elements that are no neighbors in memory, unless their addresses are in a layout of their own."""
    if load.indices:
        return None
    for value in closure([load.result], results_of):
        for use in value.uses:
            if isinstance(use.operation, tile.ScanOp):
                layout = scan_layout(use.operation, known, warps)
                return layout if accesses_as_well(load, load.result, layout, best) else None
    return None
