"""Keep Python's garbage collector from traversing all objects of the process while a kernel is compiled.

The first compilation imports some two hundred modules, and every one makes many objects that refer to
each other. The collector then walks all objects of the process several times; with torch loaded that
is half a million, and a third of the time to the first kernel.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_lock = threading.Lock()
_OBJECTS = 20_000
"""Objects that a compilation makes between two looks of the collector: few of them die in cycles."""
_IMPORTED = 1_000_000
"""The same for one that imports the compiler first: modules stay, and make half a million objects."""
_MIN_FROZEN_OBJECTS = 1_000
"""Fewer objects than `gc.freeze` sets aside in any process; Python 3.12 begins with some hundred."""


@contextmanager
def gc_frozen() -> Generator[None]:
    """Let the collector look only at objects made from here on, until the block ends.

    It stays on, so that a long compilation, or many at once, cannot fill the memory. Does nothing
    if the program has frozen objects itself (`gc.freeze`): those must stay frozen.
    """
    with _lock:
        ours = gc.get_freeze_count() < _MIN_FROZEN_OBJECTS
        rate = gc.get_threshold()
        imports = "xdsl.ir" not in sys.modules
        objects = _IMPORTED if imports else _OBJECTS
        if ours:
            gc.freeze()
            if 0 < rate[0] < objects:
                gc.set_threshold(objects, *rate[1:])
    try:
        yield
    finally:
        if ours:
            if imports:
                gc.freeze()  # modules are old objects now, without having been looked at one by one
            gc.set_threshold(*rate)
            gc.unfreeze()
