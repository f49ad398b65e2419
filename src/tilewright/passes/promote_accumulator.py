"""`promote-accumulator`: keep a tile that a loop loads and stores in every iteration in registers.

`C = load; C = dot(a, b, C); store` at one address in every iteration (arXiv 2108.13191, listing 1 and
section 3.4) becomes a value that the loop carries, one load before it and one store after it.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %n: i64, %x: tensor<64xf32>) {
            %zero = arith.constant 0 : i64
            %one = arith.constant 1 : i64
        -   scf.for %i = %zero to %n step %one : i64 {
        -     %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
        +   %0 = tile.cmpi "slt", %zero, %n : i64, i64 to i1
        +   %1 = scf.if %0 -> (tensor<64xf32>) {
        +     %2 = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
        +     scf.yield %2 : tensor<64xf32>
        +   } else {
        +     %3 = arith.constant 0.000000e+00 : f32
        +     %4 = tile.splat %3 : f32 to tensor<64xf32>
        +     scf.yield %4 : tensor<64xf32>
        +   }
        +   %5 = scf.for %i = %zero to %n step %one iter_args(%c = %1) -> (tensor<64xf32>) : i64 {
              %d = arith.addf %c, %x : tensor<64xf32>
        -     tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
        +     scf.yield %d : tensor<64xf32>
        +   }
        +   scf.if %0 {
        +     tile.store_view %5, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
        +   } else {
            }
            func.return
          }

A loop that runs zero times touches no memory, hence the branches; they are left out where the number of
iterations is known.

Requires `raise-access` (structured accesses can be compared) and `licm` (addresses and limits are hoisted). Nothing
else in the loop may touch the tile's memory. Masked-off lanes load the same value in every iteration but would carry
another one. If there are such lanes, the value must flow element-wise, or as a dot's accumulator, to the store only.
Arguments may alias unless one has the attribute `tile.noalias`, which the launcher guarantees (`tilewright.matmul` checks
it). With `assume-noalias` arguments are assumed not to alias, as in all GPU passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, results_of_users
from tilewright.passes.analysis.aliasing import (
    base_argument,
    has_distinct_lanes,
    no_alias,
    same_addresses,
    same_scalar,
)
from tilewright.passes.analysis.edit import (
    branch,
    end_of,
    erase,
    insert_before,
    post_order,
    rebuild_for,
    replace,
)
from tilewright.passes.analysis.effects import (
    defined_inside,
    is_pure,
    is_pure_elementwise,
    is_terminator,
)
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class PromoteAccumulator(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("raise-access",)
    assume_noalias: bool = False
    """Assume that arguments do not alias and that the lanes of a store have distinct addresses."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        number = 0
        for op in post_order(function):
            loop = op if isinstance(op, scf.ForOp) else None
            while loop is not None:
                loop = self._promote(loop, number)
                number += 1

    def _promote(self, loop: scf.ForOp, number: int) -> scf.ForOp | None:
        """The loop with one more tile in registers; None if there is none to promote."""
        ops = list(loop.body.block.ops)
        for store in ops:
            if not isinstance(store, tile.StoreViewOp):
                continue
            for load in ops[: ops.index(store)]:
                if isinstance(load, tile.LoadViewOp) and self._is_legal(loop, load, store):
                    if has_distinct_lanes(store):
                        tile.assume(store, self.name, distinct_lanes=())
                    tile.assume(load, self.name, exclusive=[number])
                    made = _rewrite(loop, load, store)
                    tile.assume(made, self.name, exclusive=[number])
                    return made
        return None

    def _is_legal(self, loop: scf.ForOp, load: tile.LoadViewOp, store: tile.StoreViewOp) -> bool:
        return (
            _same_tile(load, store)
            and all(not defined_inside(v, loop) for v in load.operands)
            and all(not defined_inside(v, loop) for v in store.operands if v is not store.value)
            and bool(has_distinct_lanes(store, trust_strides=self.assume_noalias))
            and self._untouched(loop, load, store)
            and (not _has_dead_lanes(load) or _flows_to(load.result, store))
        )

    def _untouched(self, loop: scf.ForOp, load: tile.LoadViewOp, store: tile.StoreViewOp) -> bool:
        """Whether nothing else in the loop may touch the tile's memory or synchronize."""
        root = base_argument(store.base)
        for op in loop.walk():
            if op in (loop, load, store) or is_pure(op) or is_terminator(op):
                continue
            if isinstance(op, scf.ForOp | scf.IfOp | tile.AssumeOp):
                continue
            if not isinstance(op, tile.Load | tile.Store):
                return False
            pointer = tile.pointer_of(op)
            other = base_argument(pointer)
            if no_alias(pointer, store.base):
                continue
            if not self.assume_noalias or root is None or other is None or other is root:
                return False
        return True


