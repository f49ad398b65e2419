"""Memory that a product on the CPU needs while it runs: packed operands.

Launches on the CPU are done when they return, so a thread of the caller needs one workspace for each role, made
as large as the largest product asked for and kept: fresh memory costs a page fault for every 4 KB. What is
larger than `MOST_KEPT` is released after the product.
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
    views = _kept.__dict__
    held = views.get(role)
    if held is not None and held[:2] == (count, kind):
        return held[2]
    import ml_dtypes
    import numpy

    element = numpy.dtype(getattr(ml_dtypes, kind.array_name, None) or kind.array_name)
    size = count * element.itemsize
    lines = None if held is None else held[3]
    if lines is None or lines.nbytes < size:
        held = lines = None
        views.pop(role, None)  # before the new one is there
        raw = numpy.empty(size + _LINE, numpy.uint8)
        start = -raw.ctypes.data % _LINE
        lines = raw[start : start + size]
    view = lines[:size].view(element)
    if size <= MOST_KEPT:
        views[role] = count, kind, view, lines
    return view
