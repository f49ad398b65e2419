"""Where a tensor map is encoded, by the host or in a block of the kernel, and which values are known there.

The host makes the maps of arrays whose address, extents and pitches are kernel arguments. Those of other arrays (a pointer
from a table, lengths from memory) the program makes itself, in front of the operation of a block that holds the accesses:
of values from that block or from around it. The further out that block is, the less often the map is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.ir.walk import ancestors
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.analysis.disjoint_accesses import root_of
from tilewright.passes.analysis.edit import outermost_in
from tilewright.passes.analysis.polynomial import Polynomial


@dataclass(frozen=True)
class Origin:
    """Who makes a tensor map: the host, or the program in `block`."""

    block: Block | None = None

    def knows(self, value: SSAValue) -> bool:
        """Return whether a scalar that an access in `block` is computed from is there when the map is made."""
        if self.block is None:
            return isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), FuncOp)
        return is_available(value, self.block)

    def knows_all(self, polynomial: Polynomial) -> bool:
        """Return whether a polynomial consists of such scalars."""
        return all(self.knows(leaf.value) for leaf in polynomial.leaves())

    def root(self, pointer: SSAValue) -> SSAValue | None:
        """Return the address of the array that a pointer leads into."""
        if self.block is None:
            return base_argument(pointer)
        root = root_of(pointer)
        return root if self.knows(root) else None

    def before(self, access: Operation) -> Operation | None:
        """Return where the program makes the map of an access."""
        return None if self.block is None else outermost_in(self.block, access)


HOST = Origin()


def origins_around(access: Operation) -> Iterator[Origin]:
    """The blocks around an operation in which the program may make a map for it, the outermost first."""
    inside = takewhile(lambda op: not isinstance(op, FuncOp), (access, *ancestors(access)))
    blocks = [op.parent for op in inside if op.parent is not None]
    return (Origin(block) for block in reversed(blocks))


def is_available(value: SSAValue, block: Block) -> bool:
    """Return whether a value is defined in `block` or around it."""
    defined = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return defined is not None and defined.is_ancestor(block)
