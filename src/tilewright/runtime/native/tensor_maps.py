"""Host code that encodes the tensor maps of a launch, and the descriptions that it reads.

It runs under the GIL; the driver reads a copy on the launching thread's stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_uint8, c_uint32, c_void_p
from typing import Any

from tilewright.backends.base import Extent, TensorMap
from tilewright.runtime.native.language import *
from tilewright.runtime.native.records import memset

MAP_BYTES = 128
LARGEST_EXTENT = TensorMap.LARGEST_EXTENT
INVALID_VALUE = 1
"""CUDA_ERROR_INVALID_VALUE."""
#: element size → CUtensorMapDataType of the unsigned integer, because TMA copies bits unchanged
DATA_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
#: of CUtensorMapSwizzle, by span in bytes
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


class Key(ctypes.Structure):
    """Cache key of an argument's tensor map; `strides` in bytes."""

    _fields_ = [("address", c_int64), ("dims", c_int64 * 5), ("strides", c_int64 * 4)]


class Entry(ctypes.Structure):
    """A cached tensor map."""

    _fields_ = [("key", Key), ("rest", c_uint8 * 48), ("map", c_uint8 * MAP_BYTES)]


class Description(ctypes.Structure):
    """The values of one tensor map, with a direct-mapped cache.

    Dimensions and strides (in elements) are programs: `terms, then for each: coefficient, factors, slot indices…`, the
    sum of products that `backends.base.Extent` is.
    """

    _fields_ = [
        ("slot", c_int64),  # with the address
        ("type", c_int64),
        ("rank", c_int64),
        ("swizzle", c_int64),
        ("element_bytes", c_int64),
        ("box", c_uint32 * 5),
        ("dims", c_void_p * 5),
        ("strides", c_void_p * 4),
        ("rest", c_uint8 * 56),
        ("cache", Entry * 8),
    ]


#: CUtensorMapL2promotion: an L2 miss fetches 128 bytes. 256 is no faster for fp16 matmuls of 1024³ to 8192³ and with few
#: rows, a fifth slower for a tall matmul of 64 × 128 tiles, and a seventh slower at 4104³, whose rows begin inside lines
#: (H200).
L2_PROMOTION = 2


def memcpy(to: ptr, source: ptr, size: i64) -> ptr: ...
def memcmp(a: ptr, b: ptr, size: i64) -> i32: ...


def evaluate(program: Words, slots: Words) -> i64:
    """A sum of products of slots."""
    total = i64(0)
    at = i64(1)
    for _ in range(program[0]):
        product = program[at]
        count = program[at + 1]
        for factor in range(count):
            product *= slots[program[at + 2 + factor]]
        total += product
        at += 2 + count
    return total


def find_key(description: Description, slots: Words, key: Key) -> i1:
    """Compute the key of a map; return whether it can be encoded."""
    memset(key, i32(0), sizeof(Key))
    key.address = slots[description.slot]
    for d in range(description.rank):
        dim = max(evaluate(description.dims[d], slots), 1)
        if dim > LARGEST_EXTENT:
            return False
        key.dims[d] = dim
    for d in range(description.rank - 1):
        stride = evaluate(description.strides[d], slots) * description.element_bytes
        # along dimensions without a stride the kernel asks for coordinate 0
        key.strides[d] = key.strides[0] if d > 0 and stride == 0 else stride
    return True


def make_map(description: Description, slots: Words, out: ptr, encode: ptr) -> i32:
    """The map of one description; a CUresult."""
    key = local(Key)
    if not find_key(description, slots, key):
        return INVALID_VALUE
    address: i64 = key.address
    known: Entry = description.cache[(address >> 9 ^ address >> 16 ^ address >> 21) & 7]
    if memcmp(key, known, sizeof(Key)) != 0:
        steps = local(i32, 5)
        for d in range(5):
            steps[d] = 1
        found: Key = known.key
        found.dims[0] = 0  # invalidate the entry if the driver rejects the map
        code = call(
            i32, encode, known.map, i32(description.type), i32(description.rank), pointer(address),
            key.dims, key.strides, description.box, steps, i32(0), i32(description.swizzle), i32(L2_PROMOTION), i32(0),
        )  # fmt: skip
        if code != 0:
            return code
        memcpy(found, key, sizeof(Key))
    memcpy(out, known.map, MAP_BYTES)
    return 0


def describe(maps: Sequence[TensorMap]) -> tuple[int, Any]:
    """`(address, keep)` of the descriptions of a kernel's tensor maps; keep `keep` as long."""
    buffer = ctypes.create_string_buffer(64 + ctypes.sizeof(Description) * len(maps))
    base = (ctypes.addressof(buffer) + 63) & ~63
    programs: list[Any] = []
    for i, tensor_map in enumerate(maps):
        made = Description.from_address(base + i * ctypes.sizeof(Description))
        made.slot, made.type = tensor_map.argument, DATA_TYPES[tensor_map.element_bytes]
        made.rank, made.swizzle = len(tensor_map.global_dims), SWIZZLES[tensor_map.swizzle_bytes]
        made.element_bytes = tensor_map.element_bytes
        made.box[:] = [*tensor_map.box_dims, 1, 1, 1]
        for place, sizes in (
            (made.dims, tensor_map.global_dims),
            (made.strides, tensor_map.global_strides),
        ):
            for d, size in enumerate(sizes):
                programs.append(_program(size))
                place[d] = ctypes.addressof(programs[-1])
    return base, (buffer, programs)


def _program(extent: Extent) -> Any:
    words = [len(extent.terms)]
    for coefficient, factors in extent.terms:
        words += [coefficient, len(factors), *factors]
    return (ctypes.c_int64 * len(words))(*words)
