"""A kernel that is compiled so that the next one compiles faster: everything has been imported then."""

from __future__ import annotations

from typing import Any

import tilewright.language as tl
from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.ir.formats import formats_read_when_used
from tilewright.runtime.backend_compile import compile_here
from tilewright.runtime.compiler import compiling_for
from tilewright.runtime.jit import jit


@jit
def _softmax(x_ptr: Any, y_ptr: Any, n: Any, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, tl.arange(0, BLOCK) < n, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for _ in range(0, n, BLOCK):
        total += tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, total / tl.sum(total, 0), tl.arange(0, BLOCK) < n)


def compile_for(target: str) -> None:
    """Compile it for a target by name, past all caches."""
    machine, options = registry.machine(target), Options()
    pointer = tl.pointer_type(tl.float32)
    types = {"x_ptr": pointer, "y_ptr": pointer, "n": tl.int32, "BLOCK": tl.constexpr(256)}
    with formats_read_when_used(), compiling_for(machine, options.num_warps):
        module = _softmax.build(types, {"x_ptr": 16, "y_ptr": 16}, options, None).module
        compile_here(module, options, machine)
