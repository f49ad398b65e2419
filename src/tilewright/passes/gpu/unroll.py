"""`unroll`: mark loops for unrolling by LLVM, so that loads of several iterations are in flight.

    Before:
        func.func @k() {
          func.return
        }
    After:
        func.func @k() attributes {gpu.unroll} {
          func.return
        }

What threads do together (barriers, MMAs on tensor cores) keeps a loop as it is; the instructions of one
tile MMA are always written out (arXiv 2108.13191, section 3.4, unrolls them). Relies on nothing.
Guarantees: the function's attribute `gpu.unroll`, which code generation hands to LLVM. Switched off, loops
stay loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, UnitAttr

from tilewright.passes.base import Pass, functions_of
from tilewright.targets import TargetInfo

UNROLL = "gpu.unroll"
"""On a function: LLVM may unroll its loops."""


@dataclass(frozen=True)
class Unroll(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "unroll"

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in functions_of(module):
            function.attributes[UNROLL] = UnitAttr()
