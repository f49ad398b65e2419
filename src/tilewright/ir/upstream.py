"""What xDSL's `arith` is stricter about than MLIR's, and what of xDSL would take long.

In MLIR the integer conversions act element-wise on tensors; xDSL 0.74 declares them for scalars only,
in operand constraints and verifiers. `widen_conversions` gives those seven operations MLIR's
definition, and has these and the conversions of floats keep a tile's layout. `remember_integer_lists` has
attributes that are lists of integers made once: every operation with groups of operands has one.
Both change xDSL's classes in place, because everybody makes operations with them.
"""

from __future__ import annotations

import functools
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    DenseArrayBase,
    IntegerType,
    Signedness,
    container_of,
)
from xdsl.irdl import OperandDef, ResultDef
from xdsl.utils.exceptions import VerifyException


def _element(kind: Any) -> Any:
    return getattr(kind, "element_type", kind)


def _verify_shapes(op: Any) -> None:
    source, result = op.operands[0].type, op.results[0].type
    shapes = [k.get_shape() if hasattr(k, "get_shape") else () for k in (source, result)]
    layouts = [getattr(k, "encoding", None) for k in (source, result)]
    if shapes[0] != shapes[1] or layouts[0] != layouts[1]:
        raise VerifyException(f"{op.name}: shapes or layouts differ: {source} and {result}")


def _verify_narrower(op: Any) -> None:
    _verify_shapes(op)
    if not _element(op.results[0].type).bitwidth < _element(op.operands[0].type).bitwidth:
        raise VerifyException("Destination bit-width must be smaller than the input bit-width")


def _verify_wider(op: Any) -> None:
    _verify_shapes(op)
    if not _element(op.results[0].type).bitwidth > _element(op.operands[0].type).bitwidth:
        raise VerifyException("Destination bit-width must be larger than the input bit-width")


@functools.cache
def widen_conversions() -> None:
    """Let the integer conversions of xDSL's `arith` take tensors. Does nothing the second time."""
    integer, floating = container_of(IntegerType), container_of(AnyFloatConstr)
    table = (
        (arith.TruncIOp, integer, integer, _verify_narrower),
        (arith.ExtSIOp, integer, integer, _verify_wider),
        (arith.ExtUIOp, integer, integer, _verify_wider),
        (arith.SIToFPOp, integer, floating, _verify_shapes),
        (arith.UIToFPOp, integer, floating, _verify_shapes),
        (arith.FPToSIOp, floating, integer, _verify_shapes),
        (arith.FPToUIOp, floating, integer, _verify_shapes),
        (arith.TruncFOp, floating, floating, _verify_narrower),
        (arith.ExtFOp, floating, floating, _verify_wider),
    )
    for kind, source, result, verify in table:
        definition = kind.get_irdl_definition()
        definition.operands[0] = (definition.operands[0][0], OperandDef(source))
        definition.results[0] = (definition.results[0][0], ResultDef(result))
        kind.verify_ = verify  # type: ignore[method-assign]


@functools.cache
def remember_integer_lists() -> None:
    """Let equal lists of integers be one attribute. Does nothing the second time."""
    plain: Any = DenseArrayBase.from_list

    @functools.lru_cache(4096)
    def integers(width: int, sign: Signedness, data: tuple[int, ...]) -> Any:
        return plain(IntegerType(width, sign), data)

    def from_list(data_type: Any, data: Any) -> Any:
        if type(data_type) is not IntegerType:
            return plain(data_type, data)
        return integers(data_type.width.data, data_type.signedness.data, tuple(data))

    DenseArrayBase.from_list = staticmethod(from_list)
