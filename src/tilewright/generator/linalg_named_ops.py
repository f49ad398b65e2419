"""`linalg.matmul` and its relatives, as far as reading them needs: operands, results, types.

xDSL's own `linalg.matmul` wants one element type for all operands and has no batched form; MLIR sums
fp16 matmuls in fp32 where the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.linalg import Linalg
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer


class NamedMatmulOp(IRDLOperation):
    """Base class of the matmuls."""

    inputs = var_operand_def()
    outputs = var_operand_def()
    res = var_result_def()
    indexing_maps = opt_prop_def(ArrayAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def axes(self) -> tuple[str, str, str]:
        """Names of the axes of both operands and the result."""
        return _AXES[self.name.removeprefix("linalg.")]

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        """`linalg.matmul ins(%a, %b : t, t) outs(%c : t) -> t`."""
        maps = None
        if parser.parse_optional_characters("indexing_maps") is not None:
            parser.parse_punctuation("=")
            maps = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        inputs = _operands(parser, "ins")
        outputs = _operands(parser, "outs")
        attributes |= parser.parse_optional_attr_dict()
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_optional_comma_separated_list(
                Parser.Delimiter.PAREN, parser.parse_type
            ) or [parser.parse_type()]
        properties = {} if maps is None else {"indexing_maps": maps}
        return cls.build(
            operands=[inputs, outputs],
            result_types=[results],
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        """Print in the syntax of `parse`."""
        for word, values in (("ins", self.inputs), ("outs", self.outputs)):
            printer.print_string(f" {word}(")
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string(" : ")
            printer.print_list([v.type for v in values], printer.print_attribute)
            printer.print_string(")")
        if self.results:
            printer.print_string(" -> ")
            printer.print_list(list(self.result_types), printer.print_attribute)


def _operands(parser: Parser, word: str) -> Sequence[SSAValue]:
    parser.parse_characters(word)
    parser.parse_punctuation("(")
    position = parser.pos
    names = parser.parse_comma_separated_list(
        Parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return parser.resolve_operands(names, types, position)


#: axes of A, B and the result, by name: C[m, n] += A[m, k] · B[k, n] and its relatives
_AXES = {
    "matmul": ("mk", "kn", "mn"),
    "matmul_transpose_a": ("km", "kn", "mn"),
    "matmul_transpose_b": ("mk", "nk", "mn"),
    "batch_matmul": ("bmk", "bkn", "bmn"),
    "batch_matmul_transpose_a": ("bkm", "bkn", "bmn"),
    "batch_matmul_transpose_b": ("bmk", "bnk", "bmn"),
    "matvec": ("mk", "k", "m"),
    "vecmat": ("k", "kn", "n"),
}
PRODUCTS: tuple[type[NamedMatmulOp], ...] = tuple(
    irdl_op_definition(type(f"{name.title()}Op", (NamedMatmulOp,), {"name": f"linalg.{name}"}))
    for name in _AXES
)


def linalg_dialect() -> Dialect:
    """xDSL's `linalg` with these matmuls in place of its own."""
    names = {op.name for op in PRODUCTS}
    others = [op for op in Linalg.operations if op.name not in names]
    return Dialect("linalg", [*others, *PRODUCTS], list(Linalg.attributes))
