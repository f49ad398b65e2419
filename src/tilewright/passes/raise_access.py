"""`raise-access`: turn loads and stores through pointer tiles into structured accesses.

A kernel computes a tile of addresses and a tile of mask bits, `base + offs_m[:, None]*stride +
offs_k[None, :]` under `offs_m[:, None] < M`. Element-wise that is a gather. This pass recovers what the
author meant: a base, a stride a dimension, and a limit a dimension, so that back ends can emit vector
loads, skip masks in full tiles, or copy whole TMA tiles.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i32) {
        -   %offs = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
        -   %ns = tile.splat %n : i32 to tensor<64xi32>
        -   %m = tile.cmpi "slt", %offs, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
        -   %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
        -   %a = tile.addptr %ps, %offs : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
        -   %x = tile.load %a mask %m : tensor<64xi1> : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
        -   %qs = tile.splat %q : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
        -   tile.store %qs, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
        +   %one = arith.constant 1 : i64
        +   %limit = arith.extsi %n : i32 to i64
        +   %x = tile.load_view %p ["strided"] strides(%one) limits(%limit) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
        +   %zero = arith.constant 0 : i64
        +   tile.store_view %x, %q ["strided"] strides(%zero) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
            func.return
          }

Relies on: loop-carried pointer and offset tiles having been split by `carry-offsets` (otherwise those
accesses stay as they are); the promise that signed arithmetic that forms an address does not wrap
(`docs/language.md`). A mask of other arithmetic that may wrap stays a mask.

Guarantees: an access is raised only when every lane's address and mask bit are the same as before.
Dimensions are `strided` (any stride, also 0 and negative), `wrapped` (`(start + lane) % size`, the
start proved not negative) or `indexed` (whatever depends on that dimension only: loaded indices,
clamps, `where`). Comparisons that bound a lane from above become limits, conditions on the whole tile
become a limit of 0 or everything, the rest stays a residual mask. A dimension of a load that is wrapped or
clamped (`where(offs < M, offs, 0)`, `minimum(offs, M - 1)`) is strided with a limit of M where no store sees the
rows beyond (`analysis.demanded`): those lanes read 0 instead. So is a dimension of a store whose mask has that limit. Index arithmetic is i64. Volatile
loads, scalar accesses and pointer tiles that vary along one dimension without a form stay.

On a CPU a load of one element for all lanes becomes a scalar load, so that addresses formed from its value are raised
(`table + row * width + lane` with a loaded `row`), and a dimension whose lanes are rows of memory
(`lane // 16 * pitch + lane % 16`) becomes several, of which the tile is a reshape. An exclusive addition (`tl.atomic_add(…, sem="exclusive")`)
whose lanes have distinct addresses and whose result is unused becomes a load, an addition and a store.

Tried: limits from below (`offs >= 0`) as a second operand. No seed kernel needs them, and every
consumer would have to; they stay in the residual mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import NO_WRAP, access_arithmetic, address_arithmetic
from tilewright.dialects.tile import shape_of
from tilewright.passes.analysis.affine import AffineAnalysis
from tilewright.passes.analysis.block_indices import block_index
from tilewright.passes.analysis.demanded import DemandedRows
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.effects import erase_dead, is_volatile
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.forms import (
    LANE,
    Atom,
    Clamped,
    Entries,
    Form,
    Wrapped,
    have_distinct_lanes,
)
from tilewright.passes.analysis.lane_rows import Rows, lanes_below, rows_of
from tilewright.passes.analysis.masks import (
    Condition,
    Conjunct,
    Limit,
    MaskAnalysis,
    Residue,
    conjunction,
)
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed, root_cause
from tilewright.passes.analysis.unobserved_lanes import are_unobserved
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

_Access = tile.LoadOp | tile.StoreOp | tile.AtomicRMWOp

STRIDED = "strided"
"""The form of an access whose addresses are affine in the lane indices, in remarks."""


@dataclass(frozen=True)
class RaiseAccess(FunctionPass):
    drop_unseen: bool = True
    """Leave out clamped lanes of loads that no store sees."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        _Raiser(function, self.drop_unseen, on_cpu=not target.is_gpu).run(function)


