"""Native helpers written as LLVM IR: compiled once a machine, linked, shown to Python as functions."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

METH_FASTCALL, METH_O = 0x80, 0x08


def common_cpython() -> bool:
    """Whether this is CPython whose objects have the common header (not the free-threaded build)."""
    return sys.implementation.name == "cpython" and "t" not in getattr(sys, "abiflags", "")


class MethodDef(ctypes.Structure):
    """CPython's PyMethodDef. Keep it alive as long as a function made of it."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def builtin_function(method: MethodDef, owner: Any) -> Callable[..., Any]:
    """A Python function that calls native code; `owner` is its `self`."""
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new(ctypes.addressof(method), owner, None)


_compilers: list[Any] = []


def jit_compiler() -> Any:
    """A new LLJIT of llvmlite, kept until the process ends.

    It has to outlive what was linked with it, and the garbage collector, which may find both dead at
    once, gives no order: a tracker that goes second touches freed memory.
    """
    from llvmlite import binding

    compiler = binding.create_lljit_compiler()
    _compilers.append(compiler)
    return compiler


class NativeLinker:
    """Links object code into the process, from any thread."""

    def __init__(self) -> None:
        from llvmlite import binding

        self._binding = binding
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        binding.initialize_native_asmparser()  # for the launcher's own
        self._jit = jit_compiler()
        self._names = itertools.count()
        self._lock = threading.Lock()

    def link(self, object_code: bytes, *symbols: str) -> Any:
        """A tracker: `tracker[symbol]` is an address; keep it as long as the code may run.

        Raises RuntimeError where the code does not link.
        """
        library = self._binding.JITLibraryBuilder().add_object_img(object_code)
        library.add_current_process()
        for symbol in symbols:
            library.export_symbol(symbol)
        with self._lock:
            return library.link(self._jit, f"tilewright.{next(self._names)}")

    def after_fork(self) -> None:
        """In a forked child: no thread of the parent holds the lock any more."""
        self._lock = threading.Lock()


def object_of(text: str, label: str) -> bytes:
    """Machine code of a module for this machine, from the disk cache or compiled now (about 15 ms)."""
    from llvmlite import binding

    from tilewright.runtime.cache import disk_cache

    version = ".".join(map(str, binding.llvm_version_info))
    cache = disk_cache()
    key = cache.key(label, version, binding.get_process_triple(), text)
    found = cache.load(key)
    if found is not None:
        return found["object"]
    module = binding.parse_assembly(text)
    module.verify()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        opt=2, reloc="pic", codemodel="small"
    )
    code = machine.emit_object(module)
    cache.store(key, {"object": code})
    return code
