"""`check-bounds`: check every access of a scheduled kernel against the extents of the array its pointer addresses.

Before:
    scf.for %program = %first to %last {
      %x = cpu.vector_load %p[%i] mask %m : vector<16xf32> }

After:
    %base = cpu.argument 4 ; %bytes = cpu.argument 5
    scf.for %program = %first to %last {
      cpu.check_bounds %p[%i] mask %m program %program ranges(%base, %bytes) {lanes = 16, element_bytes = 4, site = 0}
      %x = cpu.vector_load %p[%i] mask %m : vector<16xf32> }

Runs only where `add_extents` has given the kernel the extents as further arguments (the option
`check="bounds"`), and last, so that no pass moves an access in front of its check. One check covers all
lanes of a vector. Accesses to scratch are not checked, nor those through pointers that were read from
memory or made of integers, whose array is not known. The places in the kernel's source go to the function
attribute `cpu.accesses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.location import location_of
from tilewright.ir.types import language_type
from tilewright.ir.walk import closure, incoming
from tilewright.passes.analysis.edit import insert_before, start_of
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

EXTENTS = "cpu.extents"
"""Function attribute: indices of the pointer arguments whose extents (address of the first byte, number of
bytes) follow all other arguments, in this order."""
ACCESSES = "cpu.accesses"
_NAMES: dict[type[Operation], str] = {
    cpu.VectorLoadOp: "tl.load", cpu.GatherOp: "tl.load", tile.LoadOp: "tl.load",
    cpu.VectorStoreOp: "tl.store", cpu.ScatterOp: "tl.store", tile.StoreOp: "tl.store",
    tile.AtomicRMWOp: "tl.atomic", tile.AtomicCASOp: "tl.atomic_cas",
}  # fmt: skip


def add_extents(module: ModuleOp) -> None:
    """Give the kernel two further arguments for each pointer argument: see `EXTENTS`."""
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp) or EXTENTS in function.attributes:
            continue
        block = function.body.block
        pointers = [i for i, a in enumerate(block.args) if isinstance(a.type, tile.PtrType)]
        attributes = list(function.arg_attrs.data) if function.arg_attrs is not None else []
        for _ in range(2 * len(pointers)):
            block.insert_arg(i64, len(block.args))
            attributes.append(DictionaryAttr({}))
        if function.arg_attrs is not None:
            function.properties["arg_attrs"] = ArrayAttr(attributes)
        function.update_function_type()
        function.attributes[EXTENTS] = ArrayAttr([IntAttr(i) for i in pointers])


@dataclass(frozen=True)
class CheckBounds(FunctionPass):
    idempotent: ClassVar[bool] = True

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if EXTENTS in function.attributes:
            _Checker(function).run()


class _Checker:
    """State of one function: the values of its extents, and the accesses so far."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.roots = PointerRoots(function)
        self.sites: list[Attribute] = []
        self.ranges: dict[int, list[SSAValue]] = {}
        pointers: Any = function.attributes[EXTENTS]
        types: Any = function.attributes["cpu.argument_types"]
        self.places = {p.data: at for at, p in enumerate(pointers.data)}
        self.extents_at = len(types.data) - 2 * len(self.places)
        loops = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
        self.program: SSAValue = loops[-1].body.block.args[0]

    def run(self) -> None:
        for op in list(self.function.walk()):
            name = _NAMES.get(type(op))
            if name is not None:
                self._check(op, name)
        self.function.attributes[ACCESSES] = ArrayAttr(self.sites)

    def _check(self, op: Operation, name: str) -> None:
        pointer = op.operands[0]
        roots = self.roots.of(pointer)
        if not roots:
            return
        kind: Any = cpu.scalar_of(pointer)
        moved = isinstance(op, cpu.VectorLoadOp | cpu.VectorStoreOp)
        value = op.results[0] if op.results else op.value  # pyright: ignore[reportAttributeAccessIssue]
        offset = [op.operands[1]] if moved else []
        mask = getattr(op, "mask", None)
        ranges = [value for root in sorted(roots) for value in self._range(root)]
        lanes = cpu.lanes_of(value)
        check = cpu.CheckBoundsOp.build(
            operands=[pointer, offset, [] if mask is None else [mask], self.program, ranges],
            properties={
                "lanes": IntegerAttr(lanes, i64),
                "element_bytes": IntegerAttr(language_type(kind.pointee).itemsize, i64),
                "site": IntegerAttr(len(self.sites), i64),
            },
        )
        check.location = op.location
        insert_before(check, op)
        self.sites.append(_site(op, name, sorted(roots)))

    def _range(self, root: int) -> list[SSAValue]:
        """Address of the first byte and number of bytes of the array of an argument."""
        found = self.ranges.get(root)
        if found is None:
            found = self.ranges[root] = [
                self._argument(self.extents_at + 2 * self.places[root] + i) for i in range(2)
            ]
        return found

    def _argument(self, index: int) -> SSAValue:
        emitter = Emitter(start_of(self.function.body.block))
        return emitter.make(cpu.ArgumentOp, (), i64, index=IntegerAttr(index, i64))