@dataclass(frozen=True)
class _Address:
    """Operands of a view that say where, in the order of the dialect, and its shape."""

    shape: tuple[int, ...]
    base: SSAValue
    strides: list[SSAValue]
    starts: list[SSAValue]
    sizes: list[SSAValue]
    indices: list[SSAValue]
    kinds: list[str]


@dataclass(frozen=True)
class _Extent:
    """Operands of a view that say which lanes."""

    limits: list[SSAValue]
    limited: list[int]
    mask: SSAValue | None


class _Raiser:
    """Raises the accesses of one function, in program order."""

    name = RaiseAccess.name

    def __init__(self, function: FuncOp, drop_unseen: bool, on_cpu: bool) -> None:
        """`on_cpu`: loads of one element for all lanes become scalar ones, indices of 32 bits where they are small."""
        self.on_cpu = on_cpu
        promise = address_arithmetic(function)
        self.affine = AffineAnalysis(promise, has_digits=on_cpu)
        self.affine.emitted = {}
        self._masks: dict[Operation, MaskAnalysis] = {}
        self.drop_unseen = drop_unseen
        self.demanded = DemandedRows(self._conjuncts, promise)

    def _masks_of(self, op: _Access) -> MaskAnalysis:
        """Splits the mask of an access into limits and a residual."""
        if op not in self._masks:
            self._masks[op] = MaskAnalysis(self.affine, access_arithmetic(op))
        return self._masks[op]

    def _conjuncts(self, op: tile.StoreOp) -> list[Conjunct]:
        return [] if op.mask is None else self._masks_of(op).conjuncts(op.mask)

    def run(self, function: FuncOp) -> None:
        raised = 0
        for op in list(_accesses(function)):
            raised += self._raise(op)
        if raised:
            for block in function.body.blocks:
                erase_dead(block)

    def _raise(self, op: _Access) -> bool:
        if not shape_of(op.pointer):
            return False
        if is_volatile(op):
            report_missed(op, STRIDED, Missed(Reason.VOLATILE))
            return False
        form = self.affine.form(op.pointer, self.affine.addresses)
        if form is None or form.base is None:
            report_missed(op, STRIDED, self._root_cause(op.pointer))
            return False
        emitter = Emitter(op)
        form = self.affine.settle(form, True)
        if isinstance(op, tile.AtomicRMWOp):
            return self._expand(op, form, emitter)
        if isinstance(op, tile.LoadOp) and self._make_scalar(op, form, emitter):
            return True
        form, ends = self._without_clamps(op, form)
        self._report_indexed(op, form)
        rows = {
            dim: rows
            for dim, extent in enumerate(shape_of(op.pointer))
            if (rows := rows_of(form.terms.get(dim, {}), extent)) is not None
        }
        address = self._address(form, shape_of(op.pointer), rows, emitter)
        extent = self._extent(op, ends, rows, emitter)
        _flag(op, self._masks_of(op).promise.no_wrap)
        if isinstance(op, tile.LoadOp):
            self._replace_load(op, address, extent, emitter)
        else:
            self._replace_store(op, address, extent, emitter)
        return True

    def _root_cause(self, value: SSAValue) -> Missed | None:
        return root_cause(value, self.affine.addresses.missed)

    def _report_indexed(self, op: tile.LoadOp | tile.StoreOp, form: Form) -> None:
        """Report the dimensions that are neither strided nor wrapped."""
        for atoms in form.terms.values():
            for atom in atoms:
                entries = atom.entries if isinstance(atom, Clamped) else atom
                if isinstance(entries, Entries):
                    report_missed(op, STRIDED, self._root_cause(entries.value))

    def _without_clamps(
        self, op: tile.LoadOp | tile.StoreOp, form: Form
    ) -> tuple[Form, list[Conjunct]]:
        """The form with clamped dimensions as strided ones that end where the clamp begins, where no store sees the
        lanes from there on, or has them; and those ends."""
        ends: list[Conjunct] = []
        if not self.drop_unseen and isinstance(op, tile.LoadOp):
            return form, ends
        offset, terms = form.offset, dict(form.terms)
        for dim in form.terms:
            while (inner := self._unclamped(op, dim, terms[dim])) is not None:
                more, terms[dim], limits = inner
                offset = offset + more
                ends += [Limit(dim, limit) for limit in limits]
        return Form(form.base, offset, terms), ends

    def _unclamped(
        self, op: tile.LoadOp | tile.StoreOp, dim: int, atoms: dict[Atom, Polynomial]
    ) -> tuple[Polynomial, dict[Atom, Polynomial], tuple[Polynomial, ...]] | None:
        """Offset, atoms and limits of a clamped dimension within its limits, if no store sees or has the lanes beyond."""
        (atom, stride), *others = atoms.items()
        if others or not isinstance(atom, Wrapped | Clamped):
            return None
        limits = atom.limits if isinstance(atom, Clamped) else (atom.size - atom.start,)
        if not all(self._drops(op, dim, limit) for limit in limits):
            return None
        if isinstance(atom, Wrapped):
            return atom.start * stride, {LANE: stride}, limits
        return atom.offset * stride, {a: c * stride for a, c in atom.terms}, limits

    def _drops(self, op: tile.LoadOp | tile.StoreOp, dim: int, limit: Polynomial) -> bool:
        """Whether memory does not depend on the lanes of an access from index `limit` on along `dim`."""
        if isinstance(op, tile.StoreOp):
            return self.demanded.are_not_stored(op, dim, limit)
        return self.demanded.are_dropped(op.result, dim, limit)

    # ---- one element for all lanes, and additions ---------------------------------------------------

    def _make_scalar(self, op: tile.LoadOp, form: Form, emitter: Emitter) -> bool:
        """Replace a load whose lanes have one address by a scalar load, if no masked-off lane is observed."""
        if not self.on_cpu or not form.is_uniform:
            return False
        live = None
        if op.mask is not None:
            masks = self._masks_of(op)
            parts = masks.conjuncts(op.mask)
            limits = [p for p in parts if isinstance(p, Limit)]
            if len(limits) < len(parts) or not are_unobserved(op.result, op.mask):
                return False
            zero = emitter.constant(0, i64)
            ends = (masks.emit_limit(limit, emitter) for limit in limits)
            live = conjunction([emitter.compare("sgt", end, zero) for end in ends], emitter)
        places = [[self._base(form, emitter)], _optional(live), []]
        properties = {"cache": op.cache, "eviction": op.eviction}
        loaded = emitter.insert(
            tile.make_view(tile.LoadOp, places, properties, [tile.element_of(op.result)])
        )
        loaded.name_hint = op.result.name_hint
        result = emitter.splat(loaded, shape_of(op.pointer))
        self.affine.projector.replaced[op.result] = result
        op.result.replace_all_uses_with(result)
        erase(op)
        return True

    def _expand(self, op: tile.AtomicRMWOp, form: Form, emitter: Emitter) -> bool:
        """Replace an exclusive addition by a load, an addition and a store, if its lanes have distinct addresses."""
        if not have_distinct_lanes(form, shape_of(op.pointer)):
            return False
        places = [[op.pointer], _optional(op.mask), []]
        load = tile.make_view(tile.LoadOp, places, {}, [op.value.type])
        old = emitter.insert(load)
        add = arith.AddiOp if op.kind.data == "add" else arith.AddfOp
        new = emitter.make(add, [old, op.value], op.value.type)
        store = tile.StoreOp.create(operands=[op.pointer, new, *_optional(op.mask)])
        emitter.insert_op(store)
        erase(op)
        self._raise(load)
        self._raise(store)
        return True

    # ---- where -------------------------------------------------------------------------------------

    def _address(
        self, form: Form, shape: tuple[int, ...], rows: dict[int, Rows], emitter: Emitter
    ) -> _Address:
        address = _Address(_split(shape, rows), self._base(form, emitter), [], [], [], [], [])
        for dim, extent in enumerate(shape):
            if dim in rows:
                address.kinds.extend("strided" for _ in rows[dim].extents)
                address.strides.extend(self.affine.emit(s, emitter) for s in rows[dim].strides)
                continue
            uniform = self._dimension(form.terms.get(dim, {}), extent, address, emitter)
            if uniform is not None:
                address = replace(address, base=emitter.advance(address.base, uniform))
        return address

    def _base(self, form: Form, emitter: Emitter) -> SSAValue:
        """Emit the address that all lanes start from."""
        if form.base is None:
            raise ValueError("a form without base")
        pointer = self.affine.projector.project(form.base.value, None, emitter)
        return emitter.advance(pointer, self.affine.emit(form.offset, emitter))

    def _dimension(
        self, atoms: dict[Atom, Polynomial], extent: int, address: _Address, emitter: Emitter
    ) -> SSAValue | None:
        """Append one dimension's operands to `address`. Returns what is to be added to its base, if anything."""
        uniform: SSAValue | None = None
        (atom, stride), *more = atoms.items() or [(LANE, Polynomial())]
        if not more and atom == LANE:
            address.kinds.append("strided")
        elif not more and isinstance(atom, Wrapped):
            address.kinds.append("wrapped")
            address.starts.append(self.affine.emit(atom.start, emitter))
            address.sizes.append(self.affine.emit(atom.size, emitter))
        else:
            address.kinds.append("indexed")
            small = block_index(self.affine, atoms, extent, emitter) if self.on_cpu else None
            if small is None:
                small = self.affine.emit_terms(atoms, extent, emitter), None
            index, uniform = small
            address.indices.append(index)
            stride = Polynomial()
        address.strides.append(self.affine.emit(stride, emitter))
        return uniform

    # ---- which lanes -------------------------------------------------------------------------------

    def _extent(
        self,
        op: tile.LoadOp | tile.StoreOp,
        ends: list[Conjunct],
        rows: dict[int, Rows],
        emitter: Emitter,
    ) -> _Extent:
        shape, masks = shape_of(op.pointer), self._masks_of(op)
        of_mask = masks.conjuncts(op.mask) if op.mask is not None else []
        parts = list(dict.fromkeys([*of_mask, *ends]))
        limits: dict[int, SSAValue] = {}
        for part in parts:
            if isinstance(part, Limit):
                bound = masks.emit_limit(part, emitter)
                have = limits.get(part.dim)
                limits[part.dim] = bound if have is None else emitter.minimum(have, bound)
        self._apply_conditions(parts, limits, masks, shape, emitter)
        residues = [masks.emit_residue(p, shape, emitter) for p in parts if isinstance(p, Residue)]
        # rows end with the lane, which no limit of one of their dimensions says
        residues += [
            lanes_below(limits.pop(dim), shape, dim, emitter)
            for dim in sorted(limits)
            if dim in rows
        ]
        mask = conjunction(residues, emitter)
        if mask is not None:
            mask = emitter.reshape(mask, _split(shape, rows))
        order = sorted(limits)
        places = [len(_split(shape[:dim], rows)) for dim in order]
        return _Extent([limits[d] for d in order], places, mask)

    def _apply_conditions(
        self,
        parts: list[Conjunct],
        limits: dict[int, SSAValue],
        masks: MaskAnalysis,
        shape: tuple[int, ...],
        emitter: Emitter,
    ) -> None:
        """Conditions on the whole tile: a limit of 0 on one dimension where they do not hold."""
        conditions = [masks.emit_condition(p, emitter) for p in parts if isinstance(p, Condition)]
        together = conjunction(conditions, emitter)
        if together is not None:
            dim = min(limits, default=0)
            whole = limits[dim] if dim in limits else emitter.constant(shape[dim], i64)
            limits[dim] = emitter.select(together, whole, emitter.constant(0, i64))

    # ---- new operations ----------------------------------------------------------------------------

    def _replace_load(
        self, op: tile.LoadOp, address: _Address, extent: _Extent, emitter: Emitter
    ) -> None:
        other = op.other if op.mask is not None else None
        scalar = None
        if other is not None:
            projector = self.affine.projector
            if not projector.varies(other) and projector.can_project(other, None):
                scalar = projector.project(other, None, emitter)
        places = [*_places(address, extent), _optional(scalar)]
        properties = _properties(op, address, extent)
        kind = tile.with_shape(tile.element_of(op.result), address.shape)
        view = tile.make_view(tile.LoadViewOp, places, properties, [kind])
        view.attributes.update(_promised_alignment(op, address.kinds))
        if address.starts:
            tile.assume(view, self.name, nonnegative=())
        result = emitter.reshape(emitter.insert(view), shape_of(op.result))
        result.name_hint = op.result.name_hint
        if other is not None and scalar is None and op.mask is not None:
            result = emitter.select(op.mask, result, other)
        self.affine.projector.replaced[op.result] = result
        op.result.replace_all_uses_with(result)
        erase(op)

    def _replace_store(
        self, op: tile.StoreOp, address: _Address, extent: _Extent, emitter: Emitter
    ) -> None:
        value = emitter.reshape(op.value, address.shape)
        places = [*_places(address, extent), [value]]
        view = tile.make_view(tile.StoreViewOp, places, _properties(op, address, extent))
        view.attributes.update(_promised_alignment(op, address.kinds))
        if address.starts:
            tile.assume(view, self.name, nonnegative=())
        emitter.insert_op(view)
        erase(op)


