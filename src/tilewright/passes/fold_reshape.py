"""`fold-reshape`: fold the removal of unit dimensions into the load.

Descriptors of batches give blocks of `[1, M, K]`, which kernels reshape to matrices before they multiply
them. What a dimension of one element adds to an address, and whether the element is within the array, is
in the base and in the other limits already, so that the access may as well have two dimensions. Stores of
tiles that were given such dimensions likewise.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
            %one = arith.constant 1 : i64
        -   %x = tile.load_view %p ["strided", "strided", "strided"] strides(%s, %s, %one) limits(%n) {limited = array<i64: 1>} : !tile.ptr<f32> to tensor<1x16x32xf32>
        +   %y = tile.load_view %p ["strided", "strided"] strides(%s, %one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<16x32xf32>
        -   %y = tile.reshape %x : tensor<1x16x32xf32> to tensor<16x32xf32>
            tile.store_view %y, %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<16x32xf32>, !tile.ptr<f32>
            func.return
          }

Relies on `raise-access`. Accesses with a mask, or whose dimension of one element has a limit, wraps or is
indexed, stay; so do loads with other users, or with a tile for what is beyond.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import erase, replace, replace_op
from tilewright.passes.base import Pass
from tilewright.passes.fold_transpose import with_dimensions
from tilewright.targets import TargetInfo


class FoldReshape(Pass):
    relevant_ops = ("tile.reshape",)
    requires = ("raise-access",)

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for op in list(module.walk()):
            if isinstance(op, tile.ReshapeOp):
                load = op.source.owner
                if isinstance(load, tile.LoadViewOp) and load.result.has_one_use():
                    _fold_load(op, load)
            elif isinstance(op, tile.StoreViewOp) and isinstance(op.value.owner, tile.ReshapeOp):
                _fold_store(op, op.value.owner)


def _kept(view: tile.View, before: tuple[int, ...], after: tuple[int, ...]) -> list[int] | None:
    """The dimensions of a view that are left when its tile has the shape `after`."""
    ones = {d for d, extent in enumerate(before) if extent == 1}
    kept = [d for d in range(len(before)) if d not in ones]
    if not ones or not kept or [before[d] for d in kept] != list(after) or view.mask is not None:
        return None
    kinds, limits = tile.view_kinds(view), tile.view_limits(view)
    plain = all(kinds[d] == "strided" and d not in limits for d in ones)
    return kept if plain else None


def _fold_load(op: tile.ReshapeOp, load: tile.LoadViewOp) -> None:
    kept = _kept(load, tile.shape_of(load.result), tile.shape_of(op.result))
    beyond = load.other is not None and tile.is_tile(load.other)
    if kept is None or beyond:
        return
    places, properties = with_dimensions(load, kept)
    places += [[], [] if load.other is None else [load.other]]
    new = tile.make_view(tile.LoadViewOp, places, properties, [op.result.type])
    replace_op(op, [new.result])
    replace(load, new, [None])


def _fold_store(store: tile.StoreViewOp, op: tile.ReshapeOp) -> None:
    kept = _kept(store, tile.shape_of(store.value), tile.shape_of(op.source))
    if kept is None:
        return
    places, properties = with_dimensions(store, kept)
    new = tile.make_view(tile.StoreViewOp, [*places, [], [op.source]], properties)
    replace(store, new, [])
    if not list(op.result.uses):
        erase(op)
