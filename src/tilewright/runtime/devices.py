"""Device, address and stream of arrays, determined without importing their libraries.

Supported are torch tensors, cupy arrays, and objects with `__cuda_array_interface__` or `__dlpack__` on a GPU
(numba, jax …). A launch whose arrays are on a GPU runs there, on the current stream of the
arrays' library; page-locked torch tensors may be among the arguments.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tilewright.errors import LaunchError, UnsupportedTarget
from tilewright.targets import TargetInfo

#: of DLDeviceType
_DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 2, 3, 13


class Place(NamedTuple):
    """A GPU that a launch goes to."""

    device: int
    library: str
    """Library whose current stream is used: "torch", "cupy", or "" for the legacy default stream."""

    def target(self) -> TargetInfo:
        """The compilation target. Raises UnsupportedTarget for GPUs that are too old."""
        from tilewright.runtime.drivers.cuda import driver

        return driver().device(self.device).target

    def stream(self) -> int:
        """The CUstream to launch on."""
        return stream_function(self.library)(self.device)


def device_of(value: Any) -> int | None:
    """The ordinal of the GPU that holds an array; None if the value is not a GPU array."""
    module = type(value).__module__.partition(".")[0]
    if module in ("builtins", "numpy"):
        return None
    if type(value).__name__ in ("TensorWrapper", "TensorDescriptor"):
        return device_of(value.base)
    on_gpu = getattr(value, "is_cuda", None)
    is_numpy = hasattr(value, "__array_interface__")  # a subclass of ndarray may have more names
    if on_gpu is not None and hasattr(value, "data_ptr") and not is_numpy:
        return value.get_device() if on_gpu else None
    if module == "cupy":
        return getattr(getattr(value, "data", None), "device_id", None)
    if hasattr(value, "__cuda_array_interface__"):
        return _device_of_address(_interface(value)["data"][0])
    if hasattr(value, "data_ptr") and not hasattr(value, "__dlpack_device__"):
        return _device_of_bare(value)
    kind, index = _dlpack_device(value)
    return index if kind in (_DL_CUDA, _DL_CUDA_MANAGED) else None


def _interface(value: Any) -> dict[str, Any]:
    """An array's `__cuda_array_interface__`. Raises LaunchError if it is incomplete."""
    facts = value.__cuda_array_interface__
    missing = [name for name in ("data", "typestr") if name not in facts]
    if missing:
        raise LaunchError(
            f"the {type(value).__name__}'s __cuda_array_interface__ has no {' and no '.join(missing)}",
            help="numba's documentation says what it must hold",
        )
    if facts.get("mask") is not None:
        raise LaunchError(
            f"the {type(value).__name__} is a masked array, and kernels read all elements",
            help="pass its data, and the mask as an array of its own",
        )
    return facts


def _device_of_bare(value: Any) -> int | None:
    """The GPU of an object with `data_ptr()` alone, as in wrappers of tensors: its `device`, or the driver's answer
    for its address. None on the CPU.
    """
    if hasattr(value, "__array_interface__"):
        return None
    device = getattr(value, "device", None)
    kind, _, number = str(getattr(device, "type", None) or device or "").lower().partition(":")
    if kind not in ("", "cuda"):
        return None
    index = getattr(device, "index", None)
    if kind == "cuda" and isinstance(index, int):
        return index
    if kind == "cuda" and number.isdigit():
        return int(number)
    address = value.data_ptr()
    if not address:
        return None
    from tilewright.runtime.drivers.cuda import driver

    try:
        return driver().api.device_of_pointer(address)
    except UnsupportedTarget:  # no GPU
        return None


def _device_of_address(address: int) -> int:
    from tilewright.runtime.drivers.cuda import driver

    native = driver()
    found = native.api.device_of_pointer(address) if address else None
    return native.current_device() if found is None else found


def _dlpack_device(value: Any) -> tuple[int, int]:
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None or hasattr(value, "__array_interface__"):
        return 1, 0
    try:
        kind, index = ask()
    except (BufferError, RuntimeError, TypeError, ValueError):
        return 1, 0
    return int(kind), int(index)


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and those in tuples and lists among them."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


def could_be_gpu(classes: Iterable[type]) -> bool:
    """Whether values of some of these classes may be, or contain, GPU arrays."""
    plain = ("builtins", "numpy", "tilewright", "ml_dtypes")
    return any(
        issubclass(c, tuple)
        or c.__module__.partition(".")[0] not in plain
        or c.__name__ == "TensorWrapper"
        or hasattr(c, "__cuda_array_interface__")
        for c in classes
    )


