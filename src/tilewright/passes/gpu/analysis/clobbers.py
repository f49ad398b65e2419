"""Whether something a program copies ahead of its place may be written on the way."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.gpu.analysis.accesses import pointer_of

_WRITES = (tile.StoreOp, tile.StoreViewOp, tile.AtomicRMWOp, tile.AtomicCASOp, gpu.TmaStoreOp)


def may_clobber(above: Operation, pointers: list[SSAValue]) -> bool:
    """Whether an operation inside `above` may write memory of an argument that `pointers` lead into.

    Two arguments are assumed not to alias; a pointer that leads to no single argument may alias any.
    """
    roots = {base_argument(pointer) for pointer in pointers}
    for op in above.walk():
        if isinstance(op, _WRITES):
            written = base_argument(pointer_of(op))
            if written is None or None in roots or written in roots:
                return True
    return False
