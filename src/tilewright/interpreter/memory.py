"""Memory of an interpreted kernel: its allocations, and loads, stores and atomics checked against them.

Stores go straight to the caller's arrays. Every access is checked against the allocation its
pointer came from; `Checks` turns on stricter rules. An element `i1` takes one byte.
"""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import (
    DeadlockError,
    InterpreterError,
    KernelFault,
    OutOfBoundsError,
    UnwrittenMemoryError,
)
from tilewright.interpreter.arrays import array_memory
from tilewright.interpreter.known_arrays import KnownArrays
from tilewright.interpreter.pointers import (
    Access,
    AccessContext,
    Allocation,
    Part,
    PointerValue,
    allocation_of,
    part_of,
)
from tilewright.interpreter.races import RaceDetector

__all__ = ["AccessContext", "Allocation", "Checks", "Memory", "PointerValue"]

#: polls of a scalar without any change after which a program counts as deadlocked
PATIENCE = 50_000
_SHOWN_LANES = 4


@dataclass(frozen=True)
class Checks:
    """Which rules hold beyond "inside the allocation"."""

    masked: bool = False
    """Lanes that are masked off must be inside too."""
    unwritten: bool = False
    """Memory marked as never written must be written before it is read."""
    races: bool = False
    """Programs may share an address only through atomics or as readers."""
    views: bool = False
    """An array that is a view may be accessed only within its own extent."""
    undefined: bool = False
    """Report uses of lanes that a load without `other=` masks off."""
    nonfinite: bool = False
    """The first NaN or infinity made of finite numbers is a fault."""
    overflow: bool = False
    """Signed integers (in IR: those that offsets are made of) must not wrap."""


