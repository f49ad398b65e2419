"""Host code of the CUDA launcher: a METH_FASTCALL function per kernel and signature.

Its `self` is a Python integer, the address of a `Record`; its arguments are a grid tuple, a stream and the runtime
arguments. It makes the kernel's context current if necessary, releases the GIL (the driver blocks when its queue
is full) and calls the driver once. It neither allocates nor synchronizes, so CUDA graphs can capture it.

A kernel's parameters are slots of 8 bytes, of which the driver reads the parameter's size (little-endian); a "blob"
slot is the address of the parameter itself. Tensor maps and the fault record's address follow as
additional parameters, in this order.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_uint8, c_uint32, c_uint64, c_void_p

from tilewright.runtime.drivers.argument_guards import ANY, OTHER_CASE
from tilewright.runtime.native.language import *
from tilewright.runtime.native.python import *
from tilewright.runtime.native.tensor_maps import MAP_BYTES, Description, make_map

#: error codes of the launcher, besides those of `python`: these + CUresult
DRIVER_ERROR, MAP_ERROR = 1000, 100_000
INVALID_CONTEXT = 201
"""CUDA_ERROR_INVALID_CONTEXT."""
#: of CUlaunchAttribute: cooperative launches run all CTAs at the same time or are rejected, programmatic stream
#: serialization makes launches overlap
COOPERATIVE, CLUSTER_DIMENSION, STREAM_SERIALIZATION = 2, 4, 6
#: launches that the ring remembers
RING = 8


#: the driver's functions that it calls
FUNCTIONS = (
    "cuLaunchKernel", "cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
    "cuTensorMapEncodeTiled",
)  # fmt: skip


class CudaState(ctypes.Structure):
    """Process state: the driver's functions and the latest launches."""

    _fields_ = [
        *((name, c_void_p) for name in FUNCTIONS),
        ("launches", c_int64),
        ("ring", c_uint64 * RING),  # records
    ]


class CudaRecord(ctypes.Structure):
    """Launch record: a kernel on a device and the kinds of its arguments, shared by all its launches."""

    _fields_ = [
        ("function", c_void_p),
        ("context", c_void_p),
        ("threads", c_uint32),
        ("shared_bytes", c_uint32),
        ("cluster", c_uint32),
        ("early", c_uint32),  # whether it may begin before the kernel before it is over
        ("cooperative", c_uint32),
        ("arguments", c_int64),
        ("slots", c_int64),
        ("fault", c_uint64),  # address of the record of failed assertions, or 0
        ("maps", c_int64),
        ("descriptions", c_void_p),
        ("kinds", c_uint8 * 0),  # one an argument, then one condition each (`argument_guards`)
    ]


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute, whose value is as large."""

    _fields_ = [("id", c_uint32), ("rest", c_uint32), ("value", c_uint32 * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint32),
    ]


tw_cuda_state = CudaState()


def remember(record: CudaRecord) -> None:
    """Record the launched kernel for reports of asynchronous errors."""
    at = atomic_add(tw_cuda_state.launches, 1, order="monotonic") % RING
    set_atomic(tw_cuda_state.ring[at], i64(record), order="monotonic")


def submit(record: CudaRecord, grid: Words, stream: ptr, params: Pointers) -> i32:
    """Call the driver; a CUresult."""
    function = record.function
    x = i32(grid[0])
    y = i32(grid[1])
    z = i32(grid[2])
    one = i32(1)
    if record.cluster <= 1 and record.early == 0 and record.cooperative == 0:
        return call(
            i32, tw_cuda_state.cuLaunchKernel, function, x, y, z,
            record.threads, one, one, record.shared_bytes, stream, params, None,
        )  # fmt: skip
    config = local(LaunchConfig)
    attributes = local(LaunchAttribute, 2)
    config.grid[0] = x
    config.grid[1] = y
    config.grid[2] = z
    config.block[0] = record.threads
    config.block[1] = 1
    config.block[2] = 1
    config.shared_bytes = record.shared_bytes
    config.stream = stream
    config.attributes = attributes
    count = i64(0)
    if record.cluster > 1 or record.early != 0:
        attributes[0].id = i32(CLUSTER_DIMENSION if record.cluster > 1 else STREAM_SERIALIZATION)
        attributes[0].value[0] = record.cluster
        attributes[0].value[1] = 1
        attributes[0].value[2] = 1
        count = i64(1)
    if record.cooperative != 0:
        attributes[count].id = i32(COOPERATIVE)
        attributes[count].value[0] = 1
        count += 1
    config.count = i32(count)
    return call(i32, tw_cuda_state.cuLaunchKernelEx, config, function, params, None)


def submit_in_context(record: CudaRecord, grid: Words, stream: ptr, params: Pointers) -> i32:
    """`submit` with the kernel's context current; a CUresult."""
    current = local(ptr)
    current[0] = None
    call(i32, tw_cuda_state.cuCtxGetCurrent, current)
    if current[0] == record.context:
        return submit(record, grid, stream, params)
    code = call(i32, tw_cuda_state.cuCtxPushCurrent, record.context)
    if code == 0:
        code = submit(record, grid, stream, params)
        call(i32, tw_cuda_state.cuCtxPopCurrent, current)
    return code


