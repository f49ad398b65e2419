"""`fold-transpose`: fold a transposition into the load or store.

Attention kernels load `k` as rows and use it as `tl.trans(k)`. Reading the tile in the transposed order
costs nothing once the access is structured, while transposing it afterwards moves every element.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
            %one = arith.constant 1 : i64
        -   %x = tile.load_view %p ["strided", "strided"] strides(%s, %one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<16x32xf32>
        +   %t = tile.load_view %p ["strided", "strided"] strides(%one, %s) limits(%n) {limited = array<i64: 1>} : !tile.ptr<f32> to tensor<32x16xf32>
        -   %t = tile.trans %x, [1, 0] : tensor<16x32xf32> to tensor<32x16xf32>
            tile.store_view %t, %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<32x16xf32>, !tile.ptr<f32>
            func.return
          }

Relies on `raise-access`. Only a load with the transposition as its single user is folded, so no load
is done twice, and none with a tile for what is beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import erase, replace_op
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import Pass
from tilewright.targets import TargetInfo


class FoldTranspose(Pass):
    relevant_ops = ("tile.trans",)
    requires = ("raise-access",)

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for op in list(module.walk()):
            if isinstance(op, tile.TransOp) and isinstance(op.source.owner, tile.LoadViewOp):
                load = op.source.owner
                beyond = load.other is not None and tile.is_tile(load.other)
                if load.result.has_one_use() and not beyond:
                    _fold(op, load)


def _fold(op: tile.TransOp, load: tile.LoadViewOp) -> None:
    mask, e = load.mask, Emitter(load, op.location)
    if mask is not None:
        transposed = tile.with_shape(tile.element_of(mask), tile.shape_of(op.result))
        mask = e.make(tile.TransOp, [mask], transposed, order=op.order)
    places, properties = with_dimensions(load, op.permutation)
    last = [[] if v is None else [v] for v in (mask, load.other)]
    new = tile.make_view(tile.LoadViewOp, [*places, *last], properties, [op.result.type])
    Emitter(load).insert_op(new)
    replace_op(op, [new.result])
    erase(load)


def with_dimensions(
    view: tile.View, dims: Sequence[int]
) -> tuple[list[Sequence[SSAValue]], dict[str, Attribute]]:
    """Operands before the mask, and properties, of an access whose dimensions are those `dims` of a view."""
    kinds, limits = tile.view_kinds(view), tile.view_limits(view)
    wrapped = _by_dimension(kinds, "wrapped", list(zip(view.starts, view.sizes, strict=True)))
    indexed = _by_dimension(kinds, "indexed", list(view.indices))
    limited = [i for i, d in enumerate(dims) if d in limits]
    places: list[Sequence[SSAValue]] = [
        [view.base],
        [view.strides[d] for d in dims],
        [wrapped[d][0] for d in dims if d in wrapped],
        [wrapped[d][1] for d in dims if d in wrapped],
        [indexed[d] for d in dims if d in indexed],
        [limits[dims[i]] for i in limited],
    ]
    properties = {
        **view.properties,
        "kinds": ArrayAttr([StringAttr(kinds[d]) for d in dims]),
        "limited": DenseArrayBase.from_list(i64, limited),
    }
    return places, properties


def _by_dimension(kinds: tuple[str, ...], kind: str, values: list[Any]) -> dict[int, Any]:
    """Dimension -> operand, for the dimensions of one kind."""
    return dict(zip((d for d, k in enumerate(kinds) if k == kind), values, strict=True))
