"""`cse`: common-subexpression elimination of pure operations.

    Change:
          func.func @k(%p: !tile.ptr<i32>, %x: i32, %c: i1) {
            %a = arith.addi %x, %x : i32
            tile.store %p, %a : !tile.ptr<i32>, i32
            scf.if %c {
        -     %b = arith.addi %x, %x : i32
        -     tile.store %p, %b : !tile.ptr<i32>, i32
        +     tile.store %p, %a : !tile.ptr<i32>, i32
            }
            func.return
          }

Relies on: nothing.

Guarantees: an operation is replaced only by one that dominates it; reductions and scans count as
equal when their regions are. Commutative operations match in either order of operands. Loads are
left alone, but with `loads`, for back ends that keep tiles in registers, a block loads once what it loads again with
no effect in between: no store, atomic, barrier or assembly, and no loop that has one. A loop does not carry a value that each iteration
computes as it was computed before the loop (kernels define offsets again in their loops). Floating constants are compared by
bits, so 0.0 and -0.0 stay distinct and NaN equals itself.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.traits import Commutative

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.effects import has_effect, is_pure, is_terminator, is_volatile
from tilewright.passes.base import Pass
from tilewright.passes.folding.control import prune_carried
from tilewright.targets import TargetInfo

Table = dict[Hashable, list[Operation]]


@dataclass(frozen=True)
class Cse(Pass):
    idempotent = True
    loads: bool = False
    """Eliminate redundant loads of a block, too."""

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in module.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    _block(block, {}, self.loads)


def _key(op: Operation) -> Hashable:
    """Equal for operations that compute the same, apart from their regions and what `_same` compares: to
    hash an attribute takes longer than to compare two."""
    kind = type(op)
    if kind is arith.ConstantOp:
        held = op.properties["value"]
        return kind, struct.pack("d", held.value.data) if type(held) is FloatAttr else held
    operands = [id(v) for v in op.operands]
    if len(operands) == 2 and _is_commutative(kind):
        operands.sort()
    return kind, *operands


def _same(op: Operation, other: Operation) -> bool:
    """Whether operations with equal keys compute the same."""
    properties = type(op) is arith.ConstantOp or op.properties == other.properties
    return (
        properties
        and op.attributes == other.attributes
        and op.result_types == other.result_types
        and _regions_equal(op, other)
    )


@functools.cache
def _is_commutative(kind: type[Operation]) -> bool:
    return kind.has_trait(Commutative)


def _block(block: Block, known: Table, loads: bool) -> None:
    """Visit `block` with what enclosing blocks have computed; `known` itself stays as it is."""
    scope, loaded = dict(known), Table()
    for op in list(block.ops):
        is_load = loads and isinstance(op, tile.Load) and not is_volatile(op)
        if is_terminator(op) or not (is_load or is_pure(op)):
            if loads and has_effect(op):
                loaded.clear()
            _nested(op, scope, loads)
            continue
        table, key = loaded if is_load else scope, _key(op)
        same = next((other for other in table.get(key, ()) if _same(op, other)), None)
        if same is None:
            table[key] = [*table.get(key, ()), op]
            continue
        for old, new in zip(op.results, same.results, strict=True):
            old.replace_all_uses_with(new)
        block.erase_op(op)


def _nested(op: Operation, scope: Table, loads: bool) -> None:
    """Visit the regions of `op`."""
    for region in op.regions:
        for inner in region.blocks:
            _block(inner, scope, loads)
    if isinstance(op, scf.ForOp) and _carries_initial_value(op):
        for inner in prune_carried(op).body.blocks:  # what uses those values may be known
            _block(inner, scope, loads)


def _carries_initial_value(loop: scf.ForOp) -> bool:
    """Whether a loop carries a value that each iteration computes anew, equal to the one before the loop."""
    carried = end_of(loop.body.block).operands
    return any(value is init for value, init in zip(carried, loop.iter_args, strict=True))


def _regions_equal(lhs: Operation, rhs: Operation) -> bool:
    return all(
        a.is_structurally_equivalent(b) for a, b in zip(lhs.regions, rhs.regions, strict=True)
    )
