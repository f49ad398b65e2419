"""The `gpu` dialect: tiles with layouts, and what moves them between threads.

After `assign-layouts` every tile type carries its layout as the tensor's encoding
(`tensor<64x32xf16, "64x32 r[0,1] l[...] w[...]">`), so two values of one type are in the same
registers of the same threads. The operations of `tile`, `arith` and `math` keep their meaning; those
here change where a tile is, not what it is. Codegen walks this level once.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects import tile
from tilewright.dialects.tile.base import require, same_shape
from tilewright.layouts import Layout, parse_layout


def layout_of(value: SSAValue | Attribute) -> Layout | None:
    """The layout of a tile value or type; None before layouts are assigned and for scalars."""
    kind = value.type if isinstance(value, SSAValue) else value
    if isinstance(kind, TensorType) and isinstance(kind.encoding, StringAttr):
        return parse_layout(kind.encoding.data)
    return None


def laid_out(element: Attribute, layout: Layout) -> Attribute:
    """The type of a tile of `element` in `layout`."""
    return TensorType(element, layout.shape, StringAttr(str(layout)))


@irdl_op_definition
class ConvertOp(IRDLOperation):
    """The same tile in another layout: moves between registers, lanes or through shared memory."""

    name = "gpu.convert"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        same_shape(self, self.source, self.result)
        require(
            tile.element_of(self.source) == tile.element_of(self.result), "gpu.convert: elements"
        )


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the program arrive before any goes on; memory before it is seen after it."""

    name = "gpu.barrier"
    assembly_format = "attr-dict"


Gpu = Dialect("gpu", [ConvertOp, BarrierOp], [])
