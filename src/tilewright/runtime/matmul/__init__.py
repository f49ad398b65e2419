"""Described matmuls: from the arguments of a call to the launches of generated programs.

`described` (MLIR text, loops) → `call` (`tilewright.matmul`) → `prepare` (contraction and configuration, from the
`shapes` of arrays) → `kernels` (programs as jit functions) → `plan` (what later calls with these shapes do).
"""

from __future__ import annotations

from tilewright.runtime.matmul.call import kernels_of, matmul

__all__ = ["kernels_of", "matmul"]
