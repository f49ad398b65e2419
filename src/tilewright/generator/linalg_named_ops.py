"""`linalg.matmul` and its relatives, as far as reading them needs: operands, results, types.

xDSL's own `linalg.matmul` wants one element type for all operands and has no batched form; MLIR sums
fp16 products in fp32 where the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr
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
    """What the products share. `AXES` names the axes of both operands and the result."""

    inputs = var_operand_def()
    outputs = var_operand_def()
    res = var_result_def()
    indexing_maps = opt_prop_def(ArrayAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    AXES: ClassVar[tuple[str, str, str]] = ("mk", "kn", "mn")

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
        """As `parse` reads it."""
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


@irdl_op_definition
class MatmulOp(NamedMatmulOp):
    """C[m, n] += A[m, k] · B[k, n]."""

    name = "linalg.matmul"


@irdl_op_definition
class MatmulTransposeAOp(NamedMatmulOp):
    """C[m, n] += A[k, m] · B[k, n]."""

    name = "linalg.matmul_transpose_a"
    AXES: ClassVar[tuple[str, str, str]] = ("km", "kn", "mn")


@irdl_op_definition
class MatmulTransposeBOp(NamedMatmulOp):
    """C[m, n] += A[m, k] · B[n, k]."""

    name = "linalg.matmul_transpose_b"
    AXES: ClassVar[tuple[str, str, str]] = ("mk", "nk", "mn")


@irdl_op_definition
class BatchMatmulOp(NamedMatmulOp):
    """C[b, m, n] += A[b, m, k] · B[b, k, n]."""

    name = "linalg.batch_matmul"
    AXES: ClassVar[tuple[str, str, str]] = ("bmk", "bkn", "bmn")


@irdl_op_definition
class BatchMatmulTransposeAOp(NamedMatmulOp):
    """C[b, m, n] += A[b, k, m] · B[b, k, n]."""

    name = "linalg.batch_matmul_transpose_a"
    AXES: ClassVar[tuple[str, str, str]] = ("bkm", "bkn", "bmn")


@irdl_op_definition
class BatchMatmulTransposeBOp(NamedMatmulOp):
    """C[b, m, n] += A[b, m, k] · B[b, n, k]."""

    name = "linalg.batch_matmul_transpose_b"
    AXES: ClassVar[tuple[str, str, str]] = ("bmk", "bnk", "bmn")


@irdl_op_definition
class MatvecOp(NamedMatmulOp):
    """C[m] += A[m, k] · B[k]."""

    name = "linalg.matvec"
    AXES: ClassVar[tuple[str, str, str]] = ("mk", "k", "m")


@irdl_op_definition
class VecmatOp(NamedMatmulOp):
    """C[n] += A[k] · B[k, n]."""

    name = "linalg.vecmat"
    AXES: ClassVar[tuple[str, str, str]] = ("k", "kn", "n")


PRODUCTS = (
    MatmulOp, MatmulTransposeAOp, MatmulTransposeBOp, BatchMatmulOp, BatchMatmulTransposeAOp,
    BatchMatmulTransposeBOp, MatvecOp, VecmatOp,
)  # fmt: skip


def linalg_dialect() -> Dialect:
    """xDSL's `linalg` with these products in place of its own."""
    from xdsl.dialects.linalg import Linalg

    names = {op.name for op in PRODUCTS}
    others = [op for op in Linalg.operations if op.name not in names]
    return Dialect("linalg", [*others, *PRODUCTS], list(Linalg.attributes))
