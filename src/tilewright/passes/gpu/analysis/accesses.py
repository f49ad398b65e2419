"""How the threads of a program should share out a load or a store."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.blocked import blocked
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.projection import Projector

WIDEST = 16
"""Bytes that one thread moves with one instruction."""

VECTOR = "gpu.vector_width"
"""On an access: how many neighbours it takes at once (`vectorize-accesses`); 1 without it."""
SMALLEST_COPY = 4
"""Bytes that the narrowest asynchronous copy moves (PTX ISA, `cp.async`)."""

View = tile.LoadViewOp | tile.StoreViewOp | gpu.AsyncCopyOp


def tile_of(op: Operation) -> Any:
    """The type of the tile that an access moves."""
    return op.buffer.type.tile if isinstance(op, gpu.AsyncCopyOp) else accessed(op).type  # type: ignore[union-attr]


def accessed(op: Operation) -> SSAValue:
    """The tile that a load gives or a store takes."""
    return op.results[0] if op.results else op.value  # type: ignore[attr-defined]


def contiguous_dim(op: View) -> int | None:
    """The dimension along which neighbours are neighbours in memory."""
    kinds = tile.view_kinds(op)
    shape = tile.shape_of(tile_of(op))
    found = [
        d
        for d, stride in enumerate(op.strides)
        if kinds[d] in ("strided", "wrapped") and constant_int(stride) == 1 and shape[d] > 1
    ]
    return found[-1] if found else None


def vector_of(op: Operation) -> int:
    """Elements that an access takes at once."""
    given = op.attributes.get(VECTOR)
    return given.value.data if isinstance(given, IntegerAttr) else 1


def is_masked_along(op: View, dim: int) -> bool:
    """Whether the mask of an access may differ along a dimension."""
    return op.mask is not None and dim in Projector().varies(op.mask)


def run_length(op: View, known: Facts) -> int:
    """Elements along the contiguous dimension that one aligned access may take (a power of two).

    A copy takes or leaves all of them: it has one element where the mask varies.
    """
    dim = contiguous_dim(op)
    if dim is None or (isinstance(op, gpu.AsyncCopyOp) and is_masked_along(op, dim)):
        return 1
    size = tile.element_bytes(tile.element_of(tile_of(op)))
    align = known.divisor(op.base)
    kinds = tile.view_kinds(op)
    shape = tile.shape_of(tile_of(op))
    indices = iter(op.indices)
    starts = iter(zip(op.starts, op.sizes, strict=True))
    for d, (kind, stride) in enumerate(zip(kinds, op.strides, strict=True)):
        start_size = next(starts) if kind == "wrapped" else None
        if kind == "indexed":
            align = min(align, known.divisor(next(indices)) * size)
        elif d != dim and shape[d] > 1:
            align = min(align, known.divisor(stride) * size)
        if start_size is not None:
            start, extent = start_size
            if d == dim:
                align = min(align, known.divisor(start) * size, known.divisor(extent) * size)
            else:
                align = min(align, known.divisor(stride) * size)
    promised = op.attributes.get(tile.ROW_ALIGNMENT)
    if isinstance(promised, DenseArrayBase):
        align = max(align, tile.ints(promised)[dim])
    run = min(WIDEST, align) // size
    return max(1, min(run, shape[dim] & -shape[dim]))


def access_layout(op: Operation, known: Facts, warps: int) -> Layout:
    """The layout in which `op` is done with the fewest and widest memory transactions."""
    shape = tile.shape_of(tile_of(op))
    order = list(reversed(range(len(shape))))
    run = 1
    if isinstance(op, View):
        dim = contiguous_dim(op)
        if dim is not None:
            order.remove(dim)
            order.insert(0, dim)
            run = run_length(op, known)
    share = max(1, prod(shape) // (32 * warps))
    while run > share:
        run //= 2
    return blocked(shape, warps, run, tuple(order))


def default_layout(shape: tuple[int, ...], warps: int) -> Layout:
    """For tiles that no access decides on."""
    return blocked(shape, warps, max(1, min(4, prod(shape) // (32 * warps))))
