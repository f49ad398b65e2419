"""The CUDA driver API through ctypes: prototypes, error texts. No toolkit and no package is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from tilewright.errors import UnsupportedTarget

_OUT_INT, _OUT_PTR = POINTER(c_int), POINTER(c_void_p)
#: argument types of the driver's functions; all return CUresult
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT_INT,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_OUT_INT,),
    "cuDeviceGet": (_OUT_INT, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_OUT_INT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT_PTR, c_int),
    "cuCtxGetCurrent": (_OUT_PTR,),
    "cuCtxGetDevice": (_OUT_INT,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_OUT_PTR,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_OUT_PTR, c_void_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_OUT_PTR, c_void_p, c_char_p),
    "cuFuncGetAttribute": (_OUT_INT, c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuStreamIsCapturing": (c_void_p, _OUT_INT),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuThreadExchangeStreamCaptureMode": (_OUT_INT,),
    "cuEventCreate": (_OUT_PTR, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
    "cuMemHostAlloc": (_OUT_PTR, c_size_t, c_uint),
    "cuMemHostGetDevicePointer_v2": (_OUT_PTR, c_void_p, c_uint),
    "cuMemAlloc_v2": (_OUT_PTR, c_size_t),
    "cuMemFree_v2": (c_void_p,),
    "cuMemsetD32Async": (c_void_p, c_uint, c_size_t, c_void_p),
    "cuMemcpyAsync": (c_void_p, c_void_p, c_size_t, c_void_p),
    "cuTensorMapEncodeTiled": (
        c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, *[c_int] * 4,
    ),
    "cuPointerGetAttribute": (c_void_p, c_int, c_void_p),
}  # fmt: skip
SUCCESS, OUT_OF_MEMORY, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX = 0, 2, 221, 222
#: blocks of a cluster, and bytes of dynamic shared memory, that need no asking
PORTABLE_CLUSTER, FREE_SHARED = 8, 48 << 10
#: errors of a kernel that ran: the context is lost, every later call reports them
ASYNCHRONOUS = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))
_POINTER_DEVICE_ORDINAL = 9


class CudaError(Exception):
    """A driver call that did not succeed. `code` is its CUresult."""

    def __init__(self, code: int, name: str, text: str, call: str) -> None:
        self.code, self.name, self.text, self.call = code, name, text, call
        super().__init__(f"{call}: {name} ({code}): {text}")


class CudaApi:
    """The functions of a libcuda, by name; `api.cuInit(0)` raises CudaError unless it succeeds.

    `fault` makes the error of a kernel that failed before a call, which any call may report.
    """

    def __init__(self, library: Any, fault: Callable[[int, str], Exception] | None = None) -> None:
        self.library = library
        self._fault = fault
        """The exception for code and text of an asynchronous error."""

    def function(self, name: str) -> Any:
        """The function itself, with its prototype. Raises UnsupportedTarget if the driver lacks it."""
        found = getattr(self.library, name, None)
        if found is None:
            raise UnsupportedTarget(f"the NVIDIA driver has no {name}", help="install a newer one")
        found.argtypes, found.restype = PROTOTYPES[name], c_int
        return found

    def address(self, name: str) -> int:
        """Address of the function, for native callers."""
        return ctypes.cast(self.function(name), c_void_p).value or 0

    def __getattr__(self, name: str) -> Any:
        if name not in PROTOTYPES:
            raise AttributeError(name)
        function = self.function(name)

        def call(*arguments: Any) -> None:
            code = function(*arguments)
            if code != SUCCESS:
                raise self.error(code, name)

        setattr(self, name, call)
        return call

    def error(self, code: int, call: str) -> Exception:
        """The error of a CUresult."""
        if code in ASYNCHRONOUS and self._fault is not None:
            return self._fault(code, self.describe(code)[1])
        return CudaError(code, *self.describe(code), call)

    def describe(self, code: int) -> tuple[str, str]:
        """Name and text of a CUresult."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            known = self.function(name)(code, byref(text)) == SUCCESS and text.value
            texts.append(text.value.decode() if known and text.value else f"CUDA error {code}")
        return texts[0], texts[1]

    # ---- calls with one result ------------------------------------------------------------------

    def integer(self, name: str, *arguments: Any) -> int:
        """The int that a function returns through its first parameter."""
        out = c_int()
        getattr(self, name)(byref(out), *arguments)
        return out.value

    def handle(self, name: str, *arguments: Any) -> int:
        """The pointer that a function returns through its first parameter (0 for null)."""
        out = c_void_p()
        getattr(self, name)(byref(out), *arguments)
        return out.value or 0

    def device_of_pointer(self, address: int) -> int | None:
        """The device that memory belongs to; None for memory that CUDA does not know."""
        out = c_int()
        function = self.function("cuPointerGetAttribute")
        code = function(byref(out), _POINTER_DEVICE_ORDINAL, c_void_p(address))
        return out.value if code == SUCCESS and out.value >= 0 else None


def load_library() -> Any:
    """The driver's library. Raises UnsupportedTarget where none is installed."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnsupportedTarget(
            f"there is no NVIDIA driver on this machine ({error})",
            help="compile with kernel.compile(target=...), or launch with arrays on the CPU",
        ) from None
