"""Verification of hardware constraints on operations of the `gpu` dialect, which the interpreter does not model.

Sources: PTX ISA, "Asynchronous warpgroup level matrix instructions", "cp.async.bulk.tensor", "mbarrier",
"Tensor: swizzling modes", "elect.sync".
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, TensorType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects import tile
from tilewright.dialects.tile.base import require
from tilewright.dialects.tile.layout_verification import layout_of, same_layout, well_formed
from tilewright.dialects.tile.memory import verify_indices, verify_view
from tilewright.ir.walk import ancestors
from tilewright.layouts.fragments import WgmmaInstruction, parse_wgmma, wgmma_a_layout
from tilewright.layouts.shared import (
    LINEAR,
    SWIZZLE_ATOM_BYTES,
    SharedLayout,
    is_transposable,
    parse_shared,
)
from tilewright.layouts.wgmma_partition import partition_wgmma

_LANES = 32
_SPANS = (128, 64, 32, 0, LINEAR)
_MAX_BOX_DIM = 256
_MAX_DIMS = 5
_START = 128
_ROWS = 8
"""Rows after which the swizzle pattern repeats."""
_TYPES = {
    "f16": "f16", "bf16": "bf16", "tf32": "f32", "s8": "i8", "e4m3": "f8E4M3FN", "e5m2": "f8E5M2",
}  # fmt: skip
"""Operand types of `wgmma` → element types."""


def verify_shared(held: TensorType, text: str, stages: int) -> None:
    """Require a buffer's layout to fit its tile, in panels that divide its rows."""
    try:
        layout = parse_shared(text)
    except ValueError as error:
        raise VerifyException(str(error)) from None
    size = tile.element_bytes(held.element_type)
    require(
        tuple(held.get_shape()) == (layout.rows, layout.columns) and size == layout.size,
        f"gpu.shared: {layout} is not a layout of {held}",
    )
    require(
        layout.swizzle_bytes in _SPANS,
        f"gpu.shared: no hardware has panels of {layout.swizzle_bytes} bytes",
    )
    require(
        layout.whole
        or (layout.swizzled and layout.contiguous_extent * size % SWIZZLE_ATOM_BYTES == 0),
        f"gpu.shared: panels do not divide lines: {layout}",
    )
    require(stages >= 1, "gpu.shared: no stages")


def _shared(buffer: SSAValue) -> SharedLayout:
    kind: Any = buffer.type
    return parse_shared(kind.layout.data)


def _held(buffer: SSAValue) -> Any:
    kind: Any = buffer.type
    return kind.tile


def verify_tile(op: Operation, value: SSAValue, buffer: SSAValue) -> None:
    """Require the register tile and the buffer's tile to have one type."""
    held = _held(buffer)
    same = tile.shape_of(value) == tile.shape_of(held)
    require(
        same and tile.element_of(value) == held.element_type, f"{op.name}: {value.type}, {held}"
    )
    same_layout(op, value)


def verify_slice(op: Any) -> None:
    """Require a slice along one dimension with the same registers per thread in every slice."""
    whole, part = tile.shape_of(op.source), tile.shape_of(op.result)
    start = tile.ints(op.start)
    cut = [d for d, (w, p) in enumerate(zip(whole, part, strict=True)) if w != p]
    require(
        len(start) == len(whole) and tile.element_of(op.source) == tile.element_of(op.result),
        f"gpu.extract_slice: {op.result.type} of {op.source.type}",
    )
    inside = all(s % p == 0 and 0 <= s <= w - p for s, w, p in zip(start, whole, part, strict=True))
    require(
        len(cut) <= 1 and inside,
        f"gpu.extract_slice: no part of {op.source.type} begins at {start}",
    )
    source, result = layout_of(op.source), layout_of(op.result)
    if source is not None and cut:
        fits = source.subtile(cut[0], part[cut[0]]) == result
        require(
            fits,
            f"gpu.extract_slice: threads have no such part of {op.source.type}: {op.result.type}",
        )


def verify_transpose(op: Any) -> None:
    """Require buffers of equal tiles that are contiguous along different dimensions, in blocks that a warp transposes."""
    source, target = _shared(op.source), _shared(op.target)
    require(_held(op.source) == _held(op.target), "gpu.local_transpose: tiles differ")
    require(source.major_dim != target.major_dim, "gpu.local_transpose: nothing to turn")
    require(
        LINEAR not in (source.swizzle_bytes, target.swizzle_bytes),
        "gpu.local_transpose: of panels only",
    )
    whole = is_transposable(source.strided_extent, source.contiguous_extent, source.size)
    require(
        whole, f"gpu.local_transpose: {source} does not consist of blocks that one warp transposes"
    )


def verify_memdesc_trans(op: Any) -> None:
    """Require the type of the source's transposed tiles."""
    source, result = _shared(op.source), _shared(op.result)
    same = _held(op.source).element_type == _held(op.result).element_type
    same = same and op.source.type.stages == op.result.type.stages
    shapes = tile.shape_of(_held(op.source))[::-1] == tile.shape_of(_held(op.result))
    require(same and shapes, "gpu.memdesc_trans: no buffer of the transposed tiles")
    require(result == source.transposed, f"gpu.memdesc_trans: {result} is not {source} transposed")


