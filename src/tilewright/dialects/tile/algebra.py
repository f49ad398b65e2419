"""Operations over a whole tile: dots, reductions, scans, histograms."""

from __future__ import annotations

from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import *
from tilewright.dialects.tile.layout_verification import (
    same_layout,
    verify_compatible,
    verify_dot_layouts,
    verify_scan_layout,
)


@operation
class DotOp(PureOp):
    """`acc + lhs @ rhs` on the last two dimensions (one leading batch dimension allowed).

    Dots and sums are at least as wide as `acc`'s element type; `input_precision` is the user's (
    "ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"). `max_num_imprecise_acc`: how many elements of
    k may be summed at the reduced precision of a GPU's 8-bit tensor cores (any number without it).
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    acc = operand_def(TensorType)
    input_precision = prop_def(StringAttr)
    max_num_imprecise_acc = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)

    def verify_(self) -> None:
        a, b, c = shape_of(self.lhs), shape_of(self.rhs), shape_of(self.acc)
        require(len(a) == len(b) == len(c) and len(a) in (2, 3), "tile.dot: ranks")
        require(a[:-2] == b[:-2] == c[:-2], "tile.dot: batch extents differ")
        require(a[-1] == b[-2] and c[-2:] == (a[-2], b[-1]), f"tile.dot: {a} @ {b} -> {c}")
        require(self.acc.type == self.result.type, "tile.dot: accumulator type")
        instruction = self.attributes.get("gpu.mma")
        if isinstance(instruction, StringAttr):
            verify_dot_layouts(self, instruction.data, self.lhs, self.rhs, self.acc)


@operation
class ReduceOp(PureOp):
    """Reduce tiles of one shape along `axis` with the scalar `combine` region.

    The region takes 2n scalars (n left, n right) and ends in `tile.yield` of n. The order of
    combination is not fixed. Results drop the axis; a rank-1 operand gives scalars.
    """

    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    results_ = var_result_def()
    combine = region_def("single_block")

    def verify_(self) -> None:
        same_lanes(self, *self.inputs)
        axis, shape = _combined(self), list(shape_of(self.inputs[0]))
        del shape[axis]
        for source, value in zip(self.inputs, self.results_, strict=True):
            require(shape_of(value) == tuple(shape), "tile.reduce: result shape")
            require_element(self, value, element_of(source), "a result")
            if shape:
                verify_compatible(self, value, source, of_source=("drop", (axis,)))


@operation
class ScanOp(PureOp):
    """Inclusive scan along `axis` (from the end when `reverse`) with the `combine` region."""

    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(BoolAttr)
    results_ = var_result_def(TensorType)
    combine = region_def("single_block")

    def verify_(self) -> None:
        same_lanes(self, *self.inputs, *self.results_)
        verify_scan_layout(self, self.inputs[0], _combined(self))


@operation
class YieldOp(Op):
    """Ends a `combine` region."""

    values = var_operand_def()
    traits = traits_def(IsTerminator())


@operation
class HistogramOp(PureOp):
    """Counts of the values 0 … bins-1 in a rank-1 integer tile; i32."""

    source = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$source (`mask` $mask^ `:` type($mask))? attr-dict `:` type($source) `to` type($result)"
    )

    def verify_(self) -> None:
        kinds = [element_of(v) for v in (self.source, self.result)]
        require(all(isinstance(k, IntegerType) for k in kinds), "tile.histogram: integers expected")
        require(
            len(shape_of(self.source)) == len(shape_of(self.result)) == 1, "tile.histogram: ranks"
        )
        same_lanes(self, self.source, self.mask)
        require_element(self, self.mask, i1, "the mask")
        same_layout(self, self.result)


def _combined(op: ReduceOp | ScanOp) -> int:
    """The axis of a reduction or scan whose region takes two of each element and gives one."""
    axis, kinds = op.axis.value.data, [element_of(v) for v in op.inputs]
    require(len(kinds) > 0 and 0 <= axis < len(shape_of(op.inputs[0])), f"{op.name}: axis {axis}")
    require(
        len(kinds) == len(op.results), f"{op.name}: {len(kinds)} tiles, {len(op.results)} results"
    )
    block = op.combine.block
    end = block.last_op
    given = [a.type for a in block.args]
    require(given == [*kinds, *kinds], f"{op.name}: the region takes {', '.join(map(str, given))}")
    yielded = [v.type for v in end.operands] if isinstance(end, YieldOp) else []
    require(yielded == kinds, f"{op.name}: the region gives {', '.join(map(str, yielded))}")
    return axis