def make_maps(record: CudaRecord, slots: Words, space: ptr, params: Pointers) -> i32:
    """Encode the tensor maps of a launch as parameters; a CUresult."""
    for i in range(record.maps):
        params[i] = space + i * MAP_BYTES
        description = record.descriptions + i * sizeof(Description)
        code = make_map(description, slots, params[i], tw_cuda_state.cuTensorMapEncodeTiled)
        if code != 0:
            return code
    return 0


def maps_in_context(record: CudaRecord, slots: Words, space: ptr, params: Pointers) -> i32:
    """`make_maps` in the current context, or in the kernel's if there is none.

    The driver rejects threads without one, such as the first launch of an autograd thread.
    """
    code = make_maps(record, slots, space, params)
    if code != INVALID_CONTEXT:
        return code
    code = call(i32, tw_cuda_state.cuCtxPushCurrent, record.context)
    if code == 0:
        code = make_maps(record, slots, space, params)
        call(i32, tw_cuda_state.cuCtxPopCurrent, local(ptr))
    return code


def pack(record: CudaRecord, args: Pointers, slots: Words, params: Pointers) -> i64:
    """Fill the parameters that are arguments; 0, or why the kernel is not to be launched."""
    at = i64(0)
    given = record.arguments
    for i in range(given):
        item = args[i + 2]
        kind = record.kinds[i]
        condition = record.kinds[given + i]
        if kind == BLOB:
            params[at] = PyLong_AsVoidPtr(item)
        elif kind != SKIP or condition != ANY:
            value = fetch(INT if kind == SKIP else kind, item)
            if not meets(condition, value):
                PyErr_Clear()
                return OTHER_CASE
            slots[at] = value
            params[at] = ref(slots[at])
        if kind != SKIP:
            at += 1
    return 0


def read_cuda_grid(grid: ptr, cluster: i64, out: Words) -> i64:
    """The number of programs, -1 for a grid that no GPU takes; writes the extents in CTAs."""
    programs = read_grid(grid, out)
    wide = out[0] > LARGEST_EXTENT // cluster
    if programs < 0 or wide or out[1] > 65535 or out[2] > 65535:
        return -1
    out[0] = out[0] * cluster
    return programs


def tw_cuda_launch(self: ptr, args: Pointers, nargs: i64) -> ptr:
    """Launch a kernel (see the module); return None or an error code."""
    record: CudaRecord = PyLong_AsVoidPtr(self)
    if nargs != record.arguments + 2:
        return PyLong_FromLongLong(BAD_CALL)
    extents = local(i64, 3)
    programs = read_cuda_grid(args[0], unsigned(record.cluster), extents)
    if programs < 0:
        return PyLong_FromLongLong(BAD_GRID)
    stream = PyLong_AsVoidPtr(args[1])
    count = record.slots + record.maps + 1
    slots = local(i64, count)
    params = local(ptr, count)
    wrong = pack(record, args, slots, params)
    if wrong != 0:
        return PyLong_FromLongLong(wrong)
    if PyErr_Occurred():
        return None
    if programs == 0:
        return none()
    if record.maps != 0:
        space = local(i8, record.maps * MAP_BYTES, align=64)
        code = maps_in_context(record, slots, space, ref(params[record.slots]))
        if code != 0:
            return PyLong_FromLongLong(unsigned(code) + MAP_ERROR)
    slots[count - 1] = record.fault
    params[count - 1] = ref(slots[count - 1])
    remember(record)
    saved = PyEval_SaveThread()
    code = submit_in_context(record, extents, stream, params)
    PyEval_RestoreThread(saved)
    if code != 0:
        return PyLong_FromLongLong(unsigned(code) + DRIVER_ERROR)
    return none()
