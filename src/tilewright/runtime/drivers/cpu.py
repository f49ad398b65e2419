"""Run compiled kernels on the CPU: load object code, build launchers, manage threads.

Threads: when libgomp is in the process (torch brings it) kernels run on its threads, because two
pools that spin after work compete for cores; otherwise they run on tilewright's pool
(`native.pool`). A forked child has neither and starts a new pool on first use.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import config
from tilewright.backends.base import Artifact, LaunchPlan
from tilewright.errors import UnsupportedTarget
from tilewright.runtime.drivers.kernels import LoadedKernel, cores, load_with, thresholds
from tilewright.runtime.drivers.native_code import (
    METH_FASTCALL,
    METH_O,
    MethodDef,
    NativeLinker,
    builtin_function,
    common_cpython,
    object_of,
)
from tilewright.runtime.drivers.signals import HANDLERS, Signals, supported
from tilewright.runtime.native.python import launch_record
from tilewright.runtime.native.records import FUTEXES, Record, State

#: how long a thread spins before it sleeps
SPIN_NS = 20_000


class CpuDriver:
    """The native side of the CPU back end; one per process (`driver()`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._linker = NativeLinker()
        _allow_amx()
        code = object_of("native launcher", _host_code)
        stoppable = (
            config.current().signals
            and supported(platform.machine(), platform.system())
            and hasattr(ctypes.CDLL(None), "pthread_sigqueue")  # glibc
        )
        exports = (*_EXPORTS, *{*HANDLERS.values(), "tw_thread_ends"}) if stoppable else _EXPORTS
        self._native = self._linker.link(code, "tw_launch", *exports)
        self._state = State.from_address(self._native["tw_state"])
        self._methods = {
            "tw_launch": MethodDef(b"launch", self._native["tw_launch"], METH_FASTCALL, None),
            "tw_array_address": MethodDef(
                b"array_address", self._native["tw_array_address"], METH_O, None
            ),
        }
        self._pool: Any = None
        self._pool_threads = 0
        self._forked = False
        self._make_scratch_key()
        self.signals: Signals | None = None
        """Signal handlers that interrupt kernels and report their faults, if supported."""
        if stoppable:
            # handlers may run until the process ends
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._native))
            self.signals = Signals(self._state, {name: self._native[name] for name in exports})
        self._state.spin_turns = self._spin_turns()
        self.array_address = self._function("tw_array_address", 0)
        self.refresh_threads()
        with contextlib.suppress(AttributeError):  # systems without fork
            os.register_at_fork(after_in_child=self._after_fork)

    # ---- code ------------------------------------------------------------------------------------

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Link a kernel's object code into the process."""
        return load_with(self._linker, artifact)

    def launcher(
        self,
        kernel: LoadedKernel,
        plan: LaunchPlan,
        kinds: Sequence[str],
        conditions: Sequence[int] = (),
    ) -> tuple[Callable[..., Any], Any]:
        """`(call, keep)`: `call(grid tuple, *arguments)` runs the kernel; `keep` must outlive `call`.

        `kinds` says how each argument is fetched (`native.python.KINDS`), `conditions` are the guards on it
        (default: none). The call returns None, a tuple (program, assert site) after a failed assertion, or one of
        `native.python`'s codes.
        """
        memory = launch_record(Record, kinds, conditions)
        record = Record.from_buffer(memory)
        record.kernel, record.scratch_bytes = kernel.address, plan.scratch_bytes
        label = ctypes.create_string_buffer(kernel.label.encode())
        record.label = ctypes.addressof(label)
        record.inline_programs, record.programs_per_thread, record.programs_under_gil = thresholds(
            plan
        )
        call = self._function("tw_launch", ctypes.addressof(record))
        return call, (record, memory, label, kernel)

    def _function(self, symbol: str, owner: Any) -> Callable[..., Any]:
        return builtin_function(self._methods[symbol], owner)

    # ---- threads ---------------------------------------------------------------------------------

    def _make_scratch_key(self) -> None:
        libc = ctypes.CDLL(None)
        key = ctypes.c_uint32()
        free = ctypes.cast(libc.free, ctypes.c_void_p)
        if libc.pthread_key_create(ctypes.byref(key), free) != 0:
            raise UnsupportedTarget("no thread-specific storage is left in this process")
        self._state.scratch_key = key.value

    def _spin_turns(self) -> int:
        """Iterations of the native spin loop per `SPIN_NS`."""
        spin = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(self._native["tw_spin"])
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter_ns()
            spin(200)
            best = min(best, time.perf_counter_ns() - start)
        return max(20, int(SPIN_NS * 200 / max(best, 1)))

    def refresh_threads(self) -> None:
        """Choose threads for the settings as they are now: called before a kernel is first loaded."""
        with self._lock:
            self._choose_threads()

    def _choose_threads(self) -> None:
        limit = config.current().num_threads or cores()
        if not self._state.gomp_parallel and not self._forked:
            self._borrow_gomp()
        if self._state.gomp_parallel:
            chosen = config.current().num_threads
            self._state.thread_limit = chosen or 1 << 30
            return
        if limit > 1 and self._pool_threads < limit:
            self._start_pool(limit)
        self._state.thread_limit = min(limit, self._pool_threads or 1)

    def _start_pool(self, threads: int) -> None:
        # A smaller pool from before sleeps on; its memory stays, for its threads look at it.
        memory = ctypes.create_string_buffer(256 + 64 * (threads + 2))
        base = (ctypes.addressof(memory) + 63) & ~63
        _immortal.append(memory)
        start = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(
            self._native["tw_pool_start"]
        )
        self._pool = memory
        self._pool_threads = 1 + start(base, threads - 1)
        self._state.pool = base

    def _borrow_gomp(self) -> None:
        path = _mapped_gomp()
        if path is None:
            return
        try:
            gomp = ctypes.CDLL(path)
            functions = [ctypes.cast(getattr(gomp, name), ctypes.c_void_p).value for name in _GOMP]
        except (OSError, AttributeError):
            return
        state = self._state
        _, state.gomp_thread_number, state.gomp_threads, state.gomp_max_threads = functions
        state.gomp_parallel = functions[0]

    def _after_fork(self) -> None:
        """In a forked child no thread of the parent exists, and libgomp would wait for them."""
        self._forked = True
        self._state.gomp_parallel = None
        self._state.thread_limit = 1
        self._state.pool = None
        self._pool, self._pool_threads = None, 0
        self._lock = threading.Lock()
        self._linker.after_fork()
        if self.signals is not None:
            self.signals.after_fork()

    @property
    def threads(self) -> int:
        """Number of threads of a large launch."""
        if self._state.gomp_parallel:
            most = ctypes.CFUNCTYPE(ctypes.c_int)(self._state.gomp_max_threads)()
            return min(most, self._state.thread_limit)
        return self._state.thread_limit

    @property
    def pool_kind(self) -> str:
        """The thread pool in use: "libgomp", "own" or "none"."""
        if self._state.gomp_parallel:
            return "libgomp"
        return "own" if self._pool_threads > 1 else "none"


