"""Which dimensions a tile varies along, and its restriction to one of them.

`offs[:, None] // 2` is a tile `64x1` that varies along dimension 0 only; its projection to that
dimension is `offs // 2`, a tile of 64. A tile that varies along no dimension projects to a scalar.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.tile import shape_of
from tilewright.passes.analysis.edit import Mapping, with_operands
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter


class Projector:
    """Answers for one function; `replaced` maps results of operations that a pass has rewritten."""

    def __init__(self) -> None:
        self.replaced: Mapping = {}
        self._varies: dict[SSAValue, frozenset[int]] = {}
        self._projects: dict[tuple[SSAValue, int | None], bool] = {}
        self._first: dict[SSAValue, bool] = {}

    def current(self, value: SSAValue) -> SSAValue:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def varies(self, value: SSAValue) -> frozenset[int]:
        """Dimensions along which the lanes of `value` may differ (a superset)."""
        if value not in self._varies:
            self._varies[value] = self._find_varies(value)
        return self._varies[value]

    def _find_varies(self, value: SSAValue) -> frozenset[int]:
        shape = shape_of(value)
        wide = frozenset(d for d, extent in enumerate(shape) if extent > 1)
        op = value.owner
        if not isinstance(op, Operation) or not shape:
            return wide
        if isinstance(op, tile.SplatOp):
            return frozenset()
        if isinstance(op, gpu.ConvertLayoutOp):
            return self.varies(op.source)
        if (moved := moved_dims(op)) is not None:
            return frozenset(moved[d] for d in self.varies(op.operands[0]))
        if isinstance(op, tile.ReshapeOp):
            return wide if self.varies(op.source) else frozenset()
        if is_pure_elementwise(op) and op.operands and not isinstance(op, arith.ConstantOp):
            return frozenset().union(*(self.varies(v) for v in op.operands)) & wide
        return wide

    def can_project(self, value: SSAValue, dim: int | None) -> bool:
        """Whether `project` succeeds; `value` must not vary along other dimensions than `dim`."""
        key = (value, dim)
        if key not in self._projects:
            self._projects[key] = self._find_projects(value, dim)
        return self._projects[key]

    def has_first_lane(self, value: SSAValue) -> bool:
        """Whether `project(value, None)` succeeds and gives the first lane, whatever the others are."""
        if value not in self._first:
            op = value.owner
            if not shape_of(value):
                found = True
            elif not isinstance(op, Operation):
                found = False
            elif isinstance(op, (tile.SplatOp, tile.ArangeOp)):
                found = True
            elif isinstance(op, (tile.BroadcastOp, tile.HintOp, tile.ExpandDimsOp, tile.TransOp)):
                found = self.has_first_lane(op.operands[0])
            else:
                lane_wise = is_pure_elementwise(op) and bool(op.operands) and len(op.results) == 1
                found = lane_wise and all(self.has_first_lane(v) for v in op.operands)
            self._first[value] = found
        return self._first[value]

    def _find_projects(self, value: SSAValue, dim: int | None) -> bool:
        shape = shape_of(value)
        op = value.owner
        if not shape or (dim is not None and len(shape) == 1):
            return True
        if not isinstance(op, Operation):
            return self._by_reshape(shape, dim)
        if isinstance(op, tile.SplatOp):
            return True
        if isinstance(op, tile.ArangeOp):
            return dim is not None or shape == (1,)
        if isinstance(op, tile.HintOp):
            return self.can_project(op.source, dim)
        if isinstance(op, tile.BroadcastOp):
            inner = dim if dim is not None and shape_of(op.source)[dim] > 1 else None
            return self.can_project(op.source, inner)
        if isinstance(op, (tile.ExpandDimsOp, tile.TransOp, tile.ReshapeOp)):
            inner = None if dim is None else source_dim(op, dim)
            if dim is None or inner is not None:
                return self.can_project(op.source, inner)
            return self._by_reshape(shape, dim)
        return self._projects_by_lanes(op, dim) or self._by_reshape(shape, dim)

    def _projects_by_lanes(self, op: Operation, dim: int | None) -> bool:
        """Whether lane-wise `op` can be done again on the projections of its operands."""
        lane_wise = is_pure_elementwise(op) and bool(op.operands) and len(op.results) == 1
        return lane_wise and all(self._projects_at(v, dim) for v in op.operands)

    def _projects_at(self, value: SSAValue, dim: int | None) -> bool:
        if dim is not None and dim not in self.varies(value) and self.varies(value):
            return False
        return self.can_project(value, dim if dim in self.varies(value) else None)

    @staticmethod
    def _by_reshape(shape: tuple[int, ...], dim: int | None) -> bool:
        return dim is not None and all(e == 1 for d, e in enumerate(shape) if d != dim)

    def project(self, value: SSAValue, dim: int | None, emitter: Emitter) -> SSAValue:
        """`value` along `dim` as a rank-1 tile, or as a scalar for None; see `can_project`."""
        value = self.current(value)
        shape = shape_of(value)
        if not shape or (dim is not None and len(shape) == 1):
            return value
        key = ("projection", value, dim)
        if key not in emitter.made:
            emitter.made[key] = self._emit(value, shape, dim, emitter)
        return emitter.made[key]

    def _emit(
        self, value: SSAValue, shape: tuple[int, ...], dim: int | None, emitter: Emitter
    ) -> SSAValue:
        extent = [] if dim is None else [shape[dim]]
        if dim is not None and not self.varies(value):
            return emitter.splat(self.project(value, None, emitter), extent)
        op = value.owner
        if isinstance(op, tile.SplatOp):
            return emitter.splat(op.source, extent)
        if isinstance(op, tile.ArangeOp) and dim is None:
            return emitter.constant(op.start.value.data, tile.element_of(value))
        if isinstance(op, (tile.BroadcastOp, tile.HintOp)):
            return self.project(op.source, dim, emitter)
        if isinstance(op, (tile.ExpandDimsOp, tile.TransOp, tile.ReshapeOp)):
            inner = None if dim is None else source_dim(op, dim)
            if dim is None or inner is not None:
                return self.project(op.source, inner, emitter)
        scalar = dim is None and self.has_first_lane(value)
        if isinstance(op, Operation) and (scalar or self._projects_by_lanes(op, dim)):
            return self._rebuild(op, dim, extent, emitter)
        if dim is None:
            raise ValueError(f"{value} does not project to a scalar")
        return emitter.reshape(value, extent)

    def _rebuild(
        self, op: Operation, dim: int | None, extent: list[int], emitter: Emitter
    ) -> SSAValue:
        """Lane-wise `op` on the projections of its operands."""
        operands = []
        for value in op.operands:
            if dim is not None and not self.varies(value):
                scalar = self.project(value, None, emitter)
                operands.append(emitter.splat(scalar, extent) if shape_of(value) else scalar)
            else:
                operands.append(self.project(value, dim, emitter))
        result = tile.with_shape(tile.element_of(op.results[0]), extent)
        return emitter.insert(with_operands(op, operands, [result]))


def unit_reshape(before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, int] | None:
    """Old dimension -> new one when a reshape only inserts or removes extents of 1, else None."""
    old = [d for d, extent in enumerate(before) if extent != 1]
    new = [d for d, extent in enumerate(after) if extent != 1]
    if [before[d] for d in old] != [after[d] for d in new]:
        return None
    return dict(zip(old, new, strict=True))


def moved_dims(op: Operation) -> dict[int, int] | None:
    """Dimension of the source -> that of the result, if `op` only permutes, inserts or broadcasts dimensions; else None."""
    match op:
        case tile.BroadcastOp():
            return {d: d for d in range(len(shape_of(op.source)))}
        case tile.ExpandDimsOp():
            axis = op.axis.value.data
            return {d: d + (d >= axis) for d in range(len(shape_of(op.source)))}
        case tile.TransOp():
            return {source: d for d, source in enumerate(op.permutation)}
        case tile.ReshapeOp():
            return unit_reshape(shape_of(op.source), shape_of(op.result))
        case _:
            return None


def source_dim(op: Operation, dim: int) -> int | None:
    """The dimension of the source that is dimension `dim` of the result (see `moved_dims`); None if it is none."""
    return next((old for old, new in (moved_dims(op) or {}).items() if new == dim), None)
