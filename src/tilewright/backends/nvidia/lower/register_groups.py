"""Registers of a thread whose values are known to be equal, or to count upwards: computed once per group."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.dialects import gpu, tile
from tilewright.passes.gpu.analysis.accesses import COUNTING, EQUAL


def representatives(op: Operation, name: str = "") -> list[int] | None:
    """For each register of the result the first register of its group (attribute `name`: either by default); None
    where all are computed."""
    given = (
        op.attributes.get(name) if name else op.attributes.get(EQUAL) or op.attributes.get(COUNTING)
    )
    layout = gpu.layout_of(op.results[0]) if given is not None else None
    if layout is None or not isinstance(given, DenseArrayBase):
        return None
    pairs = list(tile.ints(given))
    sizes = dict(zip(pairs[::2], pairs[1::2], strict=True))
    starts = [
        tuple(c - c % sizes.get(d, 1) for d, c in enumerate(offset))
        for offset in layout.register_offsets
    ]
    return [layout.register_of[start] for start in starts]


def equal_to(op: Operation) -> dict[int, int]:
    """Registers of the result that repeat an earlier one (of a counting group: its first), and that one."""
    firsts = representatives(op) or []
    return {i: at for i, first in enumerate(firsts) if (at := firsts.index(first)) < i}


def counted(gen: KernelCodegen, op: Operation, parts: list[Value]) -> list[Value]:
    """Registers of a result of which each holds the first of its group: those that count upwards from it."""
    given = op.attributes.get(COUNTING)
    if not isinstance(given, DenseArrayBase):
        return parts
    dim, size = tile.ints(given)
    steps = [offset[dim] % size for offset in gen.layout(op.results[0]).register_offsets]
    return [
        gen.builder.add(part, step) if step else part
        for part, step in zip(parts, steps, strict=True)
    ]
