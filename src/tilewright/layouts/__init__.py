"""Layouts of tiles: over registers, lanes and warps (`Layout`), and in shared memory (`SharedLayout`).

Pure Python without IR. Passes, code generation, the interpreter and the tests use the same functions.
"""

from tilewright.layouts.layout import Layout, parse_layout

__all__ = ["Layout", "parse_layout"]