class Memory:
    """The memory that a launch may access. Not thread-safe.

    If `undoable`, it records overwritten values for `undo`.
    """

    def __init__(self, checks: Checks | None = None, undoable: bool = False) -> None:
        self.checks = checks or Checks()
        self.allocations: list[Allocation] = []
        self._bases: list[int] = []
        self.races = RaceDetector() if self.checks.races else None
        self._known: KnownArrays | None = None
        self._waiting: tuple[Any, int] = ((), 0)
        self._replaced: list[tuple[np.ndarray, np.ndarray, np.ndarray]] | None = (
            [] if undoable else None
        )

        self.observer: Callable[[Access, bool, bool], None] | None = None
        """Called with each access, whether it writes, and whether it is atomic."""

    def undo(self) -> None:
        """Take all writes back, if the memory is `undoable`."""
        while self._replaced:
            data, places, before = self._replaced.pop()
            data[places] = before

    # ---- allocations ---------------------------------------------------------------------------

    def register(self, name: str, array: Any, written: np.ndarray | None = None) -> PointerValue:
        """Make `array` accessible to kernels; return a pointer to its first element.

        `written` (one bool per byte of the allocation) records initialized bytes.
        Raises LaunchError for a value that is not a CPU array.
        """
        memory = array_memory(array)
        base, nbytes = memory.base, memory.nbytes
        if self.checks.views:
            base, nbytes = memory.first, memory.last - memory.first
        same = next((a for a in self.allocations if (a.base, a.nbytes) == (base, nbytes)), None)
        allocation = allocation_of(name, array, memory, base, nbytes)
        allocation.written = same.written if written is None and same is not None else written
        self.add(allocation)
        return PointerValue(memory.address, allocation)

    def add(self, allocation: Allocation) -> None:
        """Make an allocation known."""
        at = bisect.bisect_right(self._bases, allocation.base)
        self._bases.insert(at, allocation.base)
        self.allocations.insert(at, allocation)

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds `address`: of this launch, or any array that is known."""
        for at in range(bisect.bisect_right(self._bases, address) - 1, -1, -1):
            if address < self.allocations[at].end:
                return self.allocations[at]
        if address <= 0:
            return None
        if self._known is None:
            self._known = KnownArrays()
        found = self._known.find(address)
        if found is not None:
            self.add(found)
        return found

    def pointer(self, addresses: Any) -> PointerValue:
        """A pointer, or a tile of them, made of integers; it knows the array it points into, if that is one."""
        made = PointerValue(addresses)
        flat = made.addresses.ravel()
        flat = flat[flat != 0]
        allocation = self.find(int(flat[0])) if flat.size else None
        if allocation is not None and (
            (flat >= allocation.base).all() and (flat < allocation.end).all()
        ):
            made.allocation = allocation
        return made

    # ---- accesses ------------------------------------------------------------------------------

    def load(
        self, pointers: PointerValue, mask: Any, other: Any, dtype: Any, ctx: AccessContext
    ) -> Any:
        """Elements of NumPy type `dtype` at `pointers`; `other` (or 0) where `mask` is false.

        `mask` is None or booleans of the pointers' shape. Raises OutOfBoundsError and the errors of
        enabled `checks`.
        """
        kind = np.dtype(dtype)
        access = Access("tl.load", "reads", pointers, kind.itemsize, _mask(mask), ctx)
        self._tell(access)
        out = np.zeros(pointers.shape, kind)
        if other is not None:
            out[...] = other
        for part in self._checked(access):
            self._read(part)
            out[part.lanes] = _fetch(part.allocation.data, part.offsets, kind)
        self._watch(access, bool(pointers.shape))
        return out[()]

    def store(self, pointers: PointerValue, values: Any, mask: Any, ctx: AccessContext) -> None:
        """Write `values` (a NumPy value of the element type) where `mask` holds."""
        values = np.asarray(values)
        access = Access("tl.store", "writes", pointers, values.itemsize, _mask(mask), ctx)
        self._tell(access)
        values = np.broadcast_to(values, pointers.shape)
        for part in self._checked(access):
            self._write(part)
            _put(part.allocation.data, part.offsets, values[part.lanes])
        self._watch(access, True)

    def atomic(
        self,
        kind: str,
        pointers: PointerValue,
        values: Any,
        mask: Any,
        ctx: AccessContext,
        sem: str = "acq_rel",
    ) -> Any:
        """`tile.atomic_rmw`: element by element; return the previous values (0 in masked-off lanes).

        `kind` is one of add max min umax umin and or xor xchg fadd fmax fmin.
        """
        combine = COMBINE.get(kind)
        if combine is None:
            raise InterpreterError(f"unknown atomic operation '{kind}'")
        values = np.asarray(values)
        what = f"tl.atomic_{kind if kind in ('and', 'or', 'xor', 'xchg') else kind[-3:]}"
        access = Access(what, "updates", pointers, values.itemsize, _mask(mask), ctx)
        values = np.broadcast_to(values, pointers.shape)
        return self._one_by_one(access, sem, values, lambda old, at: combine(old, values[at]))

    def compare_and_swap(
        self,
        pointers: PointerValue,
        compare: Any,
        values: Any,
        ctx: AccessContext,
        sem: str = "acq_rel",
    ) -> Any:
        """`tile.atomic_cas`: write `values` where memory holds `compare`, bit for bit."""
        values = np.asarray(values)
        compare = np.broadcast_to(np.asarray(compare, values.dtype), pointers.shape)
        access = Access("tl.atomic_cas", "updates", pointers, values.itemsize, None, ctx)
        values = np.broadcast_to(values, pointers.shape)

        def swap(old: Any, at: tuple[int, ...]) -> Any:
            return values[at] if old.tobytes() == compare[at].tobytes() else old

        return self._one_by_one(access, sem, values, swap)

    def _one_by_one(
        self, access: Access, sem: str, values: np.ndarray, new: Callable[[Any, Any], Any]
    ) -> Any:
        pointers, kind = access.pointers, values.dtype
        out = np.zeros(pointers.shape, kind)
        changed = False
        self._tell(access)
        for part in self._checked(access):
            _, allocation, lanes, offsets = part
            self._read(part, atomic=sem)
            self._write(part, atomic=sem)
            indices = zip(*lanes, strict=True) if lanes else [()]
            for at, offset in zip(indices, np.atleast_1d(offsets).tolist(), strict=True):
                place = allocation.data[offset : offset + kind.itemsize]
                old = np.frombuffer(place.tobytes(), kind)[0]
                with np.errstate(all="ignore"):
                    result = np.asarray(new(old, at)).astype(kind)
                out[at] = old
                raw = np.frombuffer(result.tobytes(), np.uint8)
                changed = changed or not np.array_equal(place, raw)
                place[:] = raw
        self._watch(access, changed or bool(pointers.shape))
        return out[()]

    def _tell(self, access: Access) -> None:
        if self.observer is not None:
            self.observer(access, access.verb != "reads", access.verb == "updates")

    def _watch(self, access: Access, changed: bool) -> None:
        """Count consecutive repetitions of a scalar access that change nothing."""
        if changed:
            self._waiting = ((), 0)
            return
        key = (access.ctx.program, int(access.pointers.addresses), access.what)
        last, count = self._waiting
        count = count + 1 if key == last else 1
        self._waiting = (key, count)
        if count < PATIENCE:
            return
        raise DeadlockError(
            f"program {access.ctx.program} waits at {access.what} for a value that never comes:"
            f" {count} tries changed nothing, and programs here run one after the other",
            help="only wait for programs that come earlier in the grid",
            location=access.ctx.location,
        )

    # ---- checks --------------------------------------------------------------------------------

    def _checked(self, access: Access) -> list[Part]:
        """The lanes to access, by allocation; raises OutOfBoundsError."""
        addresses, mask, size = access.pointers.addresses, access.mask, access.itemsize
        allocation = access.pointers.allocation
        if mask is not None and mask.shape != addresses.shape:
            mask = np.broadcast_to(mask, addresses.shape)
        if allocation is None:
            return self._looked_up(access, mask)
        outside = (addresses < allocation.base) | (addresses > allocation.end - size)
        wrong = outside if mask is None else outside & mask
        if wrong.any():
            self._out_of_bounds(access, wrong, allocation)
        if self.checks.masked and outside.any():
            self._out_of_bounds(access, outside, allocation, masked=True)
        if access.verb != "reads" and allocation.read_only:
            raise KernelFault(
                f"{access.what} {access.verb} '{allocation.name}', which is a read-only array",
                help="pass a writeable array",
                location=access.ctx.location,
            )
        if mask is not None and not mask.any():
            return []
        if not addresses.ndim:
            lanes = ()
        elif mask is None:
            lanes = tuple(i.ravel() for i in np.indices(addresses.shape))
        else:
            lanes = np.nonzero(mask)
        return [part_of(access, allocation, lanes)]

    def _looked_up(self, access: Access, mask: np.ndarray | None) -> list[Part]:
        addresses = access.pointers.addresses
        left = np.ones(addresses.shape, bool) if mask is None else mask.copy()
        result = []
        while left.any():
            first = int(np.atleast_1d(addresses[left])[0])
            allocation = self.find(first)
            if allocation is None or first + access.itemsize > allocation.end:
                self._out_of_bounds(access, left & (addresses == first), None)
                return result
            inside = addresses <= allocation.end - access.itemsize
            indices = np.nonzero(left & (addresses >= allocation.base) & inside)
            left[indices] = False
            pointers = PointerValue(addresses[indices], allocation)
            self._checked(access._replace(pointers=pointers, mask=None))
            result.append(part_of(access, allocation, indices))
        return result

    def _out_of_bounds(
        self, access: Access, wrong: np.ndarray, allocation: Allocation | None, masked: bool = False
    ) -> None:
        lanes = np.argwhere(wrong)
        addresses = access.pointers.addresses[wrong] if wrong.ndim else access.pointers.addresses
        addresses = np.atleast_1d(addresses)
        shown = []
        for lane, address in list(zip(lanes, addresses, strict=True))[:_SHOWN_LANES]:
            where = f"element {allocation.element(int(address))}" if allocation else hex(address)
            shown.append(f"lane {lane.tolist()} → {where}" if wrong.ndim else where)
        more = ", …" if len(lanes) > _SHOWN_LANES else ""
        name = allocation.describe() if allocation else "every known array"
        lanes_text = f"{len(lanes)} of {wrong.size} lanes: " if wrong.ndim else ""
        hidden = " (masked off)" if masked else ""
        raise OutOfBoundsError(
            f"{access.what} {access.verb} outside {name} in program {access.ctx.program}:"
            f" {lanes_text}{', '.join(shown)}{more}{hidden}",
            help=_advice(access, wrong, allocation),
            location=access.ctx.location,
        )

    def _read(self, part: Part, atomic: str = "") -> None:
        written = part.allocation.written
        if written is not None and self.checks.unwritten:
            fresh = ~written[part.offsets]
            if fresh.any():
                self._unwritten(part, np.asarray(fresh))
        if self.races is not None and not atomic:
            self.races.read(part)

    def _write(self, part: Part, atomic: str = "") -> None:
        access, allocation, _, offsets = part
        if self._replaced is not None:
            places = np.asarray(offsets)[..., None] + np.arange(access.itemsize)
            self._replaced.append((allocation.data, places, allocation.data[places]))
        if allocation.written is not None:
            for byte in range(access.itemsize):
                allocation.written[offsets + byte] = True
        if self.races is None:
            return
        if atomic:
            self.races.atomic(part, atomic)
        else:
            self.races.write(part)

    def _unwritten(self, part: Part, fresh: np.ndarray) -> None:
        access, allocation, lanes, offsets = part
        first = int(np.argmax(np.atleast_1d(fresh)))
        address = int(np.atleast_1d(offsets)[first]) + allocation.base
        lane = f", lane {[int(axis[first]) for axis in lanes]}" if lanes else ""
        raise UnwrittenMemoryError(
            f"{access.what} {access.verb} memory that nothing has written: element"
            f" {allocation.element(address)} of '{allocation.name}' in program"
            f" {access.ctx.program}{lane} ({int(fresh.sum())} lanes in all)",
            help="fill the array first, or mask those lanes",
            location=access.ctx.location,
        )


def _advice(access: Access, wrong: np.ndarray, allocation: Allocation | None) -> str:
    if allocation is None:
        return (
            "arrays are known that the launch was given or that Python objects hold;"
            " tell others with tilewright.debug.register_arrays(array)"
        )
    if not wrong.ndim:
        return "check the offset that was added to the pointer"
    enabled = wrong.size if access.mask is None else int(np.count_nonzero(access.mask))
    if wrong.size > 1 and wrong.sum() >= enabled:
        advice = "no lane is inside: check the offset of the whole tile (program id, stride, base)"
    elif access.mask is None:
        advice = f"pass mask=... to {access.what}, true for the lanes inside the array"
    else:
        advice = "check the mask against the array's extents and strides"
    return advice + _compared_strides(access.pointers.addresses, allocation)


def _compared_strides(addresses: np.ndarray, allocation: Allocation) -> str:
    """Describe the strides of a regular tile of two or more dimensions next to those of its array."""
    if addresses.ndim < 2 or len(allocation.strides) < 2:
        return ""
    steps = []
    for axis in range(addresses.ndim):
        moved = np.unique(np.diff(addresses, axis=axis))
        if moved.size != 1 or moved[0] % allocation.itemsize:
            return ""
        steps.append(int(moved[0]) // allocation.itemsize)
    shape = " x ".join(map(str, allocation.shape))
    strides = ", ".join(map(str, allocation.strides))
    return (
        f". Lanes are {', '.join(map(str, steps))} elements apart along the tile's dimensions;"
        f" '{allocation.name}' has shape {shape} and strides {strides}"
    )


def _mask(mask: Any) -> np.ndarray | None:
    return None if mask is None else np.asarray(mask, bool)


def _fetch(data: np.ndarray, offsets: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Elements at byte `offsets` of `data`."""
    if kind == np.bool_:
        return data[offsets] != 0
    view, index = _element_view(data, offsets, kind)
    if view is not None:
        return view[index]
    raw = data[np.asarray(offsets)[..., None] + np.arange(kind.itemsize)]
    return np.ascontiguousarray(raw).view(kind)[..., 0]


