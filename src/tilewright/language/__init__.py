"""The kernel language: `import tilewright.language as tl`.

Stubs with signatures and documentation, the types, and composites written in the language itself.
"""

from tilewright.language import core, extra, math, standard, target_info
from tilewright.language.aggregates import aggregate_replace
from tilewright.language.core import *  # noqa: F403
from tilewright.language.extra import libdevice
from tilewright.language.standard import random
from tilewright.language.standard.programs import atomic_poll, swizzle2d
from tilewright.language.standard.random import *  # noqa: F403
from tilewright.language.standard.sorting import bitonic_merge, sort, topk

tuple = tuple

__all__ = [
    "aggregate_replace", "atomic_poll", "bitonic_merge", "core", "extra", "libdevice", "math", "random", "sort", "standard",
    "swizzle2d", "target_info", "topk", "tuple",
]  # fmt: skip
__all__ += core.__all__
__all__ += random.__all__
