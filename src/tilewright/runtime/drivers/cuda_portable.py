"""The CUDA launcher where `cuda_ir` has none (other Pythons than CPython's usual build): ctypes."""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.base import TensorMap
from tilewright.runtime.drivers import cuda_ir
from tilewright.runtime.drivers.argument_guards import OTHER_CASE, all_hold
from tilewright.runtime.drivers.cuda_api import SUCCESS, CudaApi
from tilewright.runtime.drivers.tensor_map_ir import (
    DATA_TYPES,
    MAP_BYTES,
    SWIZZLES,
    promotion,
)

_INVALID_VALUE = 1  # of CUresult


def portable_launcher(
    api: CudaApi,
    record: Any,
    kinds: Sequence[str],
    conditions: Sequence[int] = (),
    maps: Sequence[TensorMap] = (),
) -> Callable[..., Any]:
    """See `CudaDriver.launcher`; `record` are the words of a launch record."""
    launch, extended = api.function("cuLaunchKernel"), api.function("cuLaunchKernelEx")
    get, push, pop = (
        api.function(n) for n in ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
    )
    threads, shared = record[2] & 0xFFFFFFFF, record[2] >> 32
    cluster, early = record[3] & 0xFFFFFFFF, record[3] >> 32

    def call(grid: tuple[int, ...], stream: int, *values: Any) -> Any:
        x, y, z, *_ = (*grid, 1, 1, 1)
        x *= cluster
        in_range = 1 <= len(grid) <= 3 and 0 <= x < 1 << 31 and all(0 <= e < 65536 for e in (y, z))
        if not in_range:
            return cuda_ir.BAD_GRID
        if not all_hold(conditions, values):
            return OTHER_CASE
        pairs = [(k, v) for k, v in zip(kinds, values, strict=True) if k != "skip"]
        slots = (ctypes.c_uint64 * (len(pairs) + 1))(*[_bits(k, v) for k, v in pairs], record[6])
        base = ctypes.addressof(slots)
        places = [v if k == "blob" else base + 8 * i for i, (k, v) in enumerate(pairs)]
        if not x * y * z:
            return None
        held = ctypes.create_string_buffer(MAP_BYTES * len(maps) + 64)
        space = (ctypes.addressof(held) + 63) & ~63
        current = ctypes.c_void_p()
        get(ctypes.byref(current))
        foreign = current.value != record[1]
        if foreign and (code := push(record[1])) != SUCCESS:
            return cuda_ir.DRIVER_ERROR + code
        for i, tensor_map in enumerate(maps):  # which the driver rejects outside of a context
            code = _encode(api, tensor_map, [v for _, v in pairs], space + MAP_BYTES * i)
            if code != SUCCESS:
                if foreign:
                    pop(ctypes.byref(current))
                return cuda_ir.MAP_ERROR + code
        places += [space + MAP_BYTES * i for i in range(len(maps))]
        params = (ctypes.c_void_p * (len(places) + 1))(*places, base + 8 * len(pairs))
        if cluster > 1 or early:
            kind = 4 if cluster > 1 else 6  # cluster dimension; programmatic stream serialization
            attribute = struct.pack("<IxxxxIII52x", kind, cluster, 1, 1)
            attributes = ctypes.create_string_buffer(attribute)
            listed = ctypes.addressof(attributes)
            config = struct.pack("<7I4xQQI4x", x, y, z, threads, 1, 1, shared, stream, listed, 1)
            code = extended(config, record[0], params, None)
        else:
            code = launch(record[0], x, y, z, threads, 1, 1, shared, stream, params, None)
        if foreign:
            pop(ctypes.byref(current))
        return None if code == SUCCESS else cuda_ir.DRIVER_ERROR + code

    return call


def _encode(api: CudaApi, tensor_map: TensorMap, values: Sequence[Any], to: int) -> int:
    """Make a tensor map at an address; a CUresult."""
    sizes = tensor_map.sizes(values)
    if sizes is None:
        return _INVALID_VALUE
    rank, (extents, pitches) = len(sizes[0]), sizes
    dims, strides = (ctypes.c_uint64 * rank)(*extents), (ctypes.c_uint64 * (rank - 1))(*pitches)
    ones = [1] * rank
    box, steps = (
        (ctypes.c_uint32 * rank)(*tensor_map.box_dims, *ones[2:]),
        (ctypes.c_uint32 * rank)(*ones),
    )
    kind, swizzle = DATA_TYPES[tensor_map.element_bytes], SWIZZLES[tensor_map.swizzle_bytes]
    address, encode = values[tensor_map.argument], api.function("cuTensorMapEncodeTiled")
    lines = promotion([address, *pitches])
    return encode(to, kind, rank, address, dims, strides, box, steps, 0, swizzle, lines, 0)


def _bits(kind: str, value: Any) -> int:
    """The 64 bits of an argument slot."""
    if kind == "fp32":
        return struct.unpack("<I", bytes(ctypes.c_float(value)))[0]
    if kind == "fp64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    number = int(value) if kind == "bool" else operator.index(value)
    return number & (1 << 64) - 1