_EXPORTS = ("tw_state", "tw_spin", "tw_array_address", "tw_pool_start")
_GOMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads")
_immortal: list[Any] = []


def _host_code() -> str:
    """LLVM IR of the launcher for this machine."""
    from tilewright.runtime.native import cpu, pool, signals
    from tilewright.runtime.native.compiler import llvm_ir

    machine = platform.machine()
    roots = (cpu.tw_launch, cpu.tw_array_address, cpu.tw_spin, pool.tw_pool_start)
    handlers = (
        signals.tw_on_interrupt, signals.tw_on_urgent, signals.tw_on_fault, signals.tw_thread_ends,
    )  # fmt: skip
    stoppable = supported(machine, platform.system())
    return llvm_ir(
        *roots,
        *(handlers if stoppable else ()),
        machine=machine,
        instead={} if stoppable else signals.WITHOUT,
        constants={"FUTEX": FUTEXES[machine.lower()]},
    )


def _mapped_gomp() -> str | None:
    """Path of the libgomp that something loaded into this process, if any."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if "libgomp" in path.rpartition("/")[2] and ".so" in path:
                    return "/" + path
    except OSError:
        pass
    return None


def _allow_amx() -> None:
    """Ask Linux for AMX tile registers; a CPU or kernel without them refuses, which is fine."""
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        arch_prctl, request_permission, tile_data = 158, 0x1023, 18
        ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)


def _has_native_launcher() -> bool:
    """Whether native host code is supported: requires futexes and CPython's standard object header."""
    return (
        common_cpython() and platform.system() == "Linux" and platform.machine().lower() in FUTEXES
    )


_driver: Any = None
_driver_lock = threading.Lock()


def driver() -> Any:
    """The process's driver, created on first use: a `CpuDriver`, or a `PortableDriver` on
    systems without futexes."""
    global _driver
    if _driver is None:
        with _driver_lock:
            if _driver is None:
                if _has_native_launcher():
                    _driver = CpuDriver()
                else:
                    from tilewright.runtime.drivers.portable import PortableDriver

                    _driver = PortableDriver()
    return _driver
