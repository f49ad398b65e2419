"""Where the elements of a tile are: registers, lanes and warps, or addresses in shared memory.

One type for all of it, `Layout` = repeat × linear; see `layout.py`. Pure Python, no IR: passes,
code generation, the interpreter and the tests all ask the same functions.
"""

from tilewright.layouts.layout import Layout, parse_layout
from tilewright.layouts.shared import bank_conflicts

__all__ = ["Layout", "bank_conflicts", "parse_layout"]
