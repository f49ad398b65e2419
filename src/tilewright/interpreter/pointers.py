"""`Allocation`, and `PointerValue`: addresses with the allocation that they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from tilewright.errors import SourceLocation
from tilewright.interpreter.arrays import ArrayMemory, array_layout, view_bytes


@dataclass(eq=False)
class Allocation:
    """Bytes `[base, base + nbytes)`, called `name`; `data` is a view onto them.

    `origin` is the address of the argument's element 0 and `itemsize` its element size: indices in
    messages count from there. `written` (one flag a byte) is there only for memory whose first
    contents mean nothing.
    """

    name: str
    base: int
    nbytes: int
    data: np.ndarray
    origin: int
    itemsize: int
    kind: str = ""
    read_only: bool = False
    written: np.ndarray | None = None
    owner: Any = field(default=None, repr=False)
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    """Extents of the argument, and what they step by in elements; () where it does not say."""

    @property
    def end(self) -> int:
        return self.base + self.nbytes

    def element(self, address: int) -> int:
        """Index of the element at `address`, counted from the argument's first."""
        return (address - self.origin) // self.itemsize

    def describe(self) -> str:
        """`'x' (fp32, elements 0 … 99, 400 bytes)`."""
        low, high = self.element(self.base), self.element(self.end - 1)
        span = f"elements {low} … {high}" if self.nbytes else "no elements"
        kind = f"{self.kind}, " if self.kind else ""
        return f"'{self.name}' ({kind}{span}, {self.nbytes} bytes)"


def allocation_of(name: str, array: Any, memory: ArrayMemory, base: int, nbytes: int) -> Allocation:
    """The bytes `[base, base + nbytes)` of an array or its allocation."""
    element = memory.element
    shape, strides = array_layout(array)
    return Allocation(
        name, base, nbytes, view_bytes(base, nbytes), memory.address, element.itemsize, str(element),
        memory.read_only, owner=memory.owner, shape=shape, strides=strides,
    )  # fmt: skip


class PointerValue:
    """A pointer or a tile of them: int64 byte `addresses` and the allocation they came from.

    `allocation` is None when it is not known (pointers made of integers, or chosen from several);
    each access then looks it up.
    """

    __slots__ = ("addresses", "allocation")

    def __init__(self, addresses: Any, allocation: Allocation | None = None) -> None:
        self.addresses = np.asarray(addresses, np.int64)
        self.allocation = allocation

    @property
    def shape(self) -> tuple[int, ...]:
        return self.addresses.shape

    def offset_by(self, offsets: Any, itemsize: int) -> PointerValue:
        """Pointers moved by `offsets` elements of `itemsize` bytes; shapes broadcast."""
        with np.errstate(over="ignore"):
            moved = self.addresses + np.asarray(offsets).astype(np.int64) * np.int64(itemsize)
        return PointerValue(moved, self.allocation)

    def map(self, function: Callable[[np.ndarray], Any]) -> PointerValue:
        """`function` applied to the addresses: reshape, broadcast, transpose and so on."""
        return PointerValue(function(self.addresses), self.allocation)

    @staticmethod
    def combine(
        function: Callable[..., Any], pointers: Iterable[PointerValue], *rest: Any
    ) -> PointerValue:
        """`function(*addresses, *rest)`: select, join and so on; the allocation if they share it."""
        items = list(pointers)
        owners = {id(p.allocation): p.allocation for p in items}
        allocation = items[0].allocation if len(owners) == 1 else None
        return PointerValue(function(*(p.addresses for p in items), *rest), allocation)

    def __repr__(self) -> str:
        if self.allocation is None:
            return str(self.addresses)
        items = (self.addresses - self.allocation.origin) // self.allocation.itemsize
        return f"{self.allocation.name} + {items}"


class AccessContext(Protocol):
    """Who accesses memory: the program's grid coordinates and the kernel line it is at."""

    @property
    def program(self) -> tuple[int, int, int]: ...
    @property
    def location(self) -> SourceLocation | None: ...


class Access(NamedTuple):
    """One load, store or atomic while it is checked."""

    what: str  # "tl.load"
    verb: str  # "reads"
    pointers: PointerValue
    itemsize: int
    mask: np.ndarray | None
    ctx: AccessContext


class Part(NamedTuple):
    """The lanes of an access that are in one allocation: their indices, and their byte offsets in it."""

    access: Access
    allocation: Allocation
    lanes: tuple[np.ndarray, ...]
    offsets: np.ndarray


def part_of(access: Access, allocation: Allocation, lanes: tuple[np.ndarray, ...]) -> Part:
    """The part of an access that `lanes`, which are in `allocation`, make."""
    return Part(access, allocation, lanes, access.pointers.addresses[lanes] - allocation.base)