def verify_copy(op: Any) -> None:
    held = _held(op.buffer)
    shape = tile.shape_of(held)
    verify_view(op, shape)
    verify_indices(op, shape)
    masked = op.mask is None or tile.shape_of(op.mask) == shape
    require(masked and (op.mask is None or tile.element_of(op.mask) == i1), f"{op.name}: the mask")
    require(
        op.base.type.pointee == held.element_type, f"gpu.async_copy: {held} from {op.base.type}"
    )
    well_formed(op, op.layout.data, shape)


def verify_tma(op: Any) -> None:
    """Require a tensor map, a box and panels that TMA supports."""
    shared = _shared(op.buffer)
    require(op.base.type.pointee == _held(op.buffer).element_type, f"{op.name}: element type")
    rank = len(op.global_dims)
    require(2 <= rank <= _MAX_DIMS, f"{op.name}: tensor maps have 2 to {_MAX_DIMS} dimensions")
    require(
        len(op.global_strides) == rank - 1 and len(op.coords) == rank,
        f"{op.name}: a coordinate a dimension, and a pitch for each but the first",
    )
    require(
        all(0 <= d < rank for d in tile.ints(op.range_checked)), f"{op.name}: range_checked dims"
    )
    require(
        not shared.pad and shared.row_stride_bytes % SWIZZLE_ATOM_BYTES == 0,
        f"{op.name}: lines with gaps: {shared}",
    )
    small = shared.strided_extent <= _MAX_BOX_DIM and shared.width <= _MAX_BOX_DIM
    require(
        small, f"{op.name}: TMA boxes have at most {_MAX_BOX_DIM} elements per dimension: {shared}"
    )
    one, single = shared.panels == 1, op.buffer.type.stages.data == 1
    aligned = (one or shared.panel_bytes % _START == 0) and (single or shared.bytes % _START == 0)
    require(aligned, f"{op.name}: a TMA tile starts at a multiple of {_START} bytes: {shared}")
    _verify_pattern(op, shared)
    barriers = getattr(op, "barriers", None)
    whole = shared.whole or barriers is not None
    require(whole, f"{op.name}: the panels of {shared} hold more than the tile")
    if barriers is not None:
        stages = op.buffer.type.stages, barriers.type.stages
        require(
            stages[0] == stages[1], f"{op.name}: {stages[0].data} stages, {stages[1].data} barriers"
        )


def _verify_pattern(op: Operation, shared: SharedLayout) -> None:
    """Require panels and stages to be aligned to the swizzle pattern, which depends on address bits."""
    require(
        not shared.swizzled or shared.strided_extent % _ROWS == 0,
        f"{op.name}: a panel of {shared.strided_extent} lines ends inside the pattern that it is swizzled by",
    )


_MAX_BYTES = (1 << 20) - 1
"""Operations that the transaction count of an mbarrier's phase includes."""


def verify_expected_bytes(op: Any) -> None:
    """Require the expected bytes to equal those of the TMA loads that signal the same phase.

    With fewer a wait ends before the data has arrived, with more it never ends.
    """
    bytes_ = sum(
        _shared(other.buffer).bytes
        for other in op.parent.ops
        if other.name == "gpu.tma_load" and (other.barriers, other.stage) == (op.barriers, op.stage)
    )
    expected = op.bytes.value.data
    require(
        expected == bytes_,
        f"gpu.mbarrier_arrive_expect_tx: {expected} bytes expected, TMA tiles of {bytes_} bytes",
    )
    require(
        bytes_ <= _MAX_BYTES,
        f"gpu.mbarrier_arrive_expect_tx: a phase counts up to {_MAX_BYTES} bytes",
    )


def verify_arrivals(op: Any) -> None:
    """Require the arrival count of a phase to equal the warps that arrive: all of the program."""
    made: Any = op.barriers.owner
    warps = None if isinstance(made, Block) else made.arrival_count
    require(warps is not None, "gpu.mbarrier_arrive: barriers that wait for bytes, not for warps")
    function = op.parent_op()
    while function is not None and function.name != "func.func":
        function = function.parent_op()
    given = function.attributes.get("gpu.num_warps") if function is not None else None
    require(
        warps is None or given is None or warps.value == given.value,
        f"gpu.mbarrier_arrive: {given} warps arrive where {warps} are waited for",
    )


def verify_parts(op: Any) -> None:
    """Require floats of one type before and after, and lanes of a warp."""
    require(op.source.type == op.result.type, f"{op.name}: types")
    require(isinstance(tile.element_of(op.source), AnyFloat), f"{op.name}: elements")
    require(0 < op.lanes.value.data < _LANES, f"{op.name}: lanes")


_BY_ONE_THREAD = (
    "gpu.mbarrier_wait", "gpu.mbarrier_arrive_expect_tx", "gpu.tma_load", "gpu.tma_store",
)  # fmt: skip


