"""Element types of MLIR text as language types."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Attribute

from tilewright import dtypes
from tilewright.errors import CompilationError

#: operations that only change an element's type
CONVERSIONS = (
    arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.SIToFPOp,
)  # fmt: skip
_BY_NAME = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8E4M3FN": "fp8e4nv",
    "f8E5M2": "fp8e5", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
    "si8": "i8", "ui8": "u8", "si32": "i32",
}  # fmt: skip


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
