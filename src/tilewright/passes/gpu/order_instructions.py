"""`order-instructions`: order loads and their uses so that fewer loaded values are live at once.

    Before:
        func.func @k() {
          func.return
        }
    After:
        func.func @k() attributes {gpu.order_instructions} {
          func.return
        }

Tile operations are emitted for all registers of a thread at a time. Between instructions with effects, code
generation then emits the operands of each reduction depth first, if its estimate of live registers falls by a quarter.
Relies on nothing. Guarantees: the function's attribute `gpu.order_instructions`. Switched off, instructions
stay in the order of the tile operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, UnitAttr

from tilewright.passes.base import Pass, functions_of
from tilewright.targets import TargetInfo

ORDER_INSTRUCTIONS = "gpu.order_instructions"
"""On a function: its instructions may be emitted in another order."""


@dataclass(frozen=True)
class OrderInstructions(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "order-instructions"

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in functions_of(module):
            function.attributes[ORDER_INSTRUCTIONS] = UnitAttr()