def _put(data: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> None:
    """Write `values` at byte `offsets`; of equal offsets the last lane wins."""
    kind = values.dtype
    view, index = _element_view(data, offsets, kind)
    if view is not None:
        view[index] = values
        return
    raw = np.ascontiguousarray(values)[..., None].view(np.uint8)
    data[np.asarray(offsets)[..., None] + np.arange(kind.itemsize)] = raw


def _element_view(
    data: np.ndarray, offsets: np.ndarray, kind: np.dtype
) -> tuple[np.ndarray | None, Any]:
    """`data` as elements of `kind` and the index of each, if all sit on one lattice."""
    size = kind.itemsize
    flat = np.atleast_1d(offsets)
    start = int(flat[0]) % size if flat.size else 0
    if size > 1 and ((flat - start) % size).any():
        return None, None
    count = (data.size - start) // size
    return data[start : start + count * size].view(kind), (offsets - start) // size


# ---- results of atomic operations ------------------------------------------------------------------------


def _unsigned(choose: Callable[[int, int], bool]) -> Callable[[Any, Any], Any]:
    def combine(a: Any, b: Any) -> Any:
        bits = 8 * np.asarray(a).itemsize
        return a if choose(int(a) % (1 << bits), int(b) % (1 << bits)) else b

    return combine


def _wrapping_add(a: Any, b: Any) -> Any:
    kind = np.asarray(a).dtype
    return np.asarray(int(a) + int(b) & (1 << 8 * kind.itemsize) - 1, np.uint64).astype(kind)


#: `kind` of `tile.atomic_rmw` → (old value, operand) → new value
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": _wrapping_add,
    "fadd": lambda a, b: a + b,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "umax": _unsigned(operator.ge),
    "umin": _unsigned(operator.le),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda a, b: b,
}
