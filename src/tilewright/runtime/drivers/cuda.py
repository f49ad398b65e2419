"""Run compiled kernels on NVIDIA GPUs through the installed driver (libcuda); no other library is needed.

Kernels live in the devices' primary contexts, which torch and cupy use as well. Code is loaded once
per device, on first use; launching is host code (`native.cuda`).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from ctypes import c_char_p, c_int, c_void_p
from dataclasses import dataclass
from typing import Any

from tilewright.backends.base import Artifact, LaunchPlan
from tilewright.errors import KernelFault, LaunchError, OutOfResources, UnsupportedTarget
from tilewright.runtime.drivers import cuda_api as api
from tilewright.runtime.drivers.cuda_api import CudaApi, CudaError
from tilewright.runtime.drivers.native_code import (
    METH_FASTCALL,
    MethodDef,
    NativeLinker,
    builtin_function,
    common_cpython,
    object_of,
)
from tilewright.runtime.native import cuda as host
from tilewright.runtime.native.python import launch_record
from tilewright.runtime.native.tensor_maps import describe
from tilewright.targets import TargetInfo

#: of CUdevice_attribute
_MULTIPROCESSORS, _L2_BYTES, _MAJOR, _MINOR, _SHARED_OPTIN = 16, 38, 75, 76, 97
_PROPERTIES = {
    "multiprocessor_count": 16, "max_shared_mem": 97, "max_num_regs": 12, "warpSize": 10,
    "sm_clock_rate": 13, "mem_clock_rate": 36, "mem_bus_width": 37,
}  # fmt: skip
#: of CUfunction_attribute
_MOST_THREADS, _LOCAL_BYTES, _REGISTERS, _DYNAMIC_SHARED, _LARGE_CLUSTER = 0, 3, 4, 8, 14
#: of CUjit_option
_INFO_LOG, _INFO_BYTES, _ERROR_LOG, _ERROR_BYTES, _VERBOSE = 3, 4, 5, 6, 12
_LOG_BYTES = 1 << 14
#: CUDA version from which launches that overlap can be captured in graphs
_EARLY_LAUNCHES = 12030
_PORTABLE_MAPPED = 1 | 2
#: of CUresult
_OUT_OF_RESOURCES, _COOPERATIVE_TOO_LARGE, _CAPTURE_IMPLICIT, _CLUSTER_TOO_LARGE = (
    701,
    720,
    906,
    912,
)
_RELAXED = 2
_FAULT_WORDS, _FAULTS = 4, 128
_TARGET = re.compile(rb"\.target sm_(\d+)")


@dataclass(frozen=True)
class Device:
    """One GPU. `context` is its primary context; `target` the compilation target."""

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    l2_bytes: int
    context: int
    target: TargetInfo


class LoadedGpuKernel:
    """A kernel on one device: its function handle and the attributes that the driver reports."""

    def __init__(
        self, name: str, device: Device, module: int, function: int, log: str, facts: Sequence[int]
    ) -> None:
        self.entry, self.device = name, device
        self.module, self.address, self.log = module, function, log
        self.n_regs, local, self.most_threads = facts
        self.n_spills = local // 4
        self.fault = 0
        """Address of the record that its failed assertions write to, once it has one."""


@functools.cache
def _native_launcher() -> tuple[Any, MethodDef, Any]:
    """Linked host code, its method definition and its state. Never freed: launch functions point into it."""
    linker = NativeLinker()
    code = object_of("CUDA launcher", _host_code)
    native = linker.link(code, "tw_cuda_launch", "tw_cuda_state")
    method = MethodDef(b"launch", native["tw_cuda_launch"], METH_FASTCALL, None)
    return (linker, native), method, host.CudaState.from_address(native["tw_cuda_state"])


def _host_code() -> str:
    from tilewright.runtime.native.compiler import llvm_ir

    return llvm_ir(host.tw_cuda_launch)


class CudaDriver:
    """The native side of the NVIDIA back end; one per process (`driver()`)."""

    def __init__(self, library: Any) -> None:
        self.api = CudaApi(library, self.fault)
        self._native: Any = None
        self._state: Any = None
        self._told = False
        """Whether an error has named the kernels where one failed."""
        try:
            self.api.cuInit(0)
            self.version = self.api.integer("cuDriverGetVersion")
            self.device_count = self.api.integer("cuDeviceGetCount")
        except CudaError as error:
            raise UnsupportedTarget(f"the NVIDIA driver does not start: {error}") from None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._devices: dict[int, Device] = {}
        self._records: dict[int, tuple[Any, str]] = {}
        self._faults: list[int] = []
        self._start_launcher()

    def _start_launcher(self) -> None:
        if not common_cpython():
            return
        self._native, self._method, self._state = _native_launcher()
        ctypes.memset(ctypes.addressof(self._state), 0, ctypes.sizeof(self._state))
        for name in host.FUNCTIONS:
            with contextlib.suppress(UnsupportedTarget):  # drivers before CUDA 12 lack some
                version = "_v2" if name in ("cuCtxPushCurrent", "cuCtxPopCurrent") else ""
                setattr(self._state, name, self.api.address(name + version))

    # ---- devices -----------------------------------------------------------------------------------

    def device(self, index: int) -> Device:
        """A GPU by its ordinal. Raises UnsupportedTarget if there is none, or none that fits."""
        found = self._devices.get(index)
        if found is None:
            with self._lock:
                found = self._devices.get(index) or self._open(index)
                self._devices[index] = found
        return found

    def _open(self, index: int) -> Device:
        from tilewright.backends.nvidia.target import of_capability

        if not 0 <= index < self.device_count:
            raise UnsupportedTarget(f"there is no GPU {index}; there are {self.device_count}")
        handle = self.api.integer("cuDeviceGet", index)
        name = ctypes.create_string_buffer(256)
        self.api.cuDeviceGetName(name, 256, handle)

        def attribute(number: int) -> int:
            return self.api.integer("cuDeviceGetAttribute", number, handle)

        capability = attribute(_MAJOR), attribute(_MINOR)
        cores = attribute(_MULTIPROCESSORS)
        target = of_capability(*capability, cores)
        try:
            context = self.api.handle("cuDevicePrimaryCtxRetain", handle)
        except CudaError as error:
            raise UnsupportedTarget(f"GPU {index} cannot be used: {error}") from None
        return Device(
            index, name.value.decode(), capability, cores, attribute(_SHARED_OPTIN),
            attribute(_L2_BYTES), context, target,
        )  # fmt: skip

    def properties(self, index: int) -> dict[str, int]:
        """Device properties for occupancy estimates, under Triton's names (clocks in kHz, bus width in bits)."""
        handle = self.api.integer("cuDeviceGet", index)
        return {
            name: self.api.integer("cuDeviceGetAttribute", number, handle)
            for name, number in _PROPERTIES.items()
        }

    def current_device(self) -> int:
        """The ordinal of the current context's device, 0 without one."""
        try:
            return self.api.integer("cuCtxGetDevice")
        except CudaError:
            return 0

    @contextlib.contextmanager
    def in_context(self, device: Device) -> Generator[None]:
        """Calls inside are about `device`, and allowed while a stream is captured."""
        mode = c_int(_RELAXED)
        self.api.cuCtxPushCurrent_v2(device.context)
        try:
            self.api.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            try:
                yield
            finally:
                self.api.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        finally:
            self.api.handle("cuCtxPopCurrent_v2")

    # ---- code --------------------------------------------------------------------------------------

    def load(self, artifact: Artifact, index: int) -> LoadedGpuKernel:
        """Load a kernel on a device; PTX is assembled by the driver.

        Raises OutOfResources where the kernel does not fit the device, UnsupportedTarget where the
        driver rejects the code.
        """
        device, plan = self.device(index), artifact.plan
        if plan.shared_bytes > device.shared_bytes:
            raise OutOfResources(plan.shared_bytes, device.shared_bytes, "shared memory")
        try:
            with self.in_context(device):
                module, log = self._load_module(artifact, device)
                entry = c_char_p(artifact.entry.encode())
                function = self.api.handle("cuModuleGetFunction", module, entry)
                facts = [
                    self.api.integer("cuFuncGetAttribute", what, function)
                    for what in (_REGISTERS, _LOCAL_BYTES, _MOST_THREADS)
                ]
                if plan.shared_bytes > api.FREE_SHARED:
                    self.api.cuFuncSetAttribute(function, _DYNAMIC_SHARED, plan.shared_bytes)
                if plan.cluster_size > api.PORTABLE_CLUSTER:
                    self.api.cuFuncSetAttribute(function, _LARGE_CLUSTER, 1)
        except CudaError as error:
            raise self._load_error(error, artifact, device) from None
        loaded = LoadedGpuKernel(artifact.entry, device, module, function, log, facts)
        if plan.threads > loaded.most_threads:
            registers = plan.threads * loaded.n_regs
            raise OutOfResources(registers, 64 << 10, f"registers of {plan.threads} threads")
        return loaded

    def _load_module(self, artifact: Artifact, device: Device) -> tuple[int, str]:
        ptx = artifact.asm.get("ptx", "").encode() + b"\0"
        made_for = _TARGET.search(ptx)
        if made_for is not None and int(made_for[1]) // 10 != device.capability[0]:
            # machine code is for chips of one generation, PTX for later ones
            return self._load_image(ptx)
        try:
            return self._load_image(artifact.object_code)
        except CudaError as error:
            # a cubin of an assembler newer than the driver: the driver makes its own
            other_form = len(ptx) > 1 and artifact.object_code != ptx
            if not other_form or error.code == api.OUT_OF_MEMORY:
                raise
            return self._load_image(ptx)

    def _load_image(self, image: bytes) -> tuple[int, str]:
        info, errors = (ctypes.create_string_buffer(_LOG_BYTES) for _ in range(2))
        options = {
            _INFO_LOG: ctypes.addressof(info), _INFO_BYTES: _LOG_BYTES,
            _ERROR_LOG: ctypes.addressof(errors), _ERROR_BYTES: _LOG_BYTES, _VERBOSE: 1,
        }  # fmt: skip
        names = (c_int * len(options))(*options)
        values = (c_void_p * len(options))(*options.values())
        try:
            module = self.api.handle(
                "cuModuleLoadDataEx", c_char_p(image), len(options), names, values
            )
        except CudaError as error:
            error.text = "\n".join(
                filter(None, (error.text, errors.value.decode(errors="replace")))
            )
            raise
        return module, info.value.decode(errors="replace")

    def _load_error(self, error: CudaError, artifact: Artifact, device: Device) -> Exception:
        if error.code == api.OUT_OF_MEMORY:
            return MemoryError(f"{artifact.entry}: GPU {device.index} has no memory left for code")
        help_text = ""
        if error.code == api.UNSUPPORTED_PTX:
            help_text = "install a newer NVIDIA driver, or one ptxas not newer than the driver"
        elif error.code == api.JIT_COMPILER_NOT_FOUND:
            help_text = "install ptxas: pip install nvidia-cuda-nvcc"
        major, minor = divmod(self.version // 10, 100)
        return UnsupportedTarget(
            f"the driver (CUDA {major}.{minor}) does not load kernel {artifact.entry} on "
            f"{device.name}: {error.name}: {error.text}",
            help=help_text,
        )

    # ---- launching ---------------------------------------------------------------------------------

    def launcher(
        self,
        kernel: LoadedGpuKernel,
        plan: LaunchPlan,
        kinds: Sequence[str],
        conditions: Sequence[int] = (),
    ) -> Callable[..., Any]:
        """`call(grid tuple, stream, *arguments)` starts the kernel and returns at once.

        `kinds` says how each argument is fetched (`native.python.KINDS`), `conditions` are the guards on it
        (default: none). The call returns None or one of `native`'s codes. If the kernel prints or has assertions,
        the call synchronizes, except during a capture, and returns (program, assert site) for a failed assertion.
        """
        memory = launch_record(host.CudaRecord, kinds, conditions)
        record = host.CudaRecord.from_buffer(memory)
        if plan.asserts and not kernel.fault:
            kernel.fault = self._fault_record(kernel.device)
        fault = record.fault = kernel.fault
        record.function, record.context = kernel.address, kernel.device.context
        record.threads, record.shared_bytes = plan.threads, plan.shared_bytes
        record.cluster = max(1, plan.cluster_size)
        overlaps = plan.programmatic_launch and not plan.cooperative
        record.early = overlaps and self.version >= _EARLY_LAUNCHES
        record.cooperative = plan.cooperative
        if plan.cooperative:
            self.api.address("cuLaunchKernelEx")  # raises where the driver has none
        record.maps = len(plan.tensor_maps)
        record.descriptions, maps = describe(plan.tensor_maps)
        address = ctypes.addressof(record)
        self._records[address] = ((record, memory, maps), kernel.entry)
        if self._native is None:
            from tilewright.runtime.drivers.cuda_portable import portable_launcher

            call = portable_launcher(self.api, record, kinds, conditions, plan.tensor_maps)
        else:
            call = builtin_function(self._method, address)
        if fault or plan.prints:
            return self._waiting(call, fault, plan.prints, kernel.device)
        return call

    def _fault_record(self, device: Device) -> int:
        """Address of a free `{i64 state, i64 program, i64 site}` in memory that all devices reach."""
        with self._lock:
            if not self._faults:
                size = 8 * _FAULT_WORDS * _FAULTS
                with self.in_context(device):
                    base = self.api.handle("cuMemHostAlloc", size, _PORTABLE_MAPPED)
                ctypes.memset(base, 0, size)
                self._faults = [base + 8 * _FAULT_WORDS * i for i in range(_FAULTS)]
            return self._faults.pop()

    def _waiting(
        self, call: Callable[..., Any], fault: int, prints: bool, device: Device
    ) -> Callable[..., Any]:
        """`call` followed by a synchronization: prints device output and returns a failed assertion."""
        record = (ctypes.c_int64 * 3).from_address(fault) if fault else [0]
        flush = ctypes.CDLL(None).fflush

        def launch(grid: Any, stream: int, *values: Any) -> Any:
            if prints:
                sys.stdout.flush()  # earlier Python output comes first
            result = call(grid, stream, *values)
            if result is None:
                with self.in_context(device):
                    if self.is_capturing(stream):
                        return None
                    code = self.api.function("cuStreamSynchronize")(stream)
                if code != api.SUCCESS:
                    return host.DRIVER_ERROR + code
            if prints:
                flush(None)
            if record[0]:
                found, record[0] = (record[1], record[2]), 0
                return found
            return result

        return launch

    def is_capturing(self, stream: int) -> bool:
        """Whether a CUDA graph captures the work submitted to the stream or by the thread."""
        state = c_int()
        code = self.api.function("cuStreamIsCapturing")(stream, ctypes.byref(state))
        return code == _CAPTURE_IMPLICIT or (code == api.SUCCESS and state.value != 0)

    # ---- errors ------------------------------------------------------------------------------------

    @property
    def launches(self) -> int:
        """Number of launches so far (0 with the portable launcher)."""
        return 0 if self._state is None else self._state.launches

    def recent_kernels(self) -> list[str]:
        """Names of the kernels launched last, the latest first."""
        if self._state is None:
            return []
        count, names = self.launches, list[str]()
        for i in range(min(count, host.RING)):
            entry = self._records.get(self._state.ring[(count - 1 - i) % host.RING])
            if entry is not None:
                names.append(entry[1])
        return names

    def fault(self, code: int, text: str) -> KernelFault:
        """The error of a kernel that failed while it ran."""
        self._told = True
        names = list(dict.fromkeys(self.recent_kernels()))
        suspects = f" (launched last: {', '.join(names)})" if names else ""
        return KernelFault(
            f"a kernel failed on the GPU: {self.api.describe(code)[0]}: {text}{suspects}",
            help="the CUDA context is lost and this process cannot use the GPU any more. "
            "CUDA_LAUNCH_BLOCKING=1 finds the launch; TILEWRIGHT_INTERPRET=1 runs the kernel with "
            "its accesses checked",
        )

    def launch_error(self, code: int, kernel: str, plan: LaunchPlan, grid: Any) -> Exception:
        """The exception for a launch that returned the CUresult `code`."""
        if code >= host.MAP_ERROR - host.DRIVER_ERROR:
            return self._map_error(code - host.MAP_ERROR + host.DRIVER_ERROR, kernel, plan)
        name, text = self.api.describe(code)
        if code in api.ASYNCHRONOUS:
            return self.fault(code, text)
        if code == api.OUT_OF_MEMORY:
            return MemoryError(f"{kernel}: the GPU has no memory left to launch it")
        if os.getpid() != self._pid:
            return UnsupportedTarget(
                f"{kernel}: {name}: CUDA cannot be used in a forked child of a process that used it",
                help='start processes with multiprocessing.set_start_method("spawn")',
            )
        if code == _OUT_OF_RESOURCES:
            return OutOfResources(plan.threads * max(plan.registers, 1), 64 << 10, "registers")
        if code == _CLUSTER_TOO_LARGE:
            return OutOfResources(
                plan.cluster_size, api.PORTABLE_CLUSTER, f"CTAs of a cluster of {kernel}",
                help="launch it with a smaller num_ctas; where it asks for none, with"
                ' disable="distribute-rows-over-cluster", which chose this number for a long row',
            )  # fmt: skip
        if code == _COOPERATIVE_TOO_LARGE:
            return LaunchError(
                f"{kernel}: the programs of grid {grid} cannot all run at the same time, as launch_cooperative_grid"
                f" asks ({plan.threads} threads, {plan.shared_bytes} bytes of shared memory, {plan.registers} "
                f"registers per thread, {plan.cluster_size} blocks a program)",
                help="launch no more programs than the multiprocessors hold together",
            )
        return LaunchError(
            f"{kernel}: the driver rejects the launch: {name}: {text} (grid {grid}, {plan.threads} "
            f"threads, {plan.shared_bytes} bytes of shared memory, {plan.cluster_size} blocks a program)"
        )

    def _map_error(self, code: int, kernel: str, plan: LaunchPlan) -> LaunchError:
        names = {plan.arguments[m.argument].name for m in plan.tensor_maps}
        return LaunchError(
            f"{kernel}: the driver rejects a tensor map of {', '.join(sorted(names))}: "
            f"{self.api.describe(code)[0]}",
            help="an address or a distance between lines or matrices is not a multiple of 16 bytes or is "
            "negative, or an extent exceeds 2^31; "
            'TILEWRIGHT_DISABLE="pipeline-loads{tma=false},lower-stores-to-tma" compiles without tensor maps',
        )

    def synchronize(self, index: int | None = None) -> None:
        """Wait for a device (the current one). Raises KernelFault if a kernel failed there."""
        device = self.device(self.current_device() if index is None else index)
        with self.in_context(device):
            self.api.cuCtxSynchronize()

    def report_at_exit(self) -> None:
        """At process exit: report a kernel failure that tilewright has not raised yet."""
        if self._told or os.getpid() != self._pid or not self.recent_kernels():
            return
        for device in self._devices.values():
            with contextlib.suppress(CudaError), self.in_context(device):
                code = self.api.function("cuStreamQuery")(None)
                if code in api.ASYNCHRONOUS:
                    error = self.fault(code, self.api.describe(code)[1])
                    print(f"tilewright: {error}", file=sys.stderr)
                    return


_driver: CudaDriver | None = None
_driver_lock = threading.Lock()


def driver() -> CudaDriver:
    """The process's driver, created on first use. Raises UnsupportedTarget without one."""
    global _driver
    if _driver is None:
        with _driver_lock:
            if _driver is None:
                _driver = CudaDriver(api.load_library())
                atexit.register(_driver.report_at_exit)
    return _driver
