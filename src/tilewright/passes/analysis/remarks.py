"""Missed optimizations of memory accesses: the fact that an analysis could not prove, and what provides it.

Analyses return a `Missed` where they would otherwise return nothing. A pass that takes a weaker form because of it calls
`report_missed`. That costs nothing unless remarks are `recorded`, as with the optimization remarks of LLVM.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.errors import SourceLocation
from tilewright.ir.location import location_of
from tilewright.ir.walk import closure, sources
from tilewright.passes.analysis.emit import constant_int


class Reason(Enum):
    """Why an access has no better form. Value: what could not be proven, what provides it.

    In both texts `{0}`, `{1}` … stand for the subjects of a `Missed`.
    """

    # addresses that are not affine in the lane indices
    MAY_WRAP = (
        "the integer arithmetic of {0} may wrap",
        "compute it in 64 bits (`.to(tl.int64)`), or bound its operands with `tl.assume`",
    )
    LOADED_INDEX = (
        "the offset {0} is loaded from memory",
        "none for a true gather; where rows are contiguous, load one index per row and add `tl.arange`",
    )
    NOT_AFFINE = (
        "the offset {0} is computed by {1}, which has no affine form",
        "write the offset as sums of `tl.arange` times strides, or mask instead of selecting",
    )
    SIGN_OF_START = (
        "{0} is not known to be at least 0",
        "`tl.assume({0} >= 0)`, or an unsigned or constexpr argument",
    )
    CARRIED_POINTER = (
        "the pointer {0} has no known base and stride",
        "advance a scalar offset in the loop, and add it to the pointer where it is used",
    )
    VOLATILE = ("the access is volatile", "leave out `volatile=True`")
    # contiguity and alignment
    NO_UNIT_STRIDE = (
        "no dimension is known to have stride 1 (strides {all})",
        "pass a stride of 1 (it is compiled in), declare the stride `tl.constexpr`, or transpose the array",
    )
    WRAPS = (
        "the offset wraps around at {0}",
        "`tl.multiple_of({0}, 16)` where it is one, or a mask in place of `%`",
    )
    ALIGNMENT = (
        "{0} is not known to be a multiple of {1} bytes",
        "pass a multiple of 16 (launches specialize on that), or `tl.multiple_of({0}, …)` / `tl.assume({0} % … == 0)`",
    )
    ADDRESS_ALIGNMENT = (
        "the address {0} is not known to be a multiple of {1} bytes",
        "pass an array that starts at a multiple of 16 bytes (a slice may not)",
    )
    SMALL_TILE = (
        "a thread holds {0} neighboring elements",
        "a larger block along the contiguous dimension, or fewer warps",
    )
    NARROW_ROW = ("a row of the tile has {0} elements", "a larger block along it")
    # copies to shared memory
    OTHER = ("masked-off lanes are not 0", "`other=0`, and `tl.where` after it")
    RESIDUAL_MASK = (
        "the mask is not an upper bound per dimension",
        "compare `tl.arange` terms with a bound per dimension, joined by `&`",
    )
    INDEXED = ("the offset along a dimension is not affine", "see the offset's reason")
    RANK = ("the tile has {0} dimensions, a copy takes 2", "load a 2-D tile")
    WRITES_BETWEEN = (
        "memory is written between the load and its use",
        "load right before the dot, or store after it",
    )
    SMALL_COPY = (
        "an asynchronous copy moves 4, 8 or 16 aligned bytes, here {0}",
        "see the alignment's reason; or a larger block",
    )
    SEVERAL_USES = ("the loaded tile has other uses than the dot", "load it twice")
    NOT_IN_LOOP = ("the load is not in the block of the dot", "load it next to the dot")
    LOOP_WRITES = (
        "the loop may write the array that it loads",
        "write to another array, or load before the loop what it does not change",
    )
    DOT_IN_BRANCH = (
        "the loop has a dot or a copy in a branch",
        "move the condition out of the loop, or select the operands with `tl.where`",
    )
    INNER_LOOP = (
        "the loop holds another loop with dots, and only innermost loops have schedules",
        "load before the inner loop what it does not need, or make the outer loop programs of the grid",
    )
    NO_PIPELINE = (
        "the loop has no schedule with asynchronous copies",
        "keep loads unconditional in the loop's body, and do not write what it loads",
    )
    ONE_STAGE = ("num_stages is 1", "`num_stages=3`")
    # TMA
    NO_TMA = ("the target has no TMA", "")
    CLOBBERED = (
        "the kernel may write the array that it reads",
        "write to another array: TMA reads are not ordered with a thread's stores",
    )
    OTHER_COPY = ("the loop has another copy that is not a TMA tile", "see that copy's reason")
    NO_ROOT = (
        "the base address {0} is not a kernel argument plus an offset",
        "pass the array as an argument of its own, or a tensor descriptor",
    )
    MAJOR_DIM = (
        "shared memory holds the tile along another dimension than the array",
        "an MN-major operand that the MMA takes (16-bit), or transpose the array",
    )
    BOX_SHAPE = (
        "the tile does not fit a TMA box ({0})",
        "rows of a multiple of 16 bytes, at most 256 elements along each dimension",
    )
    ROW_PITCH = (
        "the row pitch {0} is not one product of kernel arguments and constants",
        "pass the pitch as an argument",
    )
    SHAPE_ON_HOST = (
        "the extent along a dimension is not computed from kernel arguments",
        "bound the mask by an argument",
    )
    COORDINATES = (
        "the offset {0} does not divide into coordinates along the array's dimensions",
        "write it as row * pitch + column, or pass a tensor descriptor",
    )
    LIMIT_FORM = (
        "the tile does not end as an array ends: {0}",
        "mask each dimension by an upper bound; rows beyond it must reach no unmasked store",
    )
    TMA_RANK = ("a tensor map has at most 5 dimensions", "fewer batch strides")
    RANGE_CHECK = (
        "coordinates along dimension {0} are not known to be at least 0 and below 2^31",
        "`tl.assume` that the offset is at least 0",
    )
    MADE_OFTEN = (
        "a loop would make a tensor map for every {0} iterations",
        "pass the array as an argument of its own",
    )
    STORE_OPTIONS = ("the store has {0}", "leave it out")
    STORE_LAYOUT = ("the tile is stored from the layout in which it was computed", "")
    STORE_ALIASED = (
        "the kernel accesses the array elsewhere, too",
        "write to an array that the kernel does not read",
    )
    STORE_SIZE = (
        "elements have {0} bytes, TMA stores are used for 2 and 4, and for pairs of bytes that a thread has",
        "",
    )
    NO_ROOM = ("shared memory has no room for the staged tile", "smaller blocks or fewer stages")

    @property
    def code(self) -> str:
        """The name for programs."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Missed:
    """A fact that could not be proven of an access.

    `subjects`: values of the IR, numbers or texts that the reason names.
    """

    reason: Reason
    subjects: tuple[SSAValue | int | str, ...] = ()


