"""A small kernel that `tilewright doctor` compiles and runs."""

from collections.abc import Callable
from typing import Any

import tilewright as tw
import tilewright.language as tl


@tw.jit
def softmax(x_ptr: Any, out_ptr: Any, n: Any, stride: Any, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    total = tl.sum(tl.exp(x), axis=0)
    tl.store(out_ptr + row * stride + columns, tl.exp(x) / total, mask=columns < n)


def worst_error(place: Callable[[Any], Any] = lambda array: array) -> float:
    """Run the kernel; return the largest difference from NumPy in float64, relative to the largest value.

    `place` converts a NumPy array to the kernel's argument; a `GpuArray` is copied back.
    """
    import numpy as np

    x = np.random.default_rng(0).standard_normal((37, 100), dtype=np.float32)
    out = np.zeros_like(x)
    result = place(out)
    softmax[(37,)](place(x), result, 100, 100, BLOCK=128)
    if isinstance(result, GpuArray):
        result.read(out)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    return float(np.abs(out - exact).max() / exact.max())


def compiled_for(target: str) -> Any:
    """The kernel, compiled for a GPU that need not be there."""
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "stride": "i32"}
    return softmax.compile(types, {"BLOCK": 128}, target=target)


class GpuArray:
    """A copy of a NumPy array on a GPU, through the driver alone."""

    def __init__(self, array: Any, index: int) -> None:
        from tilewright.runtime.drivers.cuda import driver

        self._native = driver()
        self._device = self._native.device(index)
        with self._native.in_context(self._device):
            self._address = self._native.api.handle("cuMemAlloc_v2", array.nbytes)
        self._copy(self._address, array.ctypes.data, array.nbytes)
        self._facts = {"typestr": array.dtype.str, "shape": array.shape, "version": 3}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._facts, "data": (self._address, False)}

    def read(self, array: Any) -> None:
        """Synchronize, copy to a NumPy array, and free the memory."""
        self._copy(array.ctypes.data, self._address, array.nbytes)
        with self._native.in_context(self._device):
            self._native.api.cuMemFree_v2(self._address)

    def _copy(self, to: int, source: int, size: int) -> None:
        with self._native.in_context(self._device):
            self._native.api.cuMemcpyAsync(to, source, size, 0)
            self._native.api.cuStreamSynchronize(0)
