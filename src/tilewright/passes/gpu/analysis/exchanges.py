"""Scratch space in shared memory for what crosses threads: conversions of layouts and reductions."""

from __future__ import annotations

from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.gpu.analysis.strips import EXCHANGES
from tilewright.passes.gpu.assign_layouts import warps_of

_PADDING = 64
"""The most bytes after each row of a tile that changes its layout."""


def max_scratch_bytes(function: FuncOp) -> int:
    """Bytes of shared memory that reductions and conversions take, at most."""
    warps, most = warps_of(function), 0
    for op in function.walk():
        if isinstance(op, tile.ReduceOp):
            sums = sum(prod(tile.shape_of(r)) * _size(r) for r in op.results)
            most = max(most, warps * (sums + _PADDING))
        elif isinstance(op, gpu.ConvertLayoutOp):
            *rows, length = tile.shape_of(op.source)
            most = max(most, prod(rows) * (length * _size(op.source) + _PADDING))
    return EXCHANGES // 2 + most


def _size(value: SSAValue) -> int:
    return tile.element_bytes(tile.element_of(value))
