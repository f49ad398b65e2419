"""Track undefined lanes: results of a load without `other=` where its mask is false.

They are 0 in the interpreter and arbitrary elsewhere. Each value with such lanes has a shadow
array of its shape with the load that a lane comes from (0: the lane is defined). It is looked up
by the identity of the value, so control flow, which only forwards values, needs no handling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright import dtypes
from tilewright.errors import SourceLocation, UndefinedValueError
from tilewright.interpreter import registry
from tilewright.interpreter.arrays import array_memory
from tilewright.interpreter.memory import AccessContext
from tilewright.interpreter.pointers import PointerValue

_WRITES = {"tile.store": "writes", "tile.atomic_rmw": "updates", "tile.atomic_cas": "updates"}
_HELP = (
    "give that load an other= that leaves the result as it is (0 for a sum, -inf for a maximum), or"
    " keep its lanes out with tl.where or a mask"
)


class Performed(NamedTuple):
    """An operation that was performed; `kinds` are the types of its results."""

    name: str
    attributes: Mapping[str, Any]
    kinds: Sequence[Any]
    operands: Sequence[Any]
    results: Sequence[Any]


class MarkedLanes:
    """Marks on lanes of the values of a program, by identity: a shadow array each, 0 where there is none."""

    def __init__(self, context: AccessContext) -> None:
        self.context = context
        self._known: dict[int, tuple[Any, Any]] = {}

    def new_program(self) -> None:
        """Forget the values of the program before."""
        self._known.clear()

    def of(self, value: Any) -> np.ndarray | None:
        """The marks on `value`, if any of its lanes has one."""
        found = self._known.get(id(value))
        return found[1] if found is not None else None

    def mark(self, value: Any, sites: np.ndarray | None) -> None:
        """Set the shadow array of `value`."""
        if sites is not None and sites.any():
            self._known[id(value)] = value, sites  # the value itself, so that its id stays its own


class UndefinedLanes(MarkedLanes):
    """Follows such lanes through one launch; see `look`."""

    def __init__(self, context: AccessContext) -> None:
        super().__init__(context)
        self._loads: list[SourceLocation | None] = [None]
        self._sites: dict[SourceLocation | None, int] = {}

    def look(self, done: Performed) -> None:
        """Follow one operation. Raises UndefinedValueError where such a lane is used."""
        sites = [self.of(v) for v in done.operands]
        if done.name == "tile.load":
            self._load(done.operands, sites, done.results[0])
        elif done.name in _WRITES:
            self._write(done.name, done.attributes, done.operands, sites)
        elif any(s is not None for s in sites):
            for result, found in zip(done.results, followed(done, sites), strict=False):
                self.mark(result, found)

    def look_along(
        self, operands: Sequence[Any], results: Sequence[Any], axis: int, scan: bool, reverse: bool
    ) -> None:
        """Propagate through a reduction or scan along `axis`: results of undefined lanes are undefined."""
        for sites in map(self.of, operands):
            if sites is None:
                continue
            if scan:
                ordered = np.flip(sites, axis) if reverse else sites
                found = np.maximum.accumulate(ordered, axis)
                found = np.flip(found, axis) if reverse else found
            else:
                found = sites.max(axis)
            for result in results:
                self.mark(result, found)

    def need(self, value: Any, what: str) -> None:
        """Require that `value`, which affects all lanes, is defined (`what`: e.g. "the condition of `if`")."""
        sites = self.of(value)
        if sites is not None:
            self._report(sites, f"{what} depends on")

    # ---- uses ----------------------------------------------------------------------------------

    def _load(self, operands: Sequence[Any], sites: list[Any], result: Any) -> None:
        pointer, mask, other = operands
        enabled = enabled_lanes(pointer, mask)
        self._addresses(sites[0], enabled, sites[1], "tl.load reads through")
        if mask is None or enabled.all():
            return
        if other is not None:
            if sites[2] is not None:
                self.mark(result, np.where(enabled, 0, sites[2]))
            return
        place = self.context.location
        site = self._sites.setdefault(place, len(self._loads))
        if site == len(self._loads):
            self._loads.append(place)
        self.mark(result, np.where(enabled, 0, site).astype(np.int32))

    def _write(
        self, name: str, attributes: Mapping[str, Any], operands: Sequence[Any], sites: list[Any]
    ) -> None:
        pointer, *values = operands
        mask = None if name == "tile.atomic_cas" else operands[2]
        enabled = enabled_lanes(pointer, mask)
        kind = str(attributes.get("kind", ""))
        kind = kind if kind in ("and", "or", "xor", "xchg") else kind[-3:]  # "fadd", "umin"
        what = f"tl.{name.removeprefix('tile.').replace('rmw', kind)}"
        self._addresses(
            sites[0], enabled, sites[2] if mask is not None else None, f"{what} goes through"
        )
        for value_sites in sites[1 : 2 if name != "tile.atomic_cas" else len(values) + 1]:
            if value_sites is not None:
                self._report(np.where(enabled, value_sites, 0), f"{what} {_WRITES[name]}")

    def _addresses(self, sites: Any, enabled: np.ndarray, mask_sites: Any, what: str) -> None:
        if mask_sites is not None:
            self._report(mask_sites, f"{what.partition(' ')[0]} is masked by")
        if sites is not None:
            self._report(np.where(enabled, sites, 0), what)

    def _report(self, sites: np.ndarray, what: str) -> None:
        lanes = np.argwhere(sites)
        if not len(lanes):
            return
        at = tuple(int(i) for i in lanes[0])
        place = self._loads[int(np.asarray(sites)[at])]
        where = f", lane {list(at)} ({len(lanes)} lanes in all)" if at else ""
        origin = f" at {place}" if place else ""
        raise UndefinedValueError(
            f"{what} an undefined value in program {self.context.program}{where}: it depends on"
            f" lanes that the mask of the tl.load{origin} turns off",
            help=_HELP,
            location=self.context.location,
        )


def enabled_lanes(pointer: PointerValue, mask: Any) -> np.ndarray:
    """The lanes that an access touches."""
    return np.broadcast_to(True if mask is None else np.asarray(mask, bool), pointer.shape)


def followed(done: Performed, sites: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """The marks on lanes of an operation's results, given those on its operands' (0: none)."""
    name, attributes, kinds, operands, _ = done
    if name in ("tile.print", "tile.assert", "tile.assume"):
        return []
    full = [
        np.zeros(np.shape(_plain(v)), np.int32) if s is None else s
        for v, s in zip(operands, sites, strict=True)
    ]
    if name in registry.MOVES:
        flags = [dtypes.int32.with_shape(tuple(k.shape)) for k in kinds]
        return [np.asarray(r) for r in registry.call(name, None, attributes, flags, full)]
    if name == "tile.gather":
        axis = attributes["axis"]
        return [np.maximum(np.take_along_axis(full[0], np.asarray(operands[1]), axis), full[1])]
    if name == "tile.dot":
        rows, columns = full[0].max(-1)[..., :, None], full[1].max(-2)[..., None, :]
        return [np.maximum(np.maximum(rows, columns), full[2])]
    if name == "tile.histogram":
        counted = full[0] if operands[1] is None else np.where(operands[1], full[0], 0)
        return [np.full(tuple(kinds[0].shape), counted.max(initial=0))]
    if name == "tile.select":
        condition = np.asarray(operands[0], bool)
        return [np.maximum(np.where(condition, full[1], full[2]), full[0])]
    if name in ("arith.andi", "arith.ori") and np.asarray(operands[0]).dtype == np.bool_:
        return [_decided(name == "arith.ori", operands, full)]
    whole = np.zeros((), np.int32)
    for part in full:
        whole = np.maximum(whole, part)
    return [whole] * len(kinds)


def _decided(by: bool, operands: Sequence[Any], sites: list[np.ndarray]) -> np.ndarray:
    """`and` is decided by a defined False of either side, `or` by a defined True."""
    whole = np.maximum(*sites)
    for value, site in zip(operands, sites, strict=True):
        whole = np.where((np.asarray(value, bool) == by) & (site == 0), 0, whole)
    return whole


def _plain(value: Any) -> Any:
    return value.addresses if isinstance(value, PointerValue) else 0 if value is None else value


#: allocation base → (its size, one flag a byte: written by now). Entries live until forgotten.
_marked: dict[int, tuple[int, np.ndarray]] = {}


def mark_unwritten(*arrays: Any) -> None:
    """Treat the contents of `arrays` as never written, until kernels that run as Python write them.

    For the check "unwritten". Each array's whole allocation is marked; `forget_unwritten` ends it.
    """
    for array in arrays:
        memory = array_memory(array)
        _marked[memory.base] = (memory.nbytes, np.zeros(memory.nbytes, bool))


def forget_unwritten(*arrays: Any) -> None:
    """Take `arrays` (none: all) as written from now on."""
    if not arrays:
        _marked.clear()
    for array in arrays:
        _marked.pop(array_memory(array).base, None)


def unwritten_flags(array: Any) -> np.ndarray | None:
    """The flags of `array`'s allocation if it was marked."""
    memory = array_memory(array)
    found = _marked.get(memory.base)
    return found[1] if found is not None and found[0] == memory.nbytes else None
