"""Hints to the compiler, and operations that speak to the outside."""

from __future__ import annotations

from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import *

ALIGNED = "aligned"
"""A `kind` of `tile.hint`."""


@operation
class HintOp(Op):
    """The value itself, with the author's promise `kind` ("multiple_of", "max_contiguous",
    "max_constancy") and one integer a dimension in `values`.

    "aligned" promises what "multiple_of" does, by the contract of an operation (`tl.make_tensor_descriptor`)
    rather than in the author's words. It is dropped where the launcher knows the value (`simplify`)."""

    source = operand_def()
    kind = prop_def(StringAttr)
    values = prop_def(DenseArrayBase.constr(i64))
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))

    def verify_(self) -> None:
        require(self.source.type == self.result.type, "tile.hint: types differ")


@operation
class AssumeOp(Op):
    """The author's promise that a scalar i1 is true."""

    condition = operand_def(IntegerType(1))


@operation
class BarrierOp(Op):
    """`tl.debug_barrier`: orders the program's earlier memory accesses before its later ones."""


@operation
class PrintOp(Op):
    """Print scalars or tiles, one line a lane, with program id and lane coordinates."""

    prefix = prop_def(StringAttr)
    hex = prop_def(BoolAttr)
    signed = prop_def(DenseArrayBase.constr(i1))
    """One i1 an operand: whether an integer prints as signed."""
    arguments = var_operand_def()
    assembly_format = (
        "$prefix `,` $hex `,` $signed (`,` $arguments^ `:` type($arguments))? attr-dict"
    )

    def verify_(self) -> None:
        require(len(ints(self.signed)) == len(self.arguments), "tile.print: one sign an operand")


@operation
class InlineAsmOp(Op):
    """PTX for `pack` elements at a time, element-wise: `asm` with `$0`, `$1` … as `constraints` say.

    All operands and results have one shape. Elements of less than 32 bits share a register, as many as
    fit and `pack` has; each register is an operand of the text, results first. Unless `pure` it is done
    as often as it is written, though for elements that several threads hold more than once.
    """

    asm = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pack = prop_def(IntegerAttr)
    pure = prop_def(BoolAttr)
    arguments = var_operand_def()
    outputs = var_result_def()
    assembly_format = (
        "$asm `,` $constraints `,` $pack `,` $pure (`,` $arguments^ `:` type($arguments))? `to` "
        "type($outputs) attr-dict"
    )

    def verify_(self) -> None:
        same_lanes(self, *self.arguments, *self.outputs)


@operation
class AssertOp(Op):
    """Fault with `message` if the i1 scalar or any element of the i1 tile is false."""

    condition = operand_def()
    message = prop_def(StringAttr)

    def verify_(self) -> None:
        require_element(self, self.condition, i1, "the condition")
