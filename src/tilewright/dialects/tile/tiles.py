"""Program ids, and operations that make, move and reshape tiles without arithmetic."""

from __future__ import annotations

from math import prod

from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import *
from tilewright.dialects.tile.layout_verification import same_layout, verify_compatible


@operation
class ProgramIdOp(PureOp):
    """Index of this program along grid axis 0, 1 or 2."""

    axis = prop_def(IntegerAttr)
    result = result_def(i32)


@operation
class NumProgramsOp(PureOp):
    """Extent of grid axis 0, 1 or 2."""

    axis = prop_def(IntegerAttr)
    result = result_def(i32)


@operation
class ArangeOp(PureOp):
    """`[start, start+1, …, end-1]` as `tensor<(end-start) x i32>`."""

    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def verify_(self) -> None:
        extent = self.end.value.data - self.start.value.data
        require(shape_of(self.result) == (extent,), f"tile.arange: {extent} elements expected")


@operation
class SplatOp(PureOp):
    """A tile whose every element is the scalar operand."""

    source = operand_def()
    result = result_def(TensorType)

    def verify_(self) -> None:
        require(element_of(self.result) == self.source.type, "tile.splat: element type differs")


@operation
class BroadcastOp(PureOp):
    """Same rank; extents of 1 are repeated to the result's extent."""

    source = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        a, b = shape_of(self.source), shape_of(self.result)
        require(
            len(a) == len(b) and all(x in (1, y) for x, y in zip(a, b, strict=True)),
            f"tile.broadcast: {a} does not broadcast to {b}",
        )
        _same_elements(self, self.source, self.result)
        repeated = tuple(d for d, extent in enumerate(a) if extent == 1)
        verify_compatible(self, self.result, self.source, ("zero", repeated))


@operation
class ExpandDimsOp(PureOp):
    """Insert an extent of 1 at `axis` of the result."""

    source = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)

    def verify_(self) -> None:
        shape, axis = list(shape_of(self.source)), self.axis.value.data
        shape.insert(axis, 1)
        require(tuple(shape) == shape_of(self.result), f"tile.expand_dims: {shape} expected")
        _same_elements(self, self.source, self.result)
        verify_compatible(self, self.result, self.source, ("drop", (axis,)))


@operation
class ReshapeOp(PureOp):
    """Same elements in row-major order, other extents."""

    source = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        source, result = shape_of(self.source), shape_of(self.result)
        counts = prod(source), prod(result)
        require(counts[0] == counts[1], f"tile.reshape: {counts[0]} elements into {counts[1]}")
        _same_elements(self, self.source, self.result)
        verify_compatible(self, self.result, self.source, ("reshape", (*result, *source)))


@operation
class TransOp(PureOp):
    """Permute dimensions: dimension d of the result is dimension `order[d]` of the source."""

    source = operand_def(TensorType)
    order = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType)

    def verify_(self) -> None:
        shape = shape_of(self.source)
        order = self.permutation
        require(
            sorted(order) == list(range(len(shape))), "tile.trans: the order is not a permutation"
        )
        require(tuple(shape[d] for d in order) == shape_of(self.result), "tile.trans: shape")
        _same_elements(self, self.source, self.result)
        inverse = tuple(order.index(d) for d in range(len(order)))
        verify_compatible(self, self.result, self.source, ("order", inverse))

    @property
    def permutation(self) -> tuple[int, ...]:
        return ints(self.order)


@operation
class JoinOp(PureOp):
    """Two tiles of one shape into a new last dimension of extent 2."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        require(self.lhs.type == self.rhs.type, "tile.join: types differ")
        shape = (*shape_of(self.lhs), 2)
        require(shape_of(self.result) == shape, f"tile.join: {shape} expected")
        _same_elements(self, self.lhs, self.result)
        verify_compatible(self, self.result, self.lhs, ("drop", (len(shape) - 1,)))


@operation
class SplitOp(PureOp):
    """The two halves of a last dimension of extent 2."""

    source = operand_def(TensorType)
    lhs = result_def(TensorType)
    rhs = result_def(TensorType)

    def verify_(self) -> None:
        same_lanes(self, self.lhs, self.rhs)
        shape = (*shape_of(self.lhs), 2)
        require(shape_of(self.source) == shape, f"tile.split: {shape} expected")
        for half, result in enumerate((self.lhs, self.rhs)):
            _same_elements(self, self.source, result)
            verify_compatible(self, result, self.source, ("append", (half,)))


@operation
class CatOp(Op):
    """Concatenate two tiles along `axis`."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure(), MovesLanes())

    def verify_(self) -> None:
        a, b, axis = list(shape_of(self.lhs)), shape_of(self.rhs), self.axis.value.data
        require(len(a) == len(b) and 0 <= axis < len(a), "tile.cat: ranks")
        a[axis] += b[axis]
        same = all(d == axis or extent == b[d] for d, extent in enumerate(a))
        require(same and tuple(a) == shape_of(self.result), f"tile.cat: {a} expected")
        _same_elements(self, self.lhs, self.rhs, self.result)


@operation
class GatherOp(Op):
    """`result[i, j] = source[index[i, j], j]` for axis 0 and so on."""

    source = operand_def(TensorType)
    index = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure(), MovesLanes())

    def verify_(self) -> None:
        same_lanes(self, self.index, self.result)
        _same_elements(self, self.source, self.result)
        require(
            isinstance(element_of(self.index), IntegerType),
            "tile.gather: the index is not an integer",
        )
        a, b, axis = shape_of(self.source), shape_of(self.result), self.axis.value.data
        require(len(a) == len(b) and 0 <= axis < len(a), "tile.gather: ranks")
        same = all(d == axis or x == y for d, (x, y) in enumerate(zip(a, b, strict=True)))
        require(same, f"tile.gather: {a} to {b} along {axis}")


def _same_elements(op: Operation, source: SSAValue, *values: SSAValue) -> None:
    """Elements stay what they are; each tile's layout is one."""
    for value in (source, *values):
        require_element(op, value, element_of(source), "a tile")
        same_layout(op, value)