def _same_tile(load: tile.LoadViewOp, store: tile.StoreViewOp) -> bool:
    """Whether both access the same lanes of the same addresses."""
    return (
        load.result.type == store.value.type
        and isinstance(tile.element_of(load.result), AnyFloat | IntegerType)
        and same_addresses(load, store)
        and load.limited == store.limited
        and all(map(same_scalar, load.limits, store.limits))
        and load.mask is store.mask
        and "indexed" not in tile.view_kinds(load)
    )


def _has_dead_lanes(load: tile.LoadViewOp) -> bool:
    return bool(load.limits) or load.mask is not None


def _flows_to(value: SSAValue, store: tile.StoreViewOp) -> bool:
    """Whether each lane of `value` only affects the same lane of the stored value."""
    for current in closure([value], results_of_users):
        for use in current.uses:
            op = use.operation
            accumulates = isinstance(op, tile.DotOp) and use.index == 2
            moves = op.parent is store.parent and (accumulates or is_pure_elementwise(op))
            if op is not store and not moves:
                return False
    return True


# ---- rewriting --------------------------------------------------------------------------------------


def _rewrite(loop: scf.ForOp, load: tile.LoadViewOp, store: tile.StoreViewOp) -> scf.ForOp:
    """Emit one load before the loop and one store after it."""
    runs = _runs(loop)
    start = _loaded(load, runs, loop)
    block, last = loop.body.block, end_of(loop.body.block)
    carried = block.insert_arg(load.result.type, len(block.args))
    carried.name_hint = load.result.name_hint
    value = carried if store.value is load.result else store.value
    load.result.replace_all_uses_with(carried)
    last.operands = [*last.operands, value]
    final = store.clone()
    erase(store)
    erase(load)
    new = rebuild_for(loop, [*loop.iter_args, start])
    replace(loop, new, list(new.results)[:-1])
    final.operands[list(final.operands).index(value)] = new.results[-1]
    following = new.next_op
    if following is None:
        raise ValueError("a loop without anything after it")
    if runs is None:
        insert_before(final, following)
    else:
        guarded = branch(runs, [final])
        guarded.location = final.location
        insert_before(guarded, following)
    return new


def _runs(loop: scf.ForOp) -> SSAValue | None:
    """An i1 before the loop: whether it has an iteration; None if it always has."""
    first, end = constant_int(loop.lb), constant_int(loop.ub)
    if first is not None and end is not None and first < end:
        return None
    return Emitter(loop).compare("slt", loop.lb, loop.ub)


def _loaded(load: tile.LoadViewOp, runs: SSAValue | None, loop: scf.ForOp) -> SSAValue:
    """The tile before the first iteration; unspecified if there is none."""
    first = load.clone()
    if runs is None:
        insert_before(first, loop)
        return first.result
    loaded = branch(runs, [first], first.results)
    loaded.location = load.location
    end = end_of(loaded.false_region.block)
    emitter, element = Emitter(end, load.location), tile.element_of(load.result)
    zero = (
        emitter.float_constant(0.0, element)
        if isinstance(element, AnyFloat)
        else emitter.constant(0, element)
    )
    end.operands = [emitter.splat(zero, tile.shape_of(load.result))]
    insert_before(loaded, loop)
    return loaded.results[0]
