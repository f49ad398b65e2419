"""Operations over a whole tile: products, reductions, scans, histograms."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure

from tilewright.dialects.tile.base import require, same_shape, shape_of


@irdl_op_definition
class DotOp(IRDLOperation):
    """`acc + lhs @ rhs` on the last two dimensions (one leading batch dimension allowed).

    Products and sums are at least as wide as `acc`'s element type; `precision` is the user's
    `input_precision` ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"). `imprecise`: how many elements of
    k may be summed at the reduced precision of a GPU's 8-bit tensor cores (any number without it).
    """

    name = "tile.dot"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    acc = operand_def(TensorType)
    precision = prop_def(StringAttr)
    imprecise = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs `,` $acc `,` $precision attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc) `to` type($result)"

    def verify_(self) -> None:
        a, b, c = shape_of(self.lhs), shape_of(self.rhs), shape_of(self.acc)
        require(len(a) == len(b) == len(c) and len(a) in (2, 3), "tile.dot: ranks")
        require(a[:-2] == b[:-2] == c[:-2], "tile.dot: batch extents differ")
        require(a[-1] == b[-2] and c[-2:] == (a[-2], b[-1]), f"tile.dot: {a} @ {b} -> {c}")
        require(self.acc.type == self.result.type, "tile.dot: accumulator type")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduce tiles of one shape along `axis` with the scalar `combine` region.

    The region takes 2n scalars (n left, n right) and ends in `tile.yield` of n. The order of
    combination is not fixed. Results drop the axis; a rank-1 operand gives scalars.
    """

    name = "tile.reduce"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    results_ = var_result_def()
    combine = region_def("single_block")
    traits = traits_def(Pure())

    def verify_(self) -> None:
        same_shape(self, *self.inputs)
        shape = list(shape_of(self.inputs[0]))
        del shape[self.axis.value.data]
        for value in self.results_:
            require(shape_of(value) == tuple(shape), "tile.reduce: result shape")


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Inclusive scan along `axis` (from the end when `reverse`) with the `combine` region."""

    name = "tile.scan"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(BoolAttr)
    results_ = var_result_def(TensorType)
    combine = region_def("single_block")
    traits = traits_def(Pure())

    def verify_(self) -> None:
        same_shape(self, *self.inputs, *self.results_)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a `combine` region."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$values attr-dict `:` type($values)"


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """Counts of the values 0 … bins-1 in a rank-1 integer tile; i32."""

    name = "tile.histogram"
    source = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source (`mask` $mask^ `:` type($mask))? attr-dict `:` type($source) `to` type($result)"
    )
