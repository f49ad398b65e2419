"""Alias analysis: base arguments, noalias, and accesses with provably equal addresses."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.emit import constant_int

_SAME_BASE = (
    tile.AddPtrOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.HintOp, tile.BitcastOp,
)  # fmt: skip
"""Operations that give pointers based on the argument that their first operand is based on."""


def base_argument(pointer: SSAValue) -> BlockArgument | None:
    """The kernel argument that a pointer, or a tile of pointers, is based on; None if it is not a single one."""
    value = pointer
    while True:
        op = value.owner
        if isinstance(op, Block):
            in_function = isinstance(op.parent_op(), FuncOp)
            return value if in_function and isinstance(value, BlockArgument) else None
        if isinstance(op, _SAME_BASE):
            value = op.operands[0]
        else:
            return None


def base_arguments(pointer: SSAValue) -> frozenset[SSAValue] | None:
    """The kernel arguments one of which a pointer is based on: several where selects choose among pointers. None if it may
    be based on something else."""
    found: set[SSAValue] = set()
    for value in closure([pointer], _selected_pointers):
        root = base_argument(value)
        if root is not None:
            found.add(root)
        elif not _selected_pointers(value):
            return None
    return frozenset(found)


def _selected_pointers(pointer: SSAValue) -> list[SSAValue]:
    """The pointers among which the select that a pointer is based on chooses; none without one."""
    value = pointer
    while isinstance(value.owner, _SAME_BASE):
        value = value.owner.operands[0]
    return _chosen(value)


def is_selected_argument(pointer: SSAValue) -> bool:
    """Whether a pointer is one of several kernel arguments, as they are, among which selects choose."""
    return all(
        isinstance(value.owner, tile.SelectOp) or base_argument(value) is value
        for value in closure([pointer], _chosen)
    )


def _chosen(value: SSAValue) -> list[SSAValue]:
    return [value.owner.lhs, value.owner.rhs] if isinstance(value.owner, tile.SelectOp) else []


def is_noalias(root: BlockArgument) -> bool:
    """Whether an argument has the attribute `tile.noalias`.

    Assumes (the launcher guarantees): no other argument aliases the argument's memory, and all lanes of an access
    through it have distinct addresses.
    """
    function = root.owner.parent_op()
    if not isinstance(function, FuncOp) or root.owner is not function.body.block:
        return False
    if (attributes := function.arg_attrs) is None:
        return False
    return "tile.noalias" in attributes.data[root.index].data


def no_alias(first: SSAValue, second: SSAValue) -> bool:
    """Whether two pointers cannot alias because one is based on a noalias argument."""
    x, y = base_argument(first), base_argument(second)
    return x is not None and y is not None and x is not y and (is_noalias(x) or is_noalias(y))


def same_addresses(
    first: Operation, second: Operation, equal: Iterable[tuple[SSAValue, SSAValue]] = ()
) -> bool:
    """Whether lane i of both structured accesses has the same address, judged by the operands.

    Compares base, extents, and per dimension the kind with its stride, start and size (wrapped) or indices (indexed).
    Ignores limits and masks, which select lanes. Both accesses are in one execution of the enclosing code, in which
    the pairs of `equal` (of a value of the first and one of the second) are taken for equal.
    """
    if not (isinstance(first, tile.View) and isinstance(second, tile.View)):
        return False
    if first.kinds != second.kinds or _extents(first) != _extents(second):
        return False
    operands = [
        (first.base, second.base),
        *zip(first.starts, second.starts, strict=True),
        *zip(first.sizes, second.sizes, strict=True),
        *zip(first.indices, second.indices, strict=True),
    ]
    for kind, a, b in zip(tile.view_kinds(first), first.strides, second.strides, strict=True):
        if kind != "indexed":
            operands.append((a, b))
    return all(same_scalar(a, b, equal) for a, b in operands)


def has_distinct_lanes(access: Operation, *, trust_strides: bool = False) -> bool | None:
    """Whether the lanes of a structured access have distinct addresses: True, False (two lanes share one), or None if
    it depends on run-time values.

    Proved for constant strides each of which exceeds the extent of all smaller ones, and for noalias arguments. Ignores
    limits and masks. `trust_strides`: assume that strides known only at run time do not overlap (docs/gpu.md).
    """
    if not isinstance(access, tile.View):
        return None
    root = base_argument(access.base)
    if root is not None and is_noalias(root):
        return True
    steps: list[tuple[int, int]] = []
    known = True
    sizes = iter(access.sizes)
    dims = zip(tile.view_kinds(access), access.strides, _extents(access), strict=True)
    for kind, stride, extent in dims:
        size = constant_int(next(sizes)) if kind == "wrapped" else extent
        if extent == 1:
            continue
        step = constant_int(stride)
        if kind == "indexed" or size is None or size < extent:
            known = False  # one index may stand in two lanes
        elif step is not None:
            steps.append((step, size - 1))
        else:
            known = known and trust_strides
    if any(stride == 0 for stride, _ in steps):
        return False
    reach = 0
    for stride, last in sorted((abs(s), n) for s, n in steps):
        if stride <= reach:
            return None  # two sums of multiples may be equal
        reach += stride * last
    return True if known else None


def _extents(access: tile.View) -> tuple[int, ...]:
    return tile.shape_of(tile.accessed(access))


def same_scalar(a: SSAValue, b: SSAValue, equal: Iterable[tuple[SSAValue, SSAValue]] = ()) -> bool:
    """Whether two values (scalars, or tiles of indices) are equal in one execution of the enclosing code: the same
    value, equal constants, a pair of `equal`, or the same pure operation on equal operands."""
    pending, seen = [(a, b)], set(equal)
    while pending:
        pair = pending.pop()
        x, y = pair
        if x is y or pair in seen:
            continue
        seen.add(pair)
        p, q = x.owner, y.owner
        if not (isinstance(p, Operation) and isinstance(q, Operation)) or not _same_work(p, q):
            return False
        if x.type != y.type:
            return False
        pending += zip(p.operands, q.operands, strict=True)
    return True


def _same_work(p: Operation, q: Operation) -> bool:
    """Whether two pure operations compute equal results from equal operands."""
    value = p.properties.get("value")
    return (
        type(p) is type(q)
        and not isinstance(value, FloatAttr | DenseIntOrFPElementsAttr)  # 0.0 equals -0.0
        and len(p.results) == 1
        and len(p.operands) == len(q.operands)
        and not p.regions
        and is_pure(p)
        and p.properties == q.properties
        and p.attributes == q.attributes
    )
