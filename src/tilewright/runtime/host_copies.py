"""Copy GPU arrays to the host and back around interpreted kernels."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.dtypes import like
from tilewright.errors import LaunchError
from tilewright.runtime.devices import Place, device_of, flat
from tilewright.runtime.gpu_snapshot import gpu_range
from tilewright.runtime.snapshot import MemoryRange, merged


@contextmanager
def on_host(values: Sequence[Any], place: Place) -> Generator[tuple[Any, ...]]:
    """Replace GPU arrays by NumPy copies; write them back at the end.

    Arrays that share memory on the GPU share it on the host; whole allocations are copied if
    they are known. Raises LaunchError for an array of unknown extent.
    """
    import numpy

    found = [part for value in flat(values) if (part := _range(value)) is not None]
    ranges = merged([part for part in found if part.size])
    buffers = [numpy.empty(part.size, numpy.uint8) for part in ranges]
    for part, buffer in zip(ranges, buffers, strict=True):
        _copy(place, buffer.ctypes.data, part.start, part.size)
    pairs = list(zip(ranges, buffers, strict=True))
    try:
        yield tuple(_replace(value, pairs) for value in values)
    finally:
        for part, buffer in pairs:
            _copy(place, part.start, buffer.ctypes.data, part.size)


def _range(value: Any) -> MemoryRange | None:
    if device_of(value) is None:
        return None
    part = gpu_range(value)
    if part is None:
        raise LaunchError(
            f"a {type(value).__name__} on a GPU cannot be given to a kernel that runs as Python",
            help="pass torch tensors, or arrays with __cuda_array_interface__",
        )
    return part


def _replace(value: Any, pairs: Sequence[tuple[MemoryRange, Any]]) -> Any:
    if isinstance(value, tuple):
        return like(value, [_replace(item, pairs) for item in value])
    if device_of(value) is None:
        return value
    import numpy

    from tilewright.interpreter.arrays import numpy_dtype
    from tilewright.runtime.specialize import array_address

    address, element = array_address(value)
    kind = numpy.dtype(numpy_dtype(element))
    shape, strides = _shape(value, kind.itemsize)
    for part, buffer in pairs:
        if part.start <= address < part.start + part.size:
            offset = address - part.start
            return numpy.ndarray(shape, kind, buffer=buffer, offset=offset, strides=strides)
    return numpy.empty(shape, kind)


def _shape(value: Any, item: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Shape, and strides in bytes (None: C order)."""
    base = value.base if type(value).__name__ == "TensorWrapper" else value
    if hasattr(base, "untyped_storage"):
        return tuple(base.shape), tuple(s * item for s in base.stride())
    facts = base.__cuda_array_interface__
    return tuple(facts["shape"]), facts.get("strides")


def _copy(place: Place, to: int, source: int, size: int) -> None:
    """Copy between host and device in stream order; complete on return."""
    from tilewright.runtime.drivers.cuda import driver

    native, stream = driver(), place.stream()
    with native.in_context(native.device(place.device)):
        native.api.cuMemcpyAsync(to, source, size, stream)
        native.api.cuStreamSynchronize(stream)
