"""A libcuda for tests without a GPU: C functions (ctypes callbacks) that record what they are given."""

import ctypes
from ctypes import c_char_p, c_float, c_int, c_uint, c_uint64, c_void_p
from types import SimpleNamespace

from tilewright.runtime.drivers import cuda_api

ATTRIBUTES = {
    10: 32, 12: 65536, 13: 1980000, 16: 132, 36: 3201000, 37: 6144, 38: 50 << 20, 75: 9, 76: 0,
    97: 227 << 10,
}  # fmt: skip
FUNCTION_ATTRIBUTES = {0: 1024, 3: 0, 4: 42, 8: 0}


def _store(kind, address, value):
    if address:
        kind.from_address(ctypes.cast(address, c_void_p).value).value = value


class FakeCuda:
    """`launches` are dicts; `fail[name] = code` makes calls of `name` fail; `current` is the context.

    Device 0 has the memory [0x1000000, 0x2000000), each other one the 16 MiB after the one before it.
    """

    def __init__(self, devices=2):
        self.devices = devices
        self.allocated, self.copies, self.maps, self.recorded = 0, [], [], {}
        self.calls, self.launches, self.fail = [], [], {}
        self.slots = 0
        self.stack = [0]
        self.capturing = False
        self.modules = {}
        self.info_log = b""
        self.function_attributes = dict(FUNCTION_ATTRIBUTES)
        self.shared_set = {}
        self.on_launch = None
        self._memory = []
        self._functions = {}

    def __getattr__(self, name):
        if not name.startswith("cu") or name not in cuda_api.PROTOTYPES:
            raise AttributeError(name)
        if name not in self._functions:
            types = cuda_api.PROTOTYPES[name]
            plain = [c_void_p if hasattr(t, "contents") or t is c_char_p else t for t in types]
            act = getattr(self, "_" + name, lambda *a: 0)

            def run(*arguments):
                self.calls.append(name)
                code = self.fail.get(name, 0)
                return code or act(*arguments) or 0

            self._functions[name] = ctypes.CFUNCTYPE(c_int, *plain)(run)
        return self._functions[name]

    # ---- devices and contexts

    def _cuDriverGetVersion(self, out):
        _store(c_int, out, 13000)

    def _cuDeviceGetCount(self, out):
        _store(c_int, out, self.devices)

    def _cuDeviceGet(self, out, index):
        _store(c_int, out, index)

    def _cuDeviceGetName(self, out, size, device):
        ctypes.memmove(out, b"Fake H200\0", 10)

    def _cuDeviceGetAttribute(self, out, what, device):
        _store(c_int, out, ATTRIBUTES[what])

    def _cuDevicePrimaryCtxRetain(self, out, device):
        _store(c_void_p, out, 0xC000 + device)

    def _cuCtxGetCurrent(self, out):
        _store(c_void_p, out, self.stack[-1])

    def _cuCtxGetDevice(self, out):
        if not self.stack[-1]:
            return 201
        _store(c_int, out, self.stack[-1] - 0xC000)
        return None

    def _cuCtxPushCurrent_v2(self, context):
        self.stack.append(context)

    def _cuCtxPopCurrent_v2(self, out):
        _store(c_void_p, out, self.stack.pop())

    def _cuGetErrorName(self, code, out):
        names = {700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 1: b"CUDA_ERROR_INVALID_VALUE"}
        _store(c_char_p, out, names.get(code, b"CUDA_ERROR_OTHER"))

    def _cuGetErrorString(self, code, out):
        _store(c_char_p, out, b"what happened")

    # ---- modules

    def _cuModuleLoadDataEx(self, out, image, count, names, values):
        options = dict(
            zip(
                (c_int * count).from_address(names),
                (c_void_p * count).from_address(values),
                strict=True,
            )
        )
        ctypes.memmove(options[3], self.info_log + b"\0", len(self.info_log) + 1)
        cubin = ctypes.string_at(image, 4) == b"\x7fELF"
        if cubin and self.fail.get("cubin"):
            return self.fail["cubin"]
        handle = 0x3000 + len(self.modules)
        self.modules[handle] = SimpleNamespace(context=self.stack[-1], cubin=cubin)
        _store(c_void_p, out, handle)
        return None

    def _cuModuleGetFunction(self, out, module, name):
        _store(c_void_p, out, module + 0x1000)

    def _cuFuncGetAttribute(self, out, what, function):
        _store(c_int, out, self.function_attributes[what])

    def _cuFuncSetAttribute(self, function, what, value):
        self.shared_set[function] = (what, value)

    # ---- launches

    def _cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        self._launched(function, (gx, gy, gz), (bx, by, bz), shared, stream, params, 1)

    def _cuLaunchKernelEx(self, config, function, params, extra):
        sizes = (c_uint * 7).from_address(config)
        stream, attributes = (c_void_p * 2).from_address(config + 32)
        count = c_uint.from_address(config + 48).value
        assert count >= 1
        listed = [(c_uint * 18).from_address(attributes + 72 * i) for i in range(count)]
        values = {words[0]: tuple(words[2:5]) for words in listed}
        assert len(values) == count and values.keys() <= {2, 4, 6}
        self._launched(
            function,
            tuple(sizes[:3]),
            tuple(sizes[3:6]),
            sizes[6],
            stream,
            params,
            values.get(4, 1),
            early=values.get(6, (0,))[0] == 1,  # programmatic stream serialization
            cooperative=values.get(2, (0,))[0] == 1,
        )

    def _launched(self, function, grid, block, shared, stream, params, cluster, **flags):
        pointers = (c_void_p * self.slots).from_address(params) if self.slots else ()
        launch = SimpleNamespace(
            function=function, grid=grid, block=block, shared=shared, stream=stream or 0,
            context=self.stack[-1], cluster=cluster,
            early=flags.get("early", False), cooperative=flags.get("cooperative", False),
            slots=[ctypes.c_uint64.from_address(p).value for p in pointers],
        )  # fmt: skip
        self.launches.append(launch)
        if self.on_launch:
            self.on_launch(launch)

    def _cuTensorMapEncodeTiled(
        self,
        to,
        kind,
        rank,
        address,
        dims,
        strides,
        box,
        steps,
        interleave,
        swizzle,
        promotion,
        fill,
    ):
        if not self.stack[-1]:
            return 201
        pairs = [
            tuple((t * n).from_address(a))
            for t, n, a in ((c_uint64, rank, dims), (c_uint, rank, box), (c_uint, rank, steps))
        ]
        pitches = tuple((c_uint64 * (rank - 1)).from_address(strides))
        self.maps.append(
            (
                kind,
                rank,
                address,
                pairs[0],
                pitches,
                pairs[1],
                pairs[2],
                interleave,
                swizzle,
                promotion,
                fill,
            )
        )
        self.map_addresses_aligned = to % 64 == 0
        c_uint64.from_address(to).value = 0xAB << 56 | len(self.maps)
        return None

    def _cuStreamIsCapturing(self, stream, out):
        _store(c_int, out, int(self.capturing))

    # ---- memory and events

    def _cuMemHostAlloc(self, out, size, flags):
        self._memory.append(ctypes.create_string_buffer(size))
        _store(c_void_p, out, ctypes.addressof(self._memory[-1]))

    def _cuMemAlloc_v2(self, out, size):
        self.allocated += 1
        _store(c_void_p, out, 0x7F00000000 + (self.allocated << 20))

    def _cuMemcpyAsync(self, to, source, size, stream):
        self.copies.append((to, source, size))

    def _cuEventCreate(self, out, flags):
        _store(c_void_p, out, 0xE000 + len(self.calls))

    def _cuEventRecord(self, event, stream):
        self.recorded[event] = len(self.launches) + len(self.copies)

    def _cuEventElapsedTime(self, out, start, end):
        busy = self.recorded[start] != self.recorded[end]
        _store(c_float, out, 0.5 if busy else 0.002)

    def _cuPointerGetAttribute(self, out, what, address):
        if not address or not 1 <= address >> 24 <= self.devices:  # others: host memory
            return 1
        _store(c_int, out, (address >> 24) - 1)
        return None
