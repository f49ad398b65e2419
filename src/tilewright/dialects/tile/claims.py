"""Claims: what a pass relies on, written on the operation that relies on it.

A pass that drops a mask, widens an access or changes the order of accesses does so because a fact
holds. It writes the fact down as a claim, in the attribute `tile.assumes` of the operation, or, where
the claim is about scalars that the operation does not have, as a `tile.claim`. Claims do not change
what an operation does, and code generation ignores them. The interpreter checks each one when it
executes the operation (`interpreter/claims.py`): a claim that does not hold is a bug of that pass.

    tile.store_view ... {tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [16], contiguous = [4]]>}
    tile.claim <"vectorize" [in_range = [1, -1]]> of %limit, %end : i64, i64
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.ir import Data
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import require

ASSUMES = "tile.assumes"
"""Name of the attribute that holds an operation's claims."""

MEANING: dict[str, tuple[int, str]] = {
    "nonnegative": (0, "starts of wrapped dimensions are 0 or more and sizes 1 or more"),
    "aligned": (1, "a multiple of n bytes: the address of every group of lanes that one instruction moves"),
    "contiguous": (2, "[d, n]: along dimension d, groups of n lanes that are all live are neighbors in memory"),
    "distinct_lanes": (0, "no two live lanes of the access are one address"),
    "uniform": (0, "all lanes of the results are equal"),
    "exclusive": (1, "on a load and a loop: in the loop nothing accesses what the load of this number reads"),
    "order": (1, "on a loop, or alone: here begins a run of the accesses `in_order` of this number"),
    "order_each": (1, "on a loop: as `order`, for each of its iterations"),
    "in_order": (2, "[number, position]: the accesses of this number take effect as if done by position"),
    "in_range": (2, "[n, step] (limit, count, first): limit + step * i is n or more for count i's from first on (if absent, for i = 0)"),
    "unwrapped": (1, "[n] (start, size): start % size + n is no more than size"),
}  # fmt: skip
"""The kinds of claims: how many integers each has (`aligned = [16]`), and what is claimed."""

_OF_SCALARS = {"in_range": (1, 3), "unwrapped": (2, 2), "order": (0, 0)}
"""Claims of `tile.claim`, and the fewest and the most operands."""

Entry = tuple[str, str, tuple[int, ...]]
"""(pass, claim, integers)"""


@irdl_attr_definition
class AssumesAttr(Data[tuple[Entry, ...]]):
    """`#tile.assumes<"pass" [claim = [integers], …], …>`: claims, by the passes that make them."""

    name = ASSUMES

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Entry, ...]:
        """The text in angle brackets."""
        groups = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: _parse_group(parser)
        )
        return tuple(entry for group in groups for entry in group)

    def print_parameter(self, printer: Printer) -> None:
        """The same as text."""
        by_pass: dict[str, list[str]] = {}
        for name, claim, values in self.data:
            text = f"{claim} = [{', '.join(map(str, values))}]" if values else claim
            by_pass.setdefault(name, []).append(text)
        groups = (f'"{name}" [{", ".join(claims)}]' for name, claims in by_pass.items())
        printer.print_string(f"<{', '.join(groups)}>")

    def verify(self) -> None:
        for _, claim, values in self.data:
            require(claim in MEANING, f"tile.assumes: unknown claim '{claim}'")
            count = MEANING[claim][0]
            require(len(values) == count, f"tile.assumes: {claim} has {count} integers")


def _parse_group(parser: AttrParser) -> list[Entry]:
    name = parser.parse_str_literal("the name of a pass")
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: (name, *_parse_claim(parser))
    )


def _parse_claim(parser: AttrParser) -> tuple[str, tuple[int, ...]]:
    claim = parser.parse_identifier("the name of a claim")
    if parser.parse_optional_punctuation("=") is None:
        return claim, ()
    values = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer()
    )
    return claim, tuple(values)


@operation
class ClaimOp(Op):
    """A pass's claim about scalars (see `MEANING`); executing it does nothing."""

    assumes = prop_def(AssumesAttr)
    values = var_operand_def(IntegerType)
    assembly_format = "$assumes (`of` $values^ `:` type($values))? attr-dict"

    KINDS: ClassVar = tuple(_OF_SCALARS)

    def verify_(self) -> None:
        for _, claim, _ in self.assumes.data:
            require(claim in _OF_SCALARS, f"tile.claim: {claim} is a claim about an operation")
            least, most = _OF_SCALARS[claim]
            require(least <= len(self.values) <= most, f"tile.claim: operands of {claim}")


@functools.lru_cache(1024)
def _claims(by: str, entries: tuple[tuple[str, tuple[int, ...]], ...]) -> AssumesAttr:
    """The attribute for `entries` (claim, integers), made by pass `by`."""
    return AssumesAttr(tuple((by, claim, values) for claim, values in entries))


def assume(op: Operation, by: str, **entries: Sequence[int]) -> None:
    """Write on `op` what pass `by` relies on: `assume(op, "vectorize-accesses", aligned=[16])`.

    What the same pass wrote there before under these names is replaced.
    """
    added = _claims(by, tuple((claim, tuple(values)) for claim, values in entries.items()))
    before = op.attributes.get(ASSUMES)
    if isinstance(before, AssumesAttr):
        kept = (e for e in before.data if not (e[0] == by and e[1] in entries))
        added = AssumesAttr((*kept, *added.data))
    op.attributes[ASSUMES] = added


def in_range(by: str, operands: Sequence[SSAValue], least: int, step: int = 0) -> ClaimOp:
    """Pass `by` claims that a limit, the first of `operands`, cuts nothing off (see `MEANING`)."""
    return _claim(_claims(by, (("in_range", (least, step)),)), operands)


def unwrapped(by: str, start: SSAValue, size: SSAValue, extent: int) -> ClaimOp:
    """Pass `by` claims that `extent` elements from `start` on do not wrap around at `size`."""
    return _claim(_claims(by, (("unwrapped", (extent,)),)), [start, size])


def begin_order(by: str, number: int) -> ClaimOp:
    """The accesses of this number begin anew (`in_order`)."""
    return _claim(_claims(by, (("order", (number,)),)), [])


def _claim(assumes: AssumesAttr, operands: Sequence[SSAValue]) -> ClaimOp:
    return ClaimOp.create(operands=list(operands), properties={"assumes": assumes})


def claims_of(op: Operation) -> Iterator[Entry]:
    """The claims on an operation."""
    found = op.attributes.get(ASSUMES)
    if isinstance(found, AssumesAttr):
        yield from found.data
    if isinstance(op, ClaimOp):
        yield from op.assumes.data
