"""The conformance tests of the language, on the CPU or, where TILEWRIGHT_TEST_DEVICE=cuda, on a GPU.

On a GPU every NumPy array of a launch is copied there, and back after it. TILEWRIGHT_TEST_CTAS=2
spreads every program over as many blocks (`num_ctas`).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
import pytest

ON_GPU = os.environ.get("TILEWRIGHT_TEST_DEVICE") == "cuda"
CTAS = int(os.environ.get("TILEWRIGHT_TEST_CTAS", "1"))


class OnGpu:
    """A NumPy array's elements on the GPU, where its strides mean the same."""

    is_cuda = True

    def __init__(self, array: np.ndarray, memory: Any, offset: int) -> None:
        self.dtype, self.shape, self.ndim = array.dtype, array.shape, array.ndim
        self._memory, self._offset = memory, offset
        self.device = memory.device

    def data_ptr(self) -> int:
        return self._memory.data_ptr() + self._offset

    def get_device(self) -> int:
        return 0


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array that holds the memory of a view (`as_strided` puts an object in between)."""
    while array.base is not None:
        above = array.base
        above = above if isinstance(above, np.ndarray) else getattr(above, "base", None)
        if not isinstance(above, np.ndarray):
            return array
        array = above
    return array


class Mirror:
    """The memory that the arrays of one launch lie in, copied to the GPU and back."""

    def __init__(self) -> None:
        self._bases: dict[int, tuple[np.ndarray, Any]] = {}

    def there(self, value: Any) -> Any:
        """An array on the GPU for a NumPy array; other values as they are."""
        if isinstance(value, tuple):
            return tuple(map(self.there, value))
        if not isinstance(value, np.ndarray):
            return value
        import torch

        base = owner_of(value)
        if id(base) not in self._bases:
            low, high = np.lib.array_utils.byte_bounds(base)
            raw = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
            self._bases[id(base)] = (raw, torch.from_numpy(raw.copy()).cuda())
        raw, memory = self._bases[id(base)]
        return OnGpu(value, memory, value.ctypes.data - raw.ctypes.data)

    def back(self) -> None:
        for raw, memory in self._bases.values():
            raw[:] = memory.cpu().numpy()


@pytest.fixture(autouse=True)
def _device(monkeypatch: Any) -> None:
    if not ON_GPU:
        return
    from tilewright.runtime.jit import JITFunction

    plain = JITFunction.__getitem__

    def indexed(kernel: JITFunction, grid: Any) -> Any:
        launch = plain(kernel, grid)

        def call(*args: Any, **kwargs: Any) -> Any:
            mirror = Mirror()
            if CTAS > 1:
                kwargs.setdefault("num_ctas", CTAS)
            result = launch(
                *map(mirror.there, args), **{k: mirror.there(v) for k, v in kwargs.items()}
            )
            mirror.back()
            return result

        return call

    monkeypatch.setattr(JITFunction, "__getitem__", indexed)