def _flag(op: Operation, sums: frozenset[Operation]) -> None:
    """Write on the tile arithmetic that forms the address of an access, and runs whenever it does, that it does
    not wrap: later passes see it in comparisons whose address is gone."""
    for each in sums:
        if each.parent is op.parent and shape_of(each.results[0]):
            each.properties["overflowFlags"] = NO_WRAP


def _accesses(function: FuncOp) -> Iterator[_Access]:
    for op in function.walk():
        if isinstance(op, (tile.LoadOp, tile.StoreOp)) or _is_exclusive_addition(op):
            yield op


def _is_exclusive_addition(op: Operation) -> TypeGuard[tile.AtomicRMWOp]:
    """Whether `op` adds to memory that no other thread accesses, and its result is unused."""
    return (
        isinstance(op, tile.AtomicRMWOp)
        and op.sem.data == tile.EXCLUSIVE
        and op.kind.data in ("add", "fadd")
        and not op.result.uses
    )


def _split(shape: tuple[int, ...], rows: dict[int, Rows]) -> tuple[int, ...]:
    """A shape with rows in place of the dimensions that are split."""
    parts = (rows[dim].extents if dim in rows else (extent,) for dim, extent in enumerate(shape))
    return tuple(extent for part in parts for extent in part)


def _optional(value: SSAValue | None) -> list[SSAValue]:
    return [] if value is None else [value]


