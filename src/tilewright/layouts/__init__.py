"""Layouts of tiles: over registers, lanes and warps (`Layout`), and in shared memory (`SharedLayout`).

Pure Python without IR. Passes, code generation, the interpreter and the tests use the same functions.
"""

from tilewright.layouts.layout import Layout, parse_layout
from tilewright.layouts.shared import bank_conflicts

__all__ = ["Layout", "bank_conflicts", "parse_layout"]
