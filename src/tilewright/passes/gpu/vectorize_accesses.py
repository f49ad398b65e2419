"""`vectorize-accesses`: choose the vector width of every global and shared memory access.

A thread moves up to 16 bytes with one instruction, where its registers hold neighbours in memory at an
address that is provably a multiple of so much (arXiv 2108.13191, section 3.7). The number is written on the
operation as `gpu.vector_width`. A limit or a mask may cut a vector: code generation takes the vector when all of its
elements are active, and its elements one by one otherwise. Of stores to addresses that were loaded from memory
(`gpu.check_alignment`) it tests the alignment, too.

    Change:
          func.func @k(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}) {
            %one = arith.constant 1 : i64
        -   %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<128xf32, "128 r[1 2] l[4 8 16 32 64] w[]">
        +   %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>, gpu.vector_width = 4 : i32} : !tile.ptr<f32> to tensor<128xf32, "128 r[1 2] l[4 8 16 32 64] w[]">
            func.return
          }

Relies on `assign-layouts`; what is proven comes from `raise-access`. Switched off, elements move one by
one, and asynchronous copies, which have no narrower form, by 4 bytes. TMA tiles of the tensor memory
accelerator and `ldmatrix` have widths of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.layouts import Layout, parse_layout
from tilewright.passes.analysis.affine import AffineAnalysis
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.forms import LANE
from tilewright.passes.analysis.lane_groups import LaneGroups
from tilewright.passes.analysis.polynomial import ONE
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import (
    CHECKED,
    COUNTING,
    EQUAL,
    VECTOR,
    VECTOR_DIM,
    WIDEST,
    contiguous_dim,
    run_length,
    tile_of,
    vector_width,
)
from tilewright.passes.gpu.analysis.gathers import Gather, gather_run, is_gather
from tilewright.targets import Feature, TargetInfo

_EXCHANGES = (gpu.ConvertLayoutOp, tile.DotOp, tile.Atomic)
"""What moves whole tiles through scratch space, as wide as layouts and padding allow."""
_LARGEST_GROUP = 32
"""Registers that are examined for equal values."""


@dataclass(frozen=True)
class VectorizeAccesses(FunctionPass):
    requires = ("assign-layouts",)
    max_bytes: int = WIDEST
    """Bytes that one access may take (4, 8 or 16)."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        known, forms = Facts(), AffineAnalysis(address_arithmetic(function))
        wide = target.has(Feature.VECTOR_ATOMICS)
        groups = LaneGroups(Facts(address_arithmetic(function)))
        _RegisterGroups(function, self.max_bytes, groups).run()
        for op in function.walk():
            unaligned = False
            if isinstance(op, tile.AtomicRMWOp) and not op.result.uses:
                width = self._reduction_width(op, forms, groups, wide)
                bytes_ = width * tile.element_bytes(op.value)
                unaligned = _alignment(op, forms, groups, width) % bytes_ != 0
            else:
                width = self._width(op, known)
                if isinstance(op, tile.StoreViewOp) and width > 1:
                    unaligned = vector_width(op, known).checked
            self._report(op, width, known)
            if width > 1:
                op.attributes[VECTOR] = IntegerAttr(width, i32)
                if unaligned:
                    op.attributes[CHECKED] = UnitAttr()
                self._claim(op, width)

    def _report(self, op: Operation, width: int, known: Facts) -> None:
        """Report what keeps an access to global memory from `max_bytes`."""
        if not isinstance(op, tile.View | gpu.AsyncCopyOp):
            return
        size = tile.element_bytes(tile_of(op))
        if width * size >= self.max_bytes:
            return
        possible = vector_width(op, known)
        held = Missed(Reason.SMALL_TILE, (width,)) if possible.elements > width else possible.missed
        report_missed(op, f"{self.max_bytes} bytes", held)

    def _claim(self, op: Operation, width: int) -> None:
        """Write down what a wide access to memory relies on."""
        if isinstance(op, tile.View | gpu.AsyncCopyOp):
            size, dim = tile.element_bytes(tile_of(op)), contiguous_dim(op)
            aligned = {} if CHECKED in op.attributes else {"aligned": [width * size]}
            if dim is not None:
                tile.assume(op, self.name, **aligned, contiguous=[dim, width])
        elif isinstance(op, tile.AtomicRMWOp) and not op.result.uses:
            size, dim = tile.element_bytes(op.value), len(tile.shape_of(op.value)) - 1
            aligned = {} if CHECKED in op.attributes else {"aligned": [width * size]}
            tile.assume(op, self.name, **aligned, contiguous=[dim, width])

    def _width(self, op: Operation, known: Facts) -> int:
        """Elements that the instructions for `op` may take at once."""
        match op:
            case tile.LoadViewOp() | tile.StoreViewOp():
                value = tile.accessed(op)
                layout, dim = gpu.layout_of(value), contiguous_dim(op)
                if layout is None or dim is None:
                    return 1
                return self._run(layout, dim, run_length(op, known), tile.element_bytes(value))
            case gpu.AsyncCopyOp():
                shared = gpu.shared_layout_of(op.buffer)
                if contiguous_dim(op) != shared.major_dim:
                    return 1
                length = run_length(op, known)
                return self._run(
                    parse_layout(op.layout.data), shared.major_dim, length, shared.size
                )
            case gpu.LocalStoreOp() | gpu.LocalLoadOp():
                shared = gpu.shared_layout_of(op.buffer)
                layout = gpu.layout_of(op.source if isinstance(op, gpu.LocalStoreOp) else op.result)
                if layout is None:
                    return 1
                return self._run(layout, shared.major_dim, WIDEST // shared.size, shared.size)
            case tile.HistogramOp():  # counts of 4 bytes in a row, whatever is counted
                layout = gpu.layout_of(op.result)
                return self._run(layout, 0, WIDEST // 4, 4) if layout is not None else 1
            case _ if isinstance(op, _EXCHANGES) or tile.moves_lanes(op):
                sizes = [tile.element_bytes(v) for v in op.operands if tile.is_tile(v)]
                return self.max_bytes // min(sizes, default=self.max_bytes)
            case _:
                return 1

    def _reduction_width(
        self, op: tile.AtomicRMWOp, forms: AffineAnalysis, groups: LaneGroups, wide: bool
    ) -> int:
        """Neighbours along the last dimension that one `red` may add to: floats, by 16 bytes or by pairs of halves.
        Where `gpu.check_alignment` is set, code generation tests that their address is a multiple of their size."""
        layout, kind = gpu.layout_of(op.value), str(tile.element_of(op.value))
        if layout is None or op.kind.data != "fadd":
            return 1
        if kind not in (("f32", "f16", "bf16") if wide else ("f16",)):
            return 1
        most = WIDEST // tile.element_bytes(op.value) if wide else 2
        form, dim = forms.form(op.pointer, forms.addresses), layout.rank - 1
        width = self._run(layout, dim, most, tile.element_bytes(op.value))
        if form is not None and form.terms.get(dim) == {LANE: ONE}:
            return width
        return groups.counting_run(op.pointer, dim, width)

    def _run(self, layout: Layout, dim: int, length: int, size: int) -> int:
        return layout.num_consecutive(dim, max(1, min(length, self.max_bytes // size)))


_GROUPING = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, arith.ShRSIOp, arith.ShRUIOp, arith.AndIOp, tile.CmpIOp)  # fmt: skip
"""Operations whose result may be equal where their operands are not."""
_REMAINDERS = (arith.RemSIOp, arith.RemUIOp)


def _carried_on(op: Operation) -> SSAValue | None:
    """The argument of a loop's body that is the result of an element-wise operation in the next iteration."""
    for use in (use for result in op.results for use in result.uses):
        loop = use.operation.parent_op()
        if isinstance(use.operation, scf.YieldOp) and isinstance(loop, scf.ForOp):
            return loop.body.block.args[use.index + 1] if is_pure_elementwise(op) else None
    return None


def _repeated_dims(op: Operation) -> list[int]:
    """The dimensions along which the address of a load does not change."""
    if not isinstance(op, tile.LoadViewOp):
        return []
    views = zip(tile.view_kinds(op), op.strides, tile.shape_of(op.result), strict=True)
    return [
        dim
        for dim, (kind, stride, extent) in enumerate(views)
        if kind == "strided" and constant_int(stride) == 0 and extent & (extent - 1) == 0
    ]


class _RegisterGroups:
    """Mark gathers that take several elements at once, and values that are equal in groups of registers."""

    def __init__(self, function: FuncOp, max_bytes: int, groups: LaneGroups) -> None:
        self.function, self.max_bytes, self.groups = function, max_bytes, groups

    def run(self) -> None:
        """Without a gather or a division only comparisons are marked, what loops carry on, and loads of rows or columns
        that are repeated in a tile: other values are equal where LLVM sees it.

        `columns < n` with an `n` that is a multiple of 16 has one value for 16 neighbours that begin at a multiple of
        16: one predicate instead of one each. A layer norm of 16384 fp32 columns has 8 instead of 32, which loads of
        the same elements have anyway, and takes 66 registers instead of 74.
        """
        ops = list(self.function.walk())
        divides = any(is_gather(op) or isinstance(op, _GROUPING[:4]) for op in ops)
        marked = (*_GROUPING, tile.Load, tile.AddPtrOp) if divides else tile.CmpIOp
        for op in ops:
            if is_gather(op) and not isinstance(op, tile.AtomicRMWOp):
                self._gather(op)
            carried = _carried_on(op)
            alike = isinstance(op, marked) or carried is not None or _repeated_dims(op)
            if alike and tile.is_tile(op.results[0]):
                self._group(op, carried or op.results[0])

    def _gather(self, op: Gather) -> None:
        layout, (dim, run) = gpu.layout_of(op.pointer), gather_run(op, self.groups)
        size = tile.element_bytes(tile.accessed(op))
        run = layout.num_consecutive(dim, min(run, self.max_bytes // size)) if layout else 1
        if run > 1:
            op.attributes[VECTOR] = IntegerAttr(run, i32)
            op.attributes[VECTOR_DIM] = IntegerAttr(dim, i32)
            tile.assume(op, VectorizeAccesses.name, aligned=[run * size], contiguous=[dim, run])

    def _group(self, op: Operation, value: SSAValue) -> None:
        """Mark an operation whose result is equal in groups where `value` is."""
        equal, layout = list[int](), gpu.layout_of(op.results[0])
        repeated = _repeated_dims(op)
        for dim in range(layout.rank if layout is not None else 0):
            extent = layout.shape[dim] if layout is not None and dim in repeated else 1
            if extent > 1 and self.groups.is_equal(value, dim, extent):
                equal += (dim, extent)  # also registers that are no neighbors
                continue
            most = layout.num_consecutive(dim, _LARGEST_GROUP) if layout is not None else 1
            size = self.groups.equal_run(value, dim, most)
            if size > 1:
                equal += (dim, size)
            elif isinstance(op, _REMAINDERS):
                size = self.groups.counting_run(value, dim, most)
                if size > 1:
                    op.attributes[COUNTING] = DenseArrayBase.from_list(i64, [dim, size])
                    return
        if equal:
            op.attributes[EQUAL] = DenseArrayBase.from_list(i64, equal)


def _alignment(op: tile.AtomicRMWOp, forms: AffineAnalysis, groups: LaneGroups, width: int) -> int:
    """What the addresses of lanes that begin a vector of `width` along the last dimension are multiples of, as far as
    known, for vectors of up to 16 bytes (a power of two)."""
    form, size = forms.form(op.pointer, forms.addresses), tile.element_bytes(op.value)
    if form is None or form.base is None:
        found = (
            groups.of(op.pointer, len(tile.shape_of(op.value)) - 1, width) if width > 1 else None
        )
        return size if found is None else min(WIDEST, 1 << found.zeros)
    reading, last = forms.addresses, len(tile.shape_of(op.value)) - 1
    known = gcd(WIDEST, reading.facts.divisor(form.base.value), reading.divisor(form.offset) * size)
    for dim, atoms in form.terms.items():
        for atom, coefficient in atoms.items():
            if dim != last:
                known = gcd(known, reading.divisor(coefficient) * size)
            elif atom != LANE:
                known = gcd(known, size)
    return known