def place_of(arguments: Sequence[tuple[str, Any]]) -> Place | None:
    """The GPU that a launch with these (name, value) runs on; None for the CPU.

    Raises LaunchError for arrays of several devices, or of a GPU and the CPU together.
    """
    found: tuple[str, int] | None = None
    libraries: set[str] = set()
    items = [(name, value) for name, given in arguments for value in flat((given,))]
    for name, value in items:
        index = device_of(value)
        if index is None:
            continue
        if found is not None and found[1] != index:
            raise LaunchError(
                f"'{found[0]}' is on GPU {found[1]} and '{name}' on GPU {index}",
                help="move all arrays of a launch to one device",
            )
        found = found or (name, index)
        libraries.add(_library(value))
    if found is None:
        return None
    _reject_host_arrays(items, *found)
    order = ("torch", "cupy", "")
    return Place(found[1], next(name for name in order if name in libraries))


def _library(value: Any) -> str:
    """The library whose current stream orders work on an array."""
    base = getattr(value, "base", None) if type(value).__name__ == "TensorWrapper" else None
    value = value if base is None else base
    if hasattr(value, "is_cuda") and hasattr(value, "data_ptr"):
        return "torch"
    if type(value).__module__.partition(".")[0] == "cupy":
        return "cupy"
    return stream_library() or ("cupy" if "cupy" in sys.modules else "")


def _reject_host_arrays(items: Sequence[tuple[str, Any]], where: str, index: int) -> None:
    from tilewright.runtime.specialize import is_array

    for name, value in items:
        if is_array(value) and device_of(value) is None and not reachable(value):
            raise LaunchError(
                f"'{name}' is in host memory (a {type(value).__name__}), which GPU {index} cannot "
                f"reach, and '{where}' is on GPU {index}",
                help="move all arrays of a launch to one device: x.cuda() or x.cpu()",
            )


def reachable(value: Any) -> bool:
    """Whether GPUs can use an array in host memory: page-locked torch tensors, dtypes for warmup."""
    if type(value).__name__ == "MockTensor":
        return True
    pinned = getattr(value, "is_pinned", None)
    if pinned is not None:
        return bool(pinned())
    return _dlpack_device(value)[0] == _DL_CUDA_HOST


# ---- addresses -------------------------------------------------------------------------------------


def gpu_address(value: Any) -> tuple[int, Any]:
    """Address and dtype (the library's own, or a NumPy type string) of an array on a GPU."""
    if hasattr(value, "data_ptr"):
        return value.data_ptr(), value.dtype
    if hasattr(value, "__cuda_array_interface__"):
        facts = _interface(value)
        return facts["data"][0], getattr(value, "dtype", None) or _dtype(facts["typestr"])
    return _dlpack_address(value)


def _dtype(typestr: str) -> Any:
    import numpy

    return numpy.dtype(typestr)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


_DL_CODES = {
    (0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
    (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
    (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16",
    (6, 8): "bool", (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2",
}  # fmt: skip


def _dlpack_address(value: Any) -> tuple[int, Any]:
    """Address and dtype from the DLPack capsule. The array, which the caller keeps alive, owns the memory.

    `stream=-1` prevents the producer from synchronizing: its pending work is on a stream that the
    caller chose (the legacy default stream waits for all others).
    """
    try:
        capsule = value.__dlpack__(stream=-1)
    except TypeError:
        capsule = value.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    name = _DL_CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise LaunchError(
            f"the {type(value).__name__} holds elements of DLPack code {tensor.code}, "
            f"{tensor.bits} bits, {tensor.lanes} lanes, which kernels cannot"
        )
    return (tensor.data or 0) + tensor.byte_offset, name


# ---- streams ---------------------------------------------------------------------------------------


def stream_library() -> str:
    """The library whose current stream is used if no argument determines it: torch once it has initialized CUDA."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    started = getattr(cuda, "is_initialized", None)
    return "torch" if started is not None and started() else ""


def stream_function(library: str) -> Callable[[int], int]:
    """From a device ordinal to the stream that `library` calls current there."""
    if library == "torch":
        torch: Any = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw if raw is not None else lambda d: torch.cuda.current_stream(d).cuda_stream
    if library == "cupy":
        cupy: Any = sys.modules["cupy"]
        current = cupy.cuda.get_current_stream
        return lambda device: current().ptr
    return lambda device: 0


def order_after(values: Iterable[Any], place: Place) -> None:
    """Let the launch's stream wait for streams that arrays name as their own (interface version 3)."""
    ours = None
    for value in flat(values):
        if device_of(value) is None or _library(value) == type(value).__module__.partition(".")[0]:
            continue
        facts = getattr(value, "__cuda_array_interface__", None)
        theirs = facts.get("stream") if facts else None
        if theirs:
            ours = place.stream() if ours is None else ours
            if theirs != (ours or 1):
                _wait(theirs, ours, place.device)


def _wait(theirs: int, ours: int, device: int) -> None:
    from tilewright.runtime.drivers.cuda import driver

    native = driver()
    with native.in_context(native.device(device)):
        event = native.api.handle("cuEventCreate", 2)
        native.api.cuEventRecord(event, theirs)
        native.api.cuStreamWaitEvent(ours, event, 0)
        native.api.cuEventDestroy_v2(event)
