"""Which operations may be moved, repeated or dropped."""

from __future__ import annotations

import functools
from typing import cast

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, Pure

from tilewright.dialects import tile
from tilewright.ir.walk import ancestors

_PURE_DIALECTS = ("arith.", "math.")
_LOOPS = ("scf.for", "scf.while")
_REGION_OPS = (*_LOOPS, "scf.if")


def is_pure(op: Operation) -> bool:
    """Whether `op` only computes its results: no memory, no fault, no output.

    xDSL marks some `arith` operations (divisions, `extsi`) less than pure; here division by zero gives
    an unspecified value and never traps, so all of `arith` and `math` may be executed speculatively.
    """
    kind = type(op)
    if kind is tile.InlineAsmOp:
        return bool(cast(tile.InlineAsmOp, op).pure.value.data)
    return _is_pure_kind(kind)


@functools.cache
def _is_pure_kind(kind: type[Operation]) -> bool:
    return kind.name.startswith(_PURE_DIALECTS) or kind.has_trait(Pure)


@functools.cache
def _is_lane_wise_kind(kind: type[Operation]) -> bool:
    return kind.name.startswith(_PURE_DIALECTS) or tile.elementwise_trait(kind) is not None


@functools.cache
def _is_terminator_kind(kind: type[Operation]) -> bool:
    return kind.has_trait(IsTerminator)


def is_terminator(op: Operation) -> bool:
    """Whether `op` ends a block."""
    return _is_terminator_kind(type(op))


def is_pure_elementwise(op: Operation) -> bool:
    """Whether `op` is a pure operation that acts element-wise on operands of its result's shape."""
    return _is_lane_wise_kind(type(op))


def is_volatile(op: Operation) -> bool:
    """Whether an operation is a load that the author asked to be done as written."""
    given = op.volatile if isinstance(op, tile.LoadOp) else None
    return given is not None and bool(given.value.data)


def has_effect(op: Operation) -> bool:
    """Whether executing `op` (with its regions) can be noticed other than through its results.

    Loads have no effect in this sense: one whose result is unused may go. Volatile ones may not. An
    `scf.while` may run forever, and waiting is what spin locks do, so it always has an effect.
    """
    if op.name == "scf.while":
        return True
    if op.name in _REGION_OPS:
        return any(has_effect(inner) for region in op.regions for inner in _ops(region))
    if isinstance(op, tile.LoadOp):
        return is_volatile(op)
    if isinstance(op, tile.LoadViewOp) or is_terminator(op):
        return False
    return not is_pure(op)


def reads_strongly(function: Operation) -> bool:
    """Whether `function` reads what other programs write meanwhile: by volatile loads, by atomics whose results are
    used, or by assembly. Without such a read no program can tell what an atomic with an unused result has acquired."""
    for op in function.walk():
        if isinstance(op, tile.LoadOp) and is_volatile(op):
            return True
        if isinstance(op, tile.AtomicRMWOp | tile.AtomicCASOp) and op.result.first_use is not None:
            return True
        if isinstance(op, tile.InlineAsmOp) and not is_pure(op):
            return True
    return False


def _ops(region: Region) -> list[Operation]:
    return [op for block in region.blocks for op in block.ops]


def erase_dead(block: Block) -> int:
    """Erase, last to first, operations in `block` and below whose results nothing uses. Returns how many."""
    erased = 0
    op = block.last_op
    while op is not None:
        before = op.prev_op
        for result in op.results:
            if result.first_use is not None:
                removable = False
                break
        else:
            removable = bool(op.results) or op.name in _REGION_OPS
        if removable and not is_terminator(op) and not has_effect(op):
            block.erase_op(op)
            erased += 1
        else:
            for region in op.regions:
                for inner in region.blocks:
                    erased += erase_dead(inner)
        op = before
    return erased


def loop_depth(value: SSAValue) -> int:
    """The number of `scf.for` and `scf.while` bodies around the definition of `value`."""
    above = value.owner.parent_op()
    return 0 if above is None else sum(op.name in _LOOPS for op in (above, *ancestors(above)))


def defined_inside(value: SSAValue, op: Operation) -> bool:
    """Whether `value` is a result or block argument inside one of the regions of `op`."""
    return value.owner is not op and op.is_ancestor(value.owner)
