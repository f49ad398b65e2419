"""`reduce-num-warps`: reduce the number of warps to what the tiles of a program can occupy.

`num_warps` is the author's guess at how many threads share the work. Where tiles are small, many of
them would hold a few elements each, or copies: they repeat the address arithmetic, the loads and every
reduction, and keep other programs off the SM. This pass lowers `gpu.num_warps` until every thread
has `share` elements of the largest tile (one access of 16 bytes in fp32); and more than `schedulers`
warps, which keep an SM's schedulers busy without help, need twice that. Where accesses take fewer elements at once on
average (gathers, strides), every thread has as many as those take. In a recurrence or a search of independent elements
every thread has one: iterations run one after another, and each takes as long as a thread's share of it.

    Change:
        - func.func @k(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
        + func.func @k(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 2 : i32} {
            %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
            tile.store_view %x, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
            func.return
          }

Only inline PTX sees how many threads a program has: programs with some that is not pure keep their warps
(it may name a barrier for `tl.extra.cuda.num_threads()`). So do programs with dots (tensor cores prescribe who
holds what). Programs without tiles get one warp: others would do the same, and wait in barriers between loads and
stores of one address. Guarantees: `gpu.num_warps` is a power of two, at least 1 and at most what it was. The launch has
as many threads as it says at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.dialects.func import FuncOp

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import contiguous_dim, run_length
from tilewright.passes.gpu.analysis.num_ctas import WARPS, num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.recurrences import is_recurrence, is_search
from tilewright.targets import TargetInfo

_LANES = 32
_ACCESSES = tile.View | tile.LoadOp | tile.StoreOp | tile.AtomicRMWOp


@dataclass(frozen=True)
class ReduceNumWarps(FunctionPass):
    elements_per_thread: int = 4
    """Elements of the largest tile that each thread should have at least."""
    schedulers_per_sm: int = 4
    """More warps than this must have twice as many elements a thread."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        largest = _largest_tile(function)
        warps = warps_of(function)
        wanted = min(self.elements_per_thread, _mean_run(function))
        if any(isinstance(op, scf.ForOp) and _is_elementwise(op) for op in function.walk()):
            wanted = 1
        while largest and warps > max(1, num_ctas_of(function)):
            share = wanted * (2 if warps > self.schedulers_per_sm else 1)
            if largest >= _LANES * warps * share:
                break
            warps //= 2
        function.attributes[WARPS] = IntegerAttr(warps, i32)


def _is_elementwise(loop: scf.ForOp) -> bool:
    """Whether a loop is a recurrence or a search in which elements do not depend on each other."""
    exchanges = (tile.ReduceOp, tile.ScanOp, tile.DotOp)
    serial = is_recurrence(loop) or is_search(loop)
    return serial and not any(isinstance(op, exchanges) for op in loop.body.walk())


def _mean_run(function: FuncOp) -> int:
    """Elements that accesses to memory take at once on average: gathers (from tiles, too) and strided accesses one each,
    whoever does them, so that more of them per thread only wait for each other."""
    known = Facts(address_arithmetic(function))
    runs = [
        run_length(op, known) if isinstance(op, tile.View) and contiguous_dim(op) is not None else 1
        for op in function.walk()
        if isinstance(op, tile.GatherOp)
        or (isinstance(op, _ACCESSES) and tile.is_tile(tile.accessed(op)))
    ]
    return max(1, sum(runs) // len(runs)) if runs else _LANES


def _largest_tile(function: FuncOp) -> int:
    """Elements of the largest tile (1 of scalars); 0: an operation needs the warps."""
    largest = 1
    for op in function.walk():
        if isinstance(op, tile.DotOp) or (isinstance(op, tile.InlineAsmOp) and not is_pure(op)):
            return 0
        largest = max([largest, *(prod(tile.shape_of(r)) for r in op.results if tile.is_tile(r))])
    return largest