def _places(address: _Address, extent: _Extent) -> list[Sequence[SSAValue]]:
    """The groups of operands of a structured access, up to its mask."""
    return [
        [address.base], address.strides, address.starts, address.sizes, address.indices,
        extent.limits, _optional(extent.mask),
    ]  # fmt: skip


def _promised_alignment(op: tile.LoadOp | tile.StoreOp, kinds: list[str]) -> dict[str, Attribute]:
    """What `tl.multiple_of` on the pointers themselves says of the first element of each row, in bytes.

    A row runs along the dimension of the view whose elements are neighbors in memory.
    """
    pointer, promised = op.pointer, None
    while isinstance(pointer.owner, tile.HintOp):
        hint = pointer.owner
        if hint.kind.data == "multiple_of":
            promised = promised or [int(v) for v in hint.values.get_values()]
        pointer = hint.source
    if promised is None or len(promised) != len(kinds) or min(promised) < 1:
        return {}
    return {tile.ROW_ALIGNMENT: DenseArrayBase.from_list(i64, [p & -p for p in promised])}


def _properties(
    op: tile.LoadOp | tile.StoreOp, address: _Address, extent: _Extent
) -> dict[str, Attribute | None]:
    return {
        "kinds": ArrayAttr([StringAttr(kind) for kind in address.kinds]),
        "limited": DenseArrayBase.from_list(i64, extent.limited),
        "cache": op.cache,
        "eviction": op.eviction,
    }
