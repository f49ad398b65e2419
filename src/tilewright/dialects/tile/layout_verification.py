"""Verification of operations' tile layouts after `assign-layouts`.

Code generation uses each thread's registers as they are, and the interpreter ignores layouts. Only verification finds a
mask whose layout differs from its values', or a broadcast row that the threads do not hold. The rules are those by which
code generation maps registers (`backends/nvidia/lower`): a register of one tile maps to that of another with the same
offset in common coordinates, and both must hold the same element in every thread. Coordinates are linear in the bits of
register, lane and warp, so checking each bit is sufficient.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import cast

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilewright.layouts import Layout, parse_layout
from tilewright.layouts.fragments import INSTRUCTIONS, WARP_GRIDS, mma_layouts
from tilewright.layouts.layout import Vector

Change = tuple[str, tuple[int, ...]]
"""Map to common coordinates: a case of `_changed` and its arguments."""
SAME: Change = ("same", ())


def layout_of(value: SSAValue | Attribute) -> Layout | None:
    """The layout of a tile value or type; None before layouts are assigned and for scalars."""
    kind = value.type if isinstance(value, SSAValue) else value
    if type(kind) is TensorType and type(kind.encoding) is StringAttr:
        return parse_layout(kind.encoding.data)
    return None


def same_layout(op: Operation, *values: SSAValue | None) -> None:
    """Require one common layout, or none, of tiles that are accessed register by register."""
    kinds = [v.type for v in values if v is not None and isinstance(v.type, TensorType)]
    if any(k.encoding != kinds[0].encoding for k in kinds[1:]):
        listed = ", ".join(str(k) for k in kinds)
        raise VerifyException(
            f"{op.name}: tiles that are taken together differ in layout: {listed}"
        )
    if kinds and isinstance(kinds[0].encoding, StringAttr):
        well_formed(op, kinds[0].encoding.data, tuple(kinds[0].get_shape()))


def well_formed(op: Operation, text: str, shape: Vector) -> None:
    """Require the text of a surjective layout of this shape."""
    problem = _fault(text, shape)
    if problem:
        raise VerifyException(f"{op.name}: {problem}: {text}")


def verify_compatible(
    op: Operation,
    result: SSAValue,
    source: SSAValue,
    of_result: Change = SAME,
    of_source: Change = SAME,
) -> None:
    """Require that each thread holds every element of its registers of `result` in a register of `source`."""
    a, b = layout_of(result), layout_of(source)
    if a is None and b is None:
        return
    if a is None or b is None or not _corresponds(a, b, of_result, of_source):
        raise VerifyException(
            f"{op.name}: the threads do not have what the result needs: {source.type} to {result.type}"
        )


def verify_dot_layouts(
    op: Operation, name: str, lhs: SSAValue, rhs: SSAValue, acc: SSAValue
) -> None:
    """Require the fragment layouts of `mma.sync` for operands and accumulator."""
    sums = layout_of(acc)
    if sums is None or name not in INSTRUCTIONS:
        return  # elements by way of shared memory, from any layout
    left, right = cast(TensorType, lhs.type), cast(TensorType, rhs.type)
    *batch, m, k = left.get_shape()
    n = right.get_shape()[-1]
    ways = [
        mma_layouts(name, (m, n, k), sums.warp_count, *batch, along=along) for along in WARP_GRIDS
    ]
    found = tuple(layout_of(value) for value in (lhs, rhs, acc))
    if found not in ways:
        wanted = ", ".join(map(str, ways[0]))
        kinds = ", ".join(str(value.type) for value in (lhs, rhs, acc))
        raise VerifyException(f"{op.name}: {name} wants {wanted}, not {kinds}")


def verify_scan_layout(op: Operation, value: SSAValue, axis: int) -> None:
    """Require that along the axis a thread holds runs: lanes follow, then warps, then further runs per thread."""
    layout = layout_of(value)
    if layout is None:
        return
    held = [vector[axis] for vector in layout.registers if vector[axis]]
    threads = [vector[axis] for vector in (*layout.lanes, *layout.warps) if vector[axis]]
    whole = sorted(held + threads) == [1 << i for i in range(len(held) + len(threads))]
    whole = whole and all(b == 2 * a for a, b in pairwise(threads))
    shared = layout.group_dim == axis or any(
        sum(map(bool, v)) > 1 and v[axis] for v in (*layout.lanes, *layout.warps)
    )
    if not whole or shared:
        raise VerifyException(f"{op.name}: no thread has a run along {axis}: {value.type}")


@lru_cache(maxsize=4096)
def _fault(text: str, shape: Vector) -> str:
    try:
        layout = parse_layout(text)
    except ValueError as error:
        return str(error)
    if layout.shape != shape:
        return "the layout is that of another shape"
    if len(layout.lanes) != 5:
        return "a warp has 32 lanes"
    return "" if layout.is_surjective else "the layout leaves elements out"


@lru_cache(maxsize=4096)
def _corresponds(a: Layout, b: Layout, of_a: Change, of_b: Change) -> bool:
    if a.warp_count != b.warp_count:
        return False
    places: dict[Vector, int] = {}
    for register, offset in enumerate(b.register_offsets):
        places.setdefault(_changed(of_b, offset), register)
    threads = list(product((0, *(1 << i for i in range(5))), _warps(a)))
    for register in _registers(a):
        other = places.get(_changed(of_a, a.register_offsets[register]))
        if other is None:
            return False
        for lane, warp in threads:
            mine = _changed(of_a, a.coordinates(register, lane, warp))
            if mine != _changed(of_b, b.coordinates(other, lane, warp)):
                return False
    return True


def _registers(layout: Layout) -> list[int]:
    """One register per bit of the block, and one per copy."""
    block = 1 << len(layout.registers)
    found = {0, *(1 << i for i in range(len(layout.registers)))}
    return sorted(found | {*range(0, layout.registers_per_thread, block)})


def _warps(layout: Layout) -> list[int]:
    bits = {0, *(1 << i for i in range(len(layout.warps)))}
    return sorted(bits | {*range(0, layout.warp_count, 1 << len(layout.warps))})


def _changed(change: Change, at: Vector) -> Vector:
    """`at` in other coordinates: "drop" an axis, "zero" some, permute dimensions ("order"), restrict to one
    dimension ("in"), "append" one, or "reshape" (the extents of both shapes)."""
    name, given = change
    match name:
        case "drop":
            return at[: given[0]] + at[given[0] + 1 :]
        case "zero":
            return tuple(0 if d in given else c for d, c in enumerate(at))
        case "order":
            return tuple(at[d] for d in given)
        case "in":
            return (at[given[0]],)
        case "append":
            return (*at, *given)
        case "reshape":
            return reshaped(at, given[: len(at)], given[len(at) :])
        case _:
            return at


def reshaped(at: Vector, shape: Vector, wanted: Vector) -> Vector:
    """The coordinates in a tile of shape `wanted` of the element at `at` in one of `shape` (both row-major)."""
    flat = 0
    for c, extent in zip(at, shape, strict=True):
        flat = flat * extent + c
    return tuple(flat // prod(wanted[d + 1 :]) % extent for d, extent in enumerate(wanted))
