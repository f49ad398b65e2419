"""Memory that a product on the CPU needs while it runs: packed operands.

Launches on the CPU are done when they return, so a thread of the caller needs one workspace for each role, made
as large as the largest product asked for and kept: fresh memory costs a page fault for every 4 KB. What is
larger than `MOST_KEPT` is given back after the product.
"""

from __future__ import annotations

import threading
from typing import Any

from tilewright.dtypes import dtype

#: bytes that a role keeps in a thread
MOST_KEPT = 128 << 20
_LINE = 64
_kept = threading.local()


def workspace(role: str, count: int, kind: dtype) -> Any:
    """A NumPy array of at least `count` elements that starts on a cache line; its contents are anything.

    The next call with the same role in the same thread gives the same memory.
    """
    import ml_dtypes
    import numpy

    element = numpy.dtype(getattr(ml_dtypes, kind.array_name, None) or kind.array_name)
    size = count * element.itemsize
    buffers = _kept.__dict__
    held = buffers.get(role)
    if held is None or held.nbytes < size:
        buffers.pop(role, None)  # before the new one is there
        raw = numpy.empty(size + _LINE, numpy.uint8)
        start = -raw.ctypes.data % _LINE
        held = raw[start : start + size]
        if size <= MOST_KEPT:
            buffers[role] = held
    return held[:size].view(element)
