"""`unroll`: mark loops for unrolling by LLVM, so that loads of several iterations are in flight.

    Change:
        - func.func @k() {
        + func.func @k() attributes {gpu.unroll} {
            func.return
          }

What threads do together (barriers, MMAs on tensor cores) keeps a loop as it is; the instructions of one
tile MMA are always written out (arXiv 2108.13191, section 3.4, unrolls them). Relies on nothing.
Guarantees: the function's attribute `gpu.unroll`, which code generation hands to LLVM. Switched off, loops
stay loops.
"""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp

from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

UNROLL = "gpu.unroll"
"""On a function: LLVM may unroll its loops."""


class Unroll(FunctionPass):
    def run(self, function: FuncOp, target: TargetInfo) -> None:
        function.attributes[UNROLL] = UnitAttr()
