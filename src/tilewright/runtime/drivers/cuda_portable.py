"""The CUDA launcher by ctypes, for Pythons without native host code (other than CPython's usual build)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.base import TensorMap
from tilewright.runtime.drivers.argument_guards import OTHER_CASE, all_hold
from tilewright.runtime.drivers.cuda_api import SUCCESS, CudaApi
from tilewright.runtime.drivers.portable import slot_bits
from tilewright.runtime.native import cuda as host
from tilewright.runtime.native.python import BAD_GRID
from tilewright.runtime.native.tensor_maps import (
    DATA_TYPES,
    INVALID_VALUE,
    L2_PROMOTION,
    MAP_BYTES,
    SWIZZLES,
)


def portable_launcher(
    api: CudaApi,
    record: Any,
    kinds: Sequence[str],
    conditions: Sequence[int] = (),
    maps: Sequence[TensorMap] = (),
) -> Callable[..., Any]:
    """See `CudaDriver.launcher`; `record` is a `CudaRecord`."""
    launch, extended = api.function("cuLaunchKernel"), api.function("cuLaunchKernelEx")
    get, push, pop = (
        api.function(n) for n in ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
    )
    function, context, cluster = record.function, record.context, record.cluster
    threads, shared = record.threads, record.shared_bytes

    def call(grid: tuple[int, ...], stream: int, *values: Any) -> Any:
        x, y, z, *_ = (*grid, 1, 1, 1)
        x *= cluster
        in_range = 1 <= len(grid) <= 3 and 0 <= x < 1 << 31 and all(0 <= e < 65536 for e in (y, z))
        if not in_range:
            return BAD_GRID
        if not all_hold(conditions, values):
            return OTHER_CASE
        pairs = [(k, v) for k, v in zip(kinds, values, strict=True) if k != "skip"]
        slots = (ctypes.c_uint64 * (len(pairs) + 1))(
            *[slot_bits(k, v) for k, v in pairs], record.fault
        )
        base = ctypes.addressof(slots)
        places = [v if k == "blob" else base + 8 * i for i, (k, v) in enumerate(pairs)]
        if not x * y * z:
            return None
        held = ctypes.create_string_buffer(MAP_BYTES * len(maps) + 64)
        space = (ctypes.addressof(held) + 63) & ~63
        current = ctypes.c_void_p()
        get(ctypes.byref(current))
        foreign = current.value != context
        if foreign and (code := push(context)) != SUCCESS:
            return host.DRIVER_ERROR + code
        for i, tensor_map in enumerate(maps):  # which the driver rejects outside of a context
            code = _encode(api, tensor_map, [v for _, v in pairs], space + MAP_BYTES * i)
            if code != SUCCESS:
                if foreign:
                    pop(ctypes.byref(current))
                return host.MAP_ERROR + code
        places += [space + MAP_BYTES * i for i in range(len(maps))]
        params = (ctypes.c_void_p * (len(places) + 1))(*places, base + 8 * len(pairs))
        attributes = _attributes(record)
        if attributes:
            listed = (host.LaunchAttribute * len(attributes))(*attributes)
            place, block = ctypes.addressof(listed), (threads, 1, 1)
            config = host.LaunchConfig((x, y, z), block, shared, stream, place, len(attributes))
            code = extended(ctypes.byref(config), function, params, None)
        else:
            code = launch(function, x, y, z, threads, 1, 1, shared, stream, params, None)
        if foreign:
            pop(ctypes.byref(current))
        return None if code == SUCCESS else host.DRIVER_ERROR + code

    return call


def _attributes(record: Any) -> list[host.LaunchAttribute]:
    """What a launch needs beyond a grid, threads and shared memory."""
    found: list[host.LaunchAttribute] = []
    if record.cluster > 1 or record.early:
        kind = host.CLUSTER_DIMENSION if record.cluster > 1 else host.STREAM_SERIALIZATION
        found.append(host.LaunchAttribute(kind, 0, (record.cluster, 1, 1)))
    if record.cooperative:
        found.append(host.LaunchAttribute(host.COOPERATIVE, 0, (1,)))
    return found


def _encode(api: CudaApi, tensor_map: TensorMap, values: Sequence[Any], to: int) -> int:
    """Make a tensor map at an address; a CUresult."""
    sizes = tensor_map.sizes(values)
    if sizes is None:
        return INVALID_VALUE
    rank, (extents, pitches) = len(sizes[0]), sizes
    dims, strides = (ctypes.c_uint64 * rank)(*extents), (ctypes.c_uint64 * (rank - 1))(*pitches)
    ones = [1] * rank
    box, steps = (
        (ctypes.c_uint32 * rank)(*tensor_map.box_dims, *ones[2:]),
        (ctypes.c_uint32 * rank)(*ones),
    )
    kind, swizzle = DATA_TYPES[tensor_map.element_bytes], SWIZZLES[tensor_map.swizzle_bytes]
    address, encode = values[tensor_map.argument], api.function("cuTensorMapEncodeTiled")
    return encode(to, kind, rank, address, dims, strides, box, steps, 0, swizzle, L2_PROMOTION, 0)
