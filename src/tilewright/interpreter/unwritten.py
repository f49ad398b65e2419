"""Arrays whose first contents mean nothing: reads of them are faults until a kernel writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.interpreter.arrays import array_memory

#: allocation base → (its size, one flag a byte: written by now). Entries live until forgotten.
_marked: dict[int, tuple[int, np.ndarray]] = {}


def mark_unwritten(*arrays: Any) -> None:
    """Treat the contents of `arrays` as never written, until kernels that run as Python write them.

    For the check "unwritten". Each array's whole allocation is marked; `forget_unwritten` ends it.
    """
    for array in arrays:
        memory = array_memory(array)
        _marked[memory.base] = (memory.nbytes, np.zeros(memory.nbytes, bool))


def forget_unwritten(*arrays: Any) -> None:
    """Take `arrays` (none: all) as written from now on."""
    if not arrays:
        _marked.clear()
    for array in arrays:
        _marked.pop(array_memory(array).base, None)


def unwritten_flags(array: Any) -> np.ndarray | None:
    """The flags of `array`'s allocation if it was marked."""
    memory = array_memory(array)
    found = _marked.get(memory.base)
    return found[1] if found is not None and found[0] == memory.nbytes else None
