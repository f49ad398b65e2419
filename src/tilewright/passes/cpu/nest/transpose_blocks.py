"""Groups that read rows and write columns: square blocks, transposed in registers.

A column-major operand that is packed in rows, a matrix that is transposed: what is contiguous for the load
is not for the store. Element-wise one of them is a gather. A block of `n` by `n` takes `n` contiguous
loads, `n log n` shuffles and `n` contiguous stores.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.analysis.buffers import layout_of, tile_of
from tilewright.passes.cpu.analysis.classify import is_elementwise, is_virtual
from tilewright.targets import TargetInfo

_LEAST = 4


def is_column_contiguous(
    op: Operation, extents: tuple[int, ...], across: int
) -> TypeGuard[tile.LoadViewOp]:
    """Whether a load is contiguous down the columns of its tile and not along its rows, which dimension `across` counts."""
    if not isinstance(op, tile.LoadViewOp) or tile.shape_of(op.result) != extents:
        return False
    element = tile.element_of(op.result)
    if isinstance(element, IntegerType) and element.width.data == 1:
        return False
    plain = all(kind == "strided" for kind in tile.view_kinds(op)) and op.mask is None
    strides = [constant_int(stride) for stride in op.strides]
    return plain and strides[down_dim(extents, across)] == 1 and strides[across] not in (0, 1)


def down_dim(extents: tuple[int, ...], across: int) -> int:
    """The other one of a tile's two dimensions, beside those of extent 1."""
    (dim,) = (d for d in block_dims(extents) if d != across)
    return dim


def block_dims(extents: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of a tile, but for those of extent 1 in front of two others."""
    longer = tuple(d for d, extent in enumerate(extents) if extent > 1)
    return longer if len(extents) > 2 else tuple(range(len(extents)))


def transpose_blocks(group: cpu.FusionGroupOp, target: TargetInfo) -> tuple[int, int]:
    """The side of the blocks a group goes in, 0 where it does not, and the dimension along which it writes rows."""
    dims = block_dims(group.extents)
    if len(dims) != 2:
        return 0, 1
    sides = [(_side(group, target, across), across) for across in reversed(dims)]
    return max(sides, key=lambda found: found[0])


def _side(group: cpu.FusionGroupOp, target: TargetInfo, across: int) -> int:
    extents, members = group.extents, list(group.body.block.ops)
    if not any(is_column_contiguous(op, extents, across) for op in members):
        return 0
    if not all(_goes_by_rows(op, extents, across) for op in members):
        return 0
    widest = max(4, *(_bytes(v) for op in members for v in (*op.operands, *op.results)))
    side = target.vector_bits // (8 * widest)
    sizes = [extents[across], extents[down_dim(extents, across)], *_widths(members)]
    while side >= _LEAST and any(size % side for size in sizes):
        side //= 2
    return side if side >= _LEAST else 0


def _bytes(value: Any) -> int:
    """Bytes of a tile's element; 0 of what is no number."""
    element = tile.element_of(value) if tile.is_tile(value) else None
    if element is None or isinstance(element, tile.PtrType):
        return 0
    bits = isinstance(element, IntegerType) and element.width.data == 1
    return 0 if bits else element_bytes(element)


def _goes_by_rows(op: Operation, extents: tuple[int, ...], across: int) -> bool:
    """Whether a member can be done for a run of columns of one row, contiguous where it writes."""
    if isinstance(op, cpu.YieldOp):
        return not op.operands
    if isinstance(op, cpu.ReadOp | cpu.WriteOp) and len(extents) > 2:
        return False  # which may have fewer dimensions
    if isinstance(op, cpu.ReadOp):
        shape = tile.shape_of(op.results[0])
        if len(shape) == 2 and 1 in shape:
            return all(size in (1, extent) for size, extent in zip(shape, extents, strict=True))
    if isinstance(op, cpu.ReadOp | cpu.WriteOp) and across != len(extents) - 1:
        return False  # the rows of buffers run along the last dimension
    if isinstance(op, cpu.WriteOp):
        return tile.shape_of(tile_of(op.buffer)) == extents
    if isinstance(op, tile.StoreViewOp):
        strided = all(kind == "strided" for kind in tile.view_kinds(op))
        return strided and len(op.strides) == len(extents) and constant_int(op.strides[across]) == 1
    if op.regions:
        return False
    if isinstance(op, tile.LoadViewOp | cpu.ReadOp):
        return tile.shape_of(op.results[0]) == extents
    return is_virtual(op) or is_elementwise(op) or not any(map(tile.is_tile, op.results))


def _widths(members: list[Operation]) -> list[int]:
    """Columns that stand together in the buffers."""
    buffers = [op.buffer for op in members if isinstance(op, cpu.ReadOp | cpu.WriteOp)]
    layouts = [layout_of(buffer.type) for buffer in buffers]
    return [layout.width for layout in layouts if layout.kind == "panel"]