@dataclass(frozen=True)
class Remark:
    """A reported `Missed`, as text: `form` is what the access would have been."""

    access: Operation
    location: SourceLocation | None
    form: str
    code: str
    fact: str
    help: str


_LISTENER: ContextVar[list[Remark] | None] = ContextVar("missed optimizations", default=None)


@contextmanager
def recorded() -> Generator[list[Remark]]:
    """Collect the remarks of the passes that run inside."""
    found: list[Remark] = []
    token = _LISTENER.set(found)
    try:
        yield found
    finally:
        _LISTENER.reset(token)


def report_missed(access: Operation, form: str, missed: object) -> None:
    """Report that `access` does not get `form`. Anything but a `Missed` is ignored."""
    found = _LISTENER.get()
    if found is None or not isinstance(missed, Missed):
        return
    names = [describe(s) if isinstance(s, SSAValue) else str(s) for s in missed.subjects]
    bare = [name.strip("'") for name in names]
    fact, help_ = missed.reason.value
    fact = fact.format(*names, all=", ".join(names))
    found.append(
        Remark(access, location_of(access), form, missed.reason.code, fact, help_.format(*bare))
    )


def why_opaque(value: SSAValue) -> Missed:
    """Why a value is opaque to the analysis, instead of a form of the operands of its operation."""
    op = value.owner
    if isinstance(op, Block):
        return Missed(Reason.CARRIED_POINTER, (value,))
    if isinstance(op, tile.Load):
        return Missed(Reason.LOADED_INDEX, (value,))
    return Missed(Reason.NOT_AFFINE, (value, op.name))


def no_contiguous_dim(access: Operation) -> Missed:
    """Why no dimension of a structured access is contiguous in memory."""
    kinds, view = tile.view_kinds(access), cast(tile.LoadViewOp, access)
    if "indexed" in kinds:
        return Missed(Reason.INDEXED)
    units = [constant_int(stride) == 1 for stride in view.strides]
    wrapped = [d for d, kind in enumerate(kinds) if kind == "wrapped"]
    for d, size in zip(wrapped, view.sizes, strict=True):
        if units[d]:
            return Missed(Reason.WRAPS, (size,))
    return Missed(Reason.NO_UNIT_STRIDE, tuple(view.strides))


def root_cause(value: SSAValue, missed: Mapping[SSAValue, Missed]) -> Missed | None:
    """The first reason among the operands from which a value is computed, transitively."""
    for current in closure([value], lambda v: reversed(sources(v))):
        found = missed.get(current)
        if found is not None and found.reason is not Reason.NOT_AFFINE:
            return found
    return missed.get(value)


_EXTENSIONS = (
    arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp,
)  # fmt: skip
_SIGNS: dict[type, str] = {arith.AddiOp: "+", arith.SubiOp: "-", arith.MuliOp: "*"}


def describe(value: SSAValue, depth: int = 2) -> str:
    """A value as its name in the source, an expression of names, or the place where it is computed."""
    owner = value.owner
    number = constant_int(value) if not tile.shape_of(value) else None
    if number is not None:
        return str(number)
    if isinstance(owner, Block):
        if value.name_hint:
            return f"'{value.name_hint}'"
        function = owner.parent_op()
        if not isinstance(function, FuncOp):
            return "a value that the loop carries"
        known = function.arg_attrs.data[owner.args.index(value)].data if function.arg_attrs else {}
        name = known.get("tile.name")  # of a tuple's items, too: 'desc.shape.1'
        return f"'{name.data}'" if isinstance(name, StringAttr) else "an argument"
    if value.name_hint and not value.name_hint.isdigit():
        return f"'{value.name_hint}'"
    if depth and isinstance(owner, _EXTENSIONS):
        return describe(owner.operands[0], depth)
    if depth and (sign := _SIGNS.get(type(owner))) is not None:
        sides = [describe(v, depth - 1) for v in owner.operands]
        return f" {sign} ".join(f"({s})" if " " in s else s for s in sides)
    where = location_of(owner)
    return "a value" if where is None else f"the value at {where.line}:{where.column + 1}"
