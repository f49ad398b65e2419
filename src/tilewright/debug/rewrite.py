"""The few Python constructs that cannot be overloaded, made calls: `and`, `or`, `not`, `a < b < c`,
`assert` and `is` of constants.

Only functions that contain one are compiled again, from their syntax tree, with every line and
column where it was; all others run the code object that Python made.
"""

from __future__ import annotations

from types import CodeType

from tilewright.language.kernel_function import KernelFunction


def kernel_code(function: KernelFunction) -> CodeType:
    """The code to run for `function`."""
    return function.fn.__code__