def _site(op: Operation, name: str, roots: list[int]) -> Attribute:
    """[what, file, line, column, argument…] of an access."""
    if isinstance(op, tile.AtomicRMWOp):
        kind = op.kind.data
        name = f"tl.atomic_{kind if kind in ('and', 'or', 'xor', 'xchg') else kind[-3:]}"
    place = location_of(op)
    file, line, column = ("", 0, 0) if place is None else (place.file, place.line, place.column)
    numbers: list[Attribute] = [IntAttr(n) for n in (line, column, *roots)]
    return ArrayAttr([StringAttr(name), StringAttr(file), *numbers])


_LOADS = (cpu.VectorLoadOp, cpu.GatherOp, tile.LoadOp)


class PointerRoots:
    """The argument indices that the pointers come from of one scheduled function."""

    def __init__(self, function: FuncOp) -> None:
        ops = list(function.walk())
        self._arguments = frozenset(
            op.index.value.data
            for op in ops
            if isinstance(op, cpu.ArgumentOp) and isinstance(op.result.type, tile.PtrType)
        )
        self._known: dict[SSAValue, frozenset[int] | None] = {}
        self._has_foreign = any(self._is_foreign(op) for op in ops)

    def _is_foreign(self, op: Operation) -> bool:
        """Whether `op` gives pointers that may be to anything: loaded ones, or made of integers."""
        if not any(_is_pointer(r) for r in op.results):
            return False
        if isinstance(op, _LOADS):
            sources = self._sources(op.operands[0])
            return sources is None or bool(sources)
        return not op.regions and not isinstance(op, (cpu.ArgumentOp, cpu.ScratchAddressOp)) and (
            not any(_is_pointer(v) for v in op.operands)
        )  # fmt: skip

    def of(self, pointer: SSAValue) -> frozenset[int] | None:
        """Indices of the arguments that `pointer` may point into; None: it may point anywhere.

        Empty for scratch. Pointers that were kept in scratch may be any argument's, where all
        pointers of the kernel are arguments'.
        """
        if pointer not in self._known:
            found = self._sources(pointer)
            if found is not None and -1 in found:
                found = None if self._has_foreign else self._arguments
            self._known[pointer] = found
        return self._known[pointer]

    def _sources(self, pointer: SSAValue) -> frozenset[int] | None:
        """As `of`, with -1 for a pointer that was kept in scratch."""
        found: set[int] = set()
        ends = (cpu.ArgumentOp, cpu.ScratchAddressOp, *_LOADS)
        for value in closure([pointer], lambda v: () if isinstance(v.owner, ends) else _given(v)):
            op = value.owner
            if isinstance(op, cpu.ArgumentOp):
                found.add(op.index.value.data)
            elif isinstance(op, _LOADS):
                if self._sources(op.operands[0]):
                    return None
                found.add(-1)
            elif not isinstance(op, ends) and not _given(value):
                return None
        return frozenset(found)


def _is_pointer(value: SSAValue) -> bool:
    return isinstance(cpu.scalar_of(value), tile.PtrType)


def _given(value: SSAValue) -> list[SSAValue]:
    """The pointers that `value` is one of, moved or not; none where that is not known."""
    passed, owner = incoming(value), value.owner
    if passed is not None or isinstance(owner, Block) or owner.regions:
        return passed or []
    return [v for v in owner.operands if _is_pointer(v)]
