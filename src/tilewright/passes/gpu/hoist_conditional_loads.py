"""`hoist-conditional-loads`: predicate the loads of a branch instead of branching around them.

A loop that skips parts of its work (empty splits, masked blocks) loads inside a branch. The loads of the next
iterations cannot be issued before the condition of theirs is known to the branch, so each iteration stalls on its own
loads. A load that is predicated on the condition is an operation of the loop's body, which `prefetch-loads` and
`batch-loads` issue ahead.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %c: i1, %n: i64) {
            %zero = arith.constant 0 : i64
            %one = arith.constant 1 : i64
            scf.for %i = %zero to %n step %one : i64 {
        +     %q = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        +     %x = tile.load %q mask %c : i1 : !tile.ptr<f32> to f32
              scf.if %c {
        -       %q = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        -       %x = tile.load %q : !tile.ptr<f32> to f32
                tile.store %p, %x : !tile.ptr<f32>, f32
              }
            }
            func.return
          }

A load moves with the pure operations that compute its address if nothing in front of it in the branch has an effect.
Loops with dots keep their branches, which decide what tensor cores do. The loads of a loop move as long as their
values take few registers. Requires `assign-layouts`, which decides registers; runs before `prefetch-loads`.
Ensures: the accesses of an execution are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import Mapping, backward_slice, erase, insert_before
from tilewright.passes.analysis.effects import erase_dead, has_effect, is_pure, is_volatile
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.copy_slices import clone_load
from tilewright.passes.gpu.scheduling.shifts import registers
from tilewright.targets import TargetInfo

_DOTS = (gpu.WgmmaOp, tile.DotOp)


@dataclass(frozen=True)
class HoistConditionalLoads(FunctionPass):
    relevant_ops = ("scf.if",)
    requires = ("assign-layouts",)
    registers_per_thread: int = 32
    """Registers of 4 bytes that the loads of a loop may take in each thread."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for loop in list(function.walk()):
            if isinstance(loop, scf.ForOp) and not _has_dots(loop):
                left = self.registers_per_thread
                for branch in list(loop.body.block.ops):
                    if isinstance(branch, scf.IfOp):
                        left = _hoist_from(branch, left)
        erase_dead(function.body.block)


def _has_dots(loop: scf.ForOp) -> bool:
    return any(isinstance(op, _DOTS) for op in loop.body.walk())


def _hoist_from(branch: scf.IfOp, left: int) -> int:
    """Move the loads of both sides in front of a branch; returns the registers that are left."""
    for taken, region in enumerate((branch.false_region, branch.true_region)):
        active: SSAValue | None = None
        for block in region.blocks:
            moved: Mapping = {}
            for load in _movable(block):
                words = registers(load.result)
                if words > left:
                    continue
                left -= words
                active = active or _condition(branch, bool(taken))
                _move(load, block, branch, active, moved)
    return left


def _movable(block: Block) -> list[tile.Load]:
    """The loads of a side that nothing with an effect comes before."""
    found: list[tile.Load] = []
    for op in block.ops:
        if has_effect(op):
            break
        if isinstance(op, tile.Load) and not is_volatile(op):
            found.append(op)
    return found


def _condition(branch: scf.IfOp, taken: bool) -> SSAValue:
    """i1: whether the branch takes that side."""
    if taken:
        return branch.cond
    e = Emitter(branch)
    return e.binary(arith.XOrIOp, branch.cond, e.constant(1, i1))


def _move(
    load: tile.Load, block: Block, branch: scf.IfOp, active: SSAValue, moved: Mapping
) -> None:
    """Load in front of the branch, if `active`; `moved`: values of the side that are computed there already."""
    needed = backward_slice(block, load.operands, is_pure, stop=lambda op: op.results[0] in moved)
    if needed is None:
        return  # it depends on a load that stays
    for op in needed[0]:
        insert_before(op.clone(moved), branch)
    hoisted = clone_load(load, moved, active, Emitter(branch)).results[0]
    hoisted.name_hint = load.result.name_hint
    moved[load.result] = hoisted
    load.result.replace_all_uses_with(hoisted)
    erase(load)
