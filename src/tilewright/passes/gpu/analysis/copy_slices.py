"""Compute the backward slices of a loop's copies, which prefetching clones for later iterations.

Addresses may depend on memory (a page table, gather indices, sequence bounds). Such loads are executed ahead as
well, unless the loop may write the memory they read. They are predicated off beyond the last iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import Mapping, backward_slice, insert_before
from tilewright.passes.analysis.effects import is_pure, is_volatile
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.gpu.analysis.accesses import may_clobber

_LARGEST = 1 << 10
"""Maximum elements of a loaded or loop-carried tile in an address slice, i.e. a few registers per thread."""


def slice_of(
    loop: scf.ForOp, values: Iterable[SSAValue]
) -> tuple[list[Operation], list[BlockArgument]] | None:
    """Return the backward slice of `values`: operations of the body, in order, and loop-carried values. None if it
    cannot be computed ahead of its iteration."""

    def is_early(op: Operation) -> bool:
        return not op.regions and (is_pure(op) or _is_early(op, loop))

    found = backward_slice(loop.body.block, values, is_early, carried=True)
    return found if found is not None and all(map(_is_small, found[1])) else None


def _is_small(value: SSAValue) -> bool:
    return prod(tile.shape_of(value)) <= _LARGEST


def _is_early(op: Operation, loop: scf.ForOp) -> bool:
    """Return whether a load returns the same value when executed iterations ahead."""
    return (
        isinstance(op, tile.Load)
        and _is_small(op.result)
        and not is_volatile(op)
        and not tile.is_tile(pointer := tile.pointer_of(op))
        and not may_clobber(loop, [pointer])
    )


def clone_slice(
    operations: Iterable[Operation], state: Mapping, before: Operation, active: SSAValue | None
) -> Mapping:
    """Clone a slice for the counter and loop-carried values in `state`; return the value mapping. `active`: i1,
    whether that iteration exists (None: it does)."""
    mapping = dict(state)
    for op in operations:
        if isinstance(op, tile.Load) and active is not None:
            mapping[op.results[0]] = clone_load(op, mapping, active, Emitter(before)).results[0]
        else:
            insert_before(op.clone(mapping), before)
    return mapping


def clone_load(op: tile.Load, mapping: Mapping, active: SSAValue, emitter: Emitter) -> tile.Load:
    """Clone a load, predicated on `active`."""
    now = op.clone(dict(mapping))
    if isinstance(now, tile.LoadOp):
        mask = active if now.mask is None else emitter.binary(arith.AndIOp, now.mask, active)
        others = [] if now.other is None else [now.other]
        new: tile.Load = tile.LoadOp.build(
            operands=[now.pointer, mask, others],
            properties=now.properties,
            result_types=[now.result.type],
        )
    else:
        limits = tile.view_limits(now)
        dim = min(limits, default=0)
        whole = limits.get(dim) or emitter.constant(tile.shape_of(now.result)[dim], i64)
        limits[dim] = emitter.select(active, whole, emitter.constant(0, i64))
        new = cast(tile.LoadViewOp, tile.with_limits(now, limits))
    new.attributes.update(now.attributes)
    now.erase()
    emitter.insert_op(new)
    new.location = op.location
    return new
