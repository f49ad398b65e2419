"""A kernel to compile before processes are forked: they inherit the imported compiler."""

from __future__ import annotations

import contextlib
import os

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import TilewrightError


@tw.jit
def _copy(x_ptr, y_ptr, BLOCK: tl.constexpr, UNIQUE: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


def compile_once(target: str) -> None:
    """Import what compilation for a target needs."""
    with contextlib.suppress(
        TilewrightError
    ):  # no assembler: the modules are imported nevertheless
        constants = {"BLOCK": 64, "UNIQUE": os.getpid()}  # in no cache
        _copy.compile({"x_ptr": "*fp32", "y_ptr": "*fp32"}, constants, target=target)
