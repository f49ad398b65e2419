"""The `tile` dialect: what MLIR's upstream dialects lack for programs on tiles (design: level 1).

A tile is a builtin `tensor<128x64xf16>`; a scalar is a builtin scalar type; a pointer is
`!tile.ptr<f16>` (a tile of pointers is `tensor<64x!tile.ptr<f16>>`). Element-wise arithmetic is
upstream `arith`/`math` on scalars and tiles alike, control flow is `scf` (`for`, `if`, `while`).
Comparisons and selects are `tile.cmpi`, `tile.cmpf`, `tile.select`, because xDSL's `arith.cmpi`,
`arith.cmpf` and `arith.select` take scalars only.

Memory in the IR holds `i1` as one byte (0 or 1). Offsets count elements, not bytes.
"""
# ruff: noqa: F401

from __future__ import annotations

from xdsl.ir import Dialect

from tilewright.dialects.irdl import operations_of
from tilewright.dialects.tile import algebra, claims, elementwise, hints_and_io, memory, tiles
from tilewright.dialects.tile.algebra import DotOp, HistogramOp, ReduceOp, ScanOp, YieldOp
from tilewright.dialects.tile.base import (
    WRAPS,
    PtrType,
    bytes_of,
    element_bytes,
    element_of,
    elements_of,
    elementwise_trait,
    has_tiles,
    ints,
    is_tile,
    moves_lanes,
    shape_of,
    with_shape,
)
from tilewright.dialects.tile.claims import AssumesAttr, ClaimOp, assume, claims_of
from tilewright.dialects.tile.elementwise import (
    BitcastOp,
    CmpFOp,
    CmpIOp,
    FpCastOp,
    IntToPtrOp,
    LibmOp,
    MulHiUOp,
    MulSigmoidOp,
    OptimizationBarrierOp,
    PtrToIntOp,
    RemFOp,
    SelectOp,
)
from tilewright.dialects.tile.hints_and_io import (
    ALIGNED,
    AssertOp,
    AssumeOp,
    BarrierOp,
    HintOp,
    InlineAsmOp,
    PrintOp,
)
from tilewright.dialects.tile.memory import (
    EXCLUSIVE,
    RMW_OPERATIONS,
    ROW_ALIGNMENT,
    AddPtrOp,
    Atomic,
    AtomicCASOp,
    AtomicRMWOp,
    Load,
    LoadOp,
    LoadViewOp,
    Store,
    StoreOp,
    StoreViewOp,
    View,
    accessed,
    make_view,
    pointer_of,
    view_kinds,
    view_limits,
    with_limits,
)
from tilewright.dialects.tile.tiles import (
    ArangeOp,
    BroadcastOp,
    CatOp,
    ExpandDimsOp,
    GatherOp,
    JoinOp,
    NumProgramsOp,
    ProgramIdOp,
    ReshapeOp,
    SplatOp,
    SplitOp,
    TransOp,
)
from tilewright.ir.upstream import remember_integer_lists, widen_conversions

widen_conversions()
remember_integer_lists()


Tile = Dialect(
    "tile",
    [
        kind
        for module in (tiles, elementwise, memory, algebra, hints_and_io, claims)
        for kind in operations_of(vars(module))
    ],
    [PtrType, AssumesAttr],
)
