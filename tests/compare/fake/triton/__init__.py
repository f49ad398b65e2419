"""Triton's interfaces as far as `tilewright compare` uses them. Kernels run their `reference`, plain torch code."""

from triton import language
from triton.runtime.autotuner import Config, autotune
from triton.runtime.jit import jit

__all__ = ["Config", "autotune", "cdiv", "jit", "language"]


def cdiv(x, y):
    return -(-x // y)
