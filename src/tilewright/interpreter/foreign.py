"""What has no meaning in NumPy."""

from __future__ import annotations

from typing import Any, NoReturn

from tilewright.errors import InterpreterError
from tilewright.interpreter.registry import implements


@implements("tile.inline_asm")
def inline_asm(ctx: Any, attributes: Any, result_types: Any, *operands: Any) -> NoReturn:
    """Raises InterpreterError."""
    raise InterpreterError(
        "tl.inline_asm_elementwise holds PTX, which only NVIDIA GPUs run",
        help="write the operation with tl functions (tl.extra.libdevice has most of C's math)",
    )
