"""Program ids, and operations that make, move and reshape tiles without arithmetic."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tilewright.dialects.tile.base import element_of, ints, require, shape_of


@irdl_op_definition
class ProgramIdOp(IRDLOperation):
    """Index of this program along grid axis 0, 1 or 2."""

    name = "tile.program_id"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict `:` type($result)"


@irdl_op_definition
class NumProgramsOp(IRDLOperation):
    """Extent of grid axis 0, 1 or 2."""

    name = "tile.num_programs"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict `:` type($result)"


@irdl_op_definition
class ArangeOp(IRDLOperation):
    """`[start, start+1, …, end-1]` as `tensor<(end-start) x i32>`."""

    name = "tile.arange"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$start `,` $end attr-dict `:` type($result)"

    def verify_(self) -> None:
        extent = self.end.value.data - self.start.value.data
        require(shape_of(self.result) == (extent,), f"tile.arange: {extent} elements expected")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A tile whose every element is the scalar operand."""

    name = "tile.splat"
    source = operand_def()
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        require(element_of(self.result) == self.source.type, "tile.splat: element type differs")


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Same rank; extents of 1 are repeated to the result's extent."""

    name = "tile.broadcast"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        a, b = shape_of(self.source), shape_of(self.result)
        require(
            len(a) == len(b) and all(x in (1, y) for x, y in zip(a, b, strict=True)),
            f"tile.broadcast: {a} does not broadcast to {b}",
        )


@irdl_op_definition
class ExpandDimsOp(IRDLOperation):
    """Insert an extent of 1 at `axis` of the result."""

    name = "tile.expand_dims"
    source = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $axis attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        shape, axis = list(shape_of(self.source)), self.axis.value.data
        shape.insert(axis, 1)
        require(tuple(shape) == shape_of(self.result), f"tile.expand_dims: {shape} expected")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Same elements in row-major order, other extents."""

    name = "tile.reshape"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        counts = []
        for value in (self.source, self.result):
            n = 1
            for extent in shape_of(value):
                n *= extent
            counts.append(n)
        require(counts[0] == counts[1], f"tile.reshape: {counts[0]} elements into {counts[1]}")


@irdl_op_definition
class TransOp(IRDLOperation):
    """Permute dimensions: dimension d of the result is dimension `order[d]` of the source."""

    name = "tile.trans"
    source = operand_def(TensorType)
    order = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $order attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        shape = shape_of(self.source)
        order = self.permutation
        require(sorted(order) == list(range(len(shape))), "tile.trans: order is no permutation")
        require(tuple(shape[d] for d in order) == shape_of(self.result), "tile.trans: shape")

    @property
    def permutation(self) -> tuple[int, ...]:
        return ints(self.order)


@irdl_op_definition
class JoinOp(IRDLOperation):
    """Two tiles of one shape into a new last dimension of extent 2."""

    name = "tile.join"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"


@irdl_op_definition
class SplitOp(IRDLOperation):
    """The two halves of a last dimension of extent 2."""

    name = "tile.split"
    source = operand_def(TensorType)
    lhs = result_def(TensorType)
    rhs = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($lhs) `,` type($rhs)"


@irdl_op_definition
class CatOp(IRDLOperation):
    """Concatenate two tiles along `axis`."""

    name = "tile.cat"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `,` $axis attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`result[i, j] = source[index[i, j], j]` for axis 0 and so on."""

    name = "tile.gather"
    source = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $index `,` $axis attr-dict `:` type($source) `,` type($index) `to` type($result)"
