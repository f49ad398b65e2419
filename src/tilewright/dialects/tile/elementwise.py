"""Element-wise operations that upstream `arith` and `math` lack, for scalars and tiles alike."""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, f32

from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import *


class _CmpOp(Op):
    predicate = prop_def(StringAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))
    assembly_format = (
        "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )
    PREDICATES: ClassVar = ()

    def verify_(self) -> None:
        require(self.predicate.data in self.PREDICATES, f"{self.name}: {self.predicate.data}")
        require(self.lhs.type == self.rhs.type, f"{self.name}: operand types differ")
        same_lanes(self, self.lhs, self.result)
        require_element(self, self.result, i1, "the result")


@operation
class CmpIOp(_CmpOp):
    """Integer (or pointer) comparison: eq ne slt sle sgt sge ult ule ugt uge; result i1."""

    name = "tile.cmpi"
    PREDICATES: ClassVar = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


@operation
class CmpFOp(_CmpOp):
    """Floating comparison: oeq one olt ole ogt oge (false on NaN), une (true on NaN), uno, ord."""

    name = "tile.cmpf"
    PREDICATES: ClassVar = ("oeq", "one", "olt", "ole", "ogt", "oge", "une", "uno", "ord")


@operation
class SelectOp(Op):
    """`condition ? lhs : rhs` per element; all three have one shape."""

    condition = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))

    def verify_(self) -> None:
        require(
            self.lhs.type == self.rhs.type == self.result.type, "tile.select: value types differ"
        )
        same_lanes(self, self.condition, self.result)
        require_element(self, self.condition, i1, "the condition")


class _SameTypeBinary(Op):
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise())

    def verify_(self) -> None:
        require(self.lhs.type == self.rhs.type == self.result.type, f"{self.name}: types differ")


@operation
class RemFOp(_SameTypeBinary):
    """C `fmod`: the remainder has the dividend's sign."""

    name = "tile.remf"


@operation
class MulHiUOp(_SameTypeBinary):
    """High half of the unsigned double-width product."""

    name = "tile.umulhi"


@operation
class MulSigmoidOp(_SameTypeBinary):
    """`lhs / (1 + f(rhs))` of fp32 with `function` f "exp" or "exp2": `lhs` times the sigmoid of `-rhs`.

    Error: at most 4 ulp for an exact f, or 2^-62 of `lhs`, whichever is larger. If only `rhs` is NaN the result may
    be any number from 0 to `lhs`. The tolerance allows elements to share a reciprocal.
    """

    function = prop_def(StringAttr)
    assembly_format = (
        "$function `,` $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `to` type($result)"
    )

    def verify_(self) -> None:
        super().verify_()
        require(scalar_of(self.lhs) == f32, "tile.mul_sigmoid: fp32 only")
        require(self.function.data in ("exp", "exp2"), "tile.mul_sigmoid: exp or exp2")


@operation
class FpCastOp(Op):
    """Floating conversion to a narrower type with `rounding` "rtz" (towards zero).

    Conversions with the default rounding (to nearest, ties to even) are `arith.truncf`/`extf`.
    """

    source = operand_def()
    rounding = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))

    def verify_(self) -> None:
        same_lanes(self, self.source, self.result)
        kinds = [scalar_of(v) for v in (self.source, self.result)]
        require(all(isinstance(k, AnyFloat) for k in kinds), "tile.fp_cast: floats expected")
        require(_bits(kinds[1]) < _bits(kinds[0]), "tile.fp_cast: the result is not narrower")
        require(self.rounding.data == "rtz", f"tile.fp_cast: rounding {self.rounding.data}")


@operation
class OptimizationBarrierOp(Op):
    """Return the operand as a value that LLVM and ptxas cannot prove equal to it.

    Values computed from the result are rematerialized: CSE cannot replace them with equal earlier values, which
    would stay live in registers until here. Barriers of one tile have different `number`s.
    """

    source = operand_def()
    number = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        require(self.source.type == self.result.type, "tile.optimization_barrier: types differ")


class _Reinterpretation(Op):
    """Other types for the same bits."""

    source = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(cheap=True))


@operation
class BitcastOp(_Reinterpretation):
    """Reinterpret the bits of scalars or tiles; element widths are equal. Also pointer to pointer."""

    def verify_(self) -> None:
        same_lanes(self, self.source, self.result)
        widths = [_bits(scalar_of(v)) for v in (self.source, self.result)]
        require(widths[0] == widths[1], f"tile.bitcast: {widths[0]} bits to {widths[1]}")


@operation
class IntToPtrOp(_Reinterpretation):
    """i64 byte address to pointer."""

    def verify_(self) -> None:
        _verify_address(self, self.source, self.result)


@operation
class PtrToIntOp(_Reinterpretation):
    """Pointer to i64 byte address."""

    def verify_(self) -> None:
        _verify_address(self, self.result, self.source)


def _verify_address(op: _Reinterpretation, address: SSAValue, pointer: SSAValue) -> None:
    same_lanes(op, op.source, op.result)
    require_element(op, address, i64, "the address")
    require(isinstance(scalar_of(pointer), PtrType), f"{op.name}: not a pointer")


@operation
class LibmOp(Op):
    """A function of C's math library by its C name without suffix ("asinh", "pow", "round"…).

    For functions that `arith` and `math` do not have. Operands and result have one floating type, except
    `isnan`/`isinf`/`isfinite` whose result is i1.
    """

    function = prop_def(StringAttr)
    arguments = var_operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise())
    assembly_format = "$function `,` $arguments attr-dict `:` type($arguments) `to` type($result)"

    def verify_(self) -> None:
        same_lanes(self, *self.arguments, self.result)


def _bits(kind: Attribute) -> int:
    return 64 if isinstance(kind, PtrType) else cast(FixedBitwidthType, kind).bitwidth