def verify_elected(op: Any) -> None:
    """Reject barriers below `gpu.elect`: the other threads would deadlock."""
    pending = [op.result]
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if isinstance(user, arith.AndIOp):
                pending.append(user.result)
                continue
            require(isinstance(user, scf.IfOp), f"gpu.elect: {user.name} of what differs by thread")
            require(not user.results, "gpu.elect: a value of one thread alone")
            for inner in user.walk():
                mine = inner is user or inner.name in _BY_ONE_THREAD or _scalar(inner)
                require(mine, f"gpu.elect: {inner.name} by one thread")


def _scalar(op: Operation) -> bool:
    known = op.name.partition(".")[0] in ("arith", "scf") or op.name.startswith(
        ("tile.cmp", "tile.sel")
    )
    return known and not any(tile.is_tile(v) for v in (*op.operands, *op.results))


def verify_one_thread(op: Operation) -> None:
    """Require TMA loads and expected bytes to be issued by one thread: below a branch on `gpu.elect`."""
    if not any(isinstance(above, scf.IfOp) and _elected(above.cond) for above in ancestors(op)):
        raise VerifyException(f"{op.name}: every thread would do it: a gpu.elect is missing")


def _elected(condition: SSAValue) -> bool:
    op = condition.owner
    if isinstance(op, Block):
        return False
    return op.name == "gpu.elect" or (
        isinstance(op, arith.AndIOp) and any(_elected(v) for v in op.operands)
    )


_BY_ALL = (
    "gpu.barrier", "tile.barrier", "gpu.convert_layout", "gpu.local_store", "gpu.local_load", "gpu.local_transpose",
    "gpu.wgmma", "gpu.wgmma_wait", "gpu.async_copy", "gpu.async_commit_group", "gpu.async_wait", "gpu.mbarrier_arrive", "gpu.local_alloc",
    "gpu.mbarrier_init", "gpu.local_dealloc",
)  # fmt: skip


def verify_producer(op: Any) -> None:
    """Reject tile values and operations of all warps in a producer warp."""
    for inner in op.body.walk():
        tiles = any(tile.is_tile(v) for v in (*inner.operands, *inner.results))
        require(
            inner.name not in _BY_ALL and not tiles, f"gpu.producer_warp: {inner.name} by one warp"
        )


def verify_wgmma(op: Any) -> None:
    """Require operands in layouts that descriptors, or register operands, support, and an accumulator in the
    instruction's fragment layout."""
    in_registers = tile.is_tile(op.lhs)
    held = op.lhs.type if in_registers else _held(op.lhs)
    b = _shared(op.rhs)
    require(op.acc.type == op.result.type, "gpu.wgmma: accumulator type")
    (m, n), (rows, k) = tile.shape_of(op.acc), tile.shape_of(held)
    require((rows, b.columns) == (m, n) and k == b.rows, "gpu.wgmma: extents")
    name = op.instruction.data
    if not name.startswith("wgmma"):
        return
    instruction = parse_wgmma(name)
    kinds = str(held.element_type), str(_held(op.rhs).element_type)
    wanted = (_TYPES.get(instruction.left), _TYPES.get(instruction.right))
    require(kinds == wanted, f"gpu.wgmma: {instruction} of {' and '.join(kinds)}")
    require(k % instruction.k == 0, f"gpu.wgmma: {instruction} steps through {k}")
    _verify_major(op, b, 1, instruction)
    if not in_registers:
        _verify_major(op, _shared(op.lhs), 0, instruction)
    elif (layout := layout_of(op.lhs)) is not None:
        fits = wgmma_a_layout(instruction, m, n, k, layout.warp_count) == layout
        fits = fits and not instruction.through
        require(fits, f"gpu.wgmma: {instruction} takes no registers of {op.lhs.type}")
    _verify_accumulator(op.acc.type, m, n, instruction)


def _verify_major(
    op: Operation, shared: SharedLayout, index: int, instruction: WgmmaInstruction
) -> None:
    """Require the major dimension of operand `index` that the instruction supports."""
    wanted = instruction.majors[index]
    across = wanted not in (None, shared.major_dim)
    require(not across, f"gpu.wgmma: {instruction} across k: {shared}")
    require(shared.swizzle_bytes != LINEAR, f"gpu.wgmma: descriptors describe panels, not {shared}")
    require(
        shared.row_stride_bytes % SWIZZLE_ATOM_BYTES == 0,
        f"gpu.wgmma: lines of {shared.row_stride_bytes} bytes",
    )
    _verify_pattern(op, shared)


def _verify_accumulator(kind: Attribute, m: int, n: int, instruction: WgmmaInstruction) -> None:
    layout = layout_of(kind)
    if layout is None:
        return
    partition = partition_wgmma(instruction, m, n, layout.warp_count)
    require(partition is not None, f"gpu.wgmma: {layout.warp_count} warps do not share out {m}x{n}")
    if partition is not None and partition.accumulator_layout != layout:
        raise VerifyException(f"gpu.wgmma: the accumulator is not a fragment of it: {kind}")
