"""Element types of MLIR text, and which conversions in `old + x · y` preserve a matmul with one accumulator type.

A matmul accumulates in one type and rounds once. Roundings of floats between product and accumulation may therefore
be dropped, which makes the result more exact. Conversions that change an operand's value, or drop bits of the result,
may not. Integers are computed modulo 2^w, where w is the width of the result's elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright import dtypes
from tilewright.dtypes import accumulators
from tilewright.errors import CompilationError
from tilewright.generator.description import Access, Argument
from tilewright.ir.types import SHORT_NAMES

PRODUCTS = (arith.MulfOp, arith.MuliOp)
ADDITIONS = (arith.AddfOp, arith.AddiOp)
_FLOAT = (arith.ExtFOp, arith.TruncFOp)
_EXTENSIONS = (arith.ExtSIOp, arith.ExtUIOp)
_INTEGER = (*_EXTENSIONS, arith.TruncIOp)
_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}

#: makes an error from the operation that is wrong and a sentence
Wrong = Callable[[Operation, str], CompilationError]


def plain(value: SSAValue) -> SSAValue:
    """`value` before conversions."""
    while isinstance(value.owner, CONVERSIONS):
        value = value.owner.operands[0]
    return value


def check_conversions(
    stored: SSAValue, total: Any, old: SSAValue, product: Any, wrong: Wrong
) -> bool:
    """Check that `stored`, made by the sum `total` of `old` and `product`, is what a program computes.

    Returns whether the factors' integers are unsigned. Raises what `wrong` makes.
    """
    (old_side,) = (v for v in total.operands if plain(v) is old)
    (side,) = (v for v in total.operands if plain(v).owner is product)
    path = _Path(wrong)
    outward, before, inner = (path.of(v) for v in (stored, old_side, side))
    factors = [path.of(v) for v in product.operands]
    if isinstance(total.results[0].type, IntegerType):
        return path.integers(stored, total, product, outward + before, inner, factors)
    for op in (*outward, *before, *inner):
        if not isinstance(op, _FLOAT):
            raise wrong(op, f"{op.name} in an integer accumulation: it must stay an integer")
    for op in (op for each in factors for op in each):
        if not isinstance(op, arith.ExtFOp):
            raise wrong(op, f"{op.name} changes what is multiplied")
    return False


class _Path:
    def __init__(self, wrong: Wrong) -> None:
        self.wrong = wrong

    def of(self, value: SSAValue) -> list[Operation]:
        """The conversions that `value` has been through, the last one first."""
        found: list[Operation] = []
        while isinstance(value.owner, CONVERSIONS):
            found.append(value.owner)
            value = value.owner.operands[0]
        return found

    def integers(
        self, stored: SSAValue, total: Any, product: Any, around: list[Operation],
        inner: list[Operation], factors: list[list[Operation]],
    ) -> bool:  # fmt: skip
        wanted = _width(stored.type)
        for op in (*around, *inner, *(op for each in factors for op in each)):
            if not isinstance(op, _INTEGER):
                raise self.wrong(
                    op, f"{op.name} in an integer accumulation: it must stay an integer"
                )
        kept = (
            min(_width(v.type) for op in around for v in (*op.results, *op.operands))
            if around
            else wanted
        )
        if min(kept, _width(total.results[0].type)) < wanted:
            raise self.wrong(total, "the sum has fewer bits than the element that is stored")
        signs = {type(op) for each in factors for op in each}
        if len(signs) > 1 or arith.TruncIOp in signs:
            raise self.wrong(product, "both factors must be extended alike, and not cut off")
        unsigned = arith.ExtUIOp in signs
        own = _width(product.results[0].type)
        exact = own >= sum(_width(plain(v).type) for v in product.operands)
        extended = arith.ExtUIOp if unsigned else arith.ExtSIOp
        widths = [_width(v.type) for op in inner for v in (*op.results, *op.operands)]
        whole = min(own, *widths, wanted) == wanted
        if not whole and not (exact and all(type(op) is extended for op in inner)):
            raise self.wrong(product, "the product has fewer bits than the element that is stored")
        return unsigned


def _width(kind: Attribute) -> int:
    assert isinstance(kind, IntegerType)
    return kind.width.data


def without_signs(arguments: list[Argument], accesses: Sequence[Access]) -> None:
    """Make the elements of these arrays unsigned."""
    for access in accesses:
        argument = arguments[access.argument]
        if argument.dtype is not None:
            unsigned = _UNSIGNED[argument.dtype.primitive_bitwidth]
            arguments[access.argument] = replace(argument, dtype=unsigned)


def check_accumulator_type(
    factors: Sequence[Attribute], result: Attribute, op: Operation, place: Any, wrong: Wrong
) -> None:
    """Check that products of elements of these types are summed in a type that holds the result's."""
    a, b, out = (language_type(kind, place) for kind in (*factors, result))
    if a != b and not (a.is_fp8() and b.is_fp8()):
        raise wrong(
            op, f"elements of {factors[0]} times elements of {factors[1]}: convert one array first"
        )
    accumulator = accumulators(a)[0]
    same = out.is_int() == accumulator.is_int()
    if not same or out.primitive_bitwidth > accumulator.primitive_bitwidth:
        raise wrong(
            op,
            f"products of {factors[0]} accumulate in {accumulator}, which does not hold {result}",
        )


#: operations that only change an element's type
CONVERSIONS = (
    arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.SIToFPOp,
)  # fmt: skip
_BY_NAME = {**SHORT_NAMES, "si8": "i8", "ui8": "u8", "si32": "i32"}


def language_type(kind: Attribute, place: Any = None) -> dtypes.dtype:
    """The language type of an element type. Raises CompilationError for those that kernels lack."""
    name = _BY_NAME.get(str(kind))
    if name is None:
        raise CompilationError(
            f"elements of type {kind} cannot be multiplied here",
            location=place,
            help=f"use {', '.join(_BY_NAME)}",
        )
    found: Any = dtypes.from_short_name(name)
    return found
