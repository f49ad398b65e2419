"""Native host code: compiled once per machine, linked, shown to Python as functions."""

from __future__ import annotations

import ctypes
import itertools
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

METH_FASTCALL, METH_O = 0x80, 0x08


def common_cpython() -> bool:
    """Whether this is CPython whose objects have the common header (not the free-threaded build)."""
    return sys.implementation.name == "cpython" and "t" not in getattr(sys, "abiflags", "")


class MethodDef(ctypes.Structure):
    """CPython's PyMethodDef. Must outlive the functions created from it."""

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


def object_of(label: str, text: Callable[[], str]) -> bytes:
    """Machine code of host code for this machine, from the disk cache or compiled now (about 60 ms).

    The cache knows it by the sources of `runtime.native`, so that nothing is compiled to find it.
    """
    from llvmlite import binding

    from tilewright.runtime.cache import disk_cache

    version = ".".join(map(str, binding.llvm_version_info))
    triple = binding.get_process_triple()
    cache = disk_cache()
    key = cache.key(label, version, triple, platform.system(), *_sources())
    found = cache.load(key)
    if found is not None:
        return found["object"]
    machine = binding.Target.from_triple(triple).create_target_machine(
        opt=2, reloc="pic", codemodel="small"
    )
    code = machine.emit_object(optimized(text(), machine))
    cache.store(key, {"object": code})
    return code


def _sources() -> list[str]:
    """Host code and its compiler."""
    here = Path(__file__).parent
    files = [here / "argument_guards.py", *sorted((here.parent / "native").glob("*.py"))]
    return [file.read_text(encoding="utf-8") for file in files]


def optimized(text: str, machine: Any) -> Any:
    """A module of host code after LLVM's passes: its variables are in memory before."""
    from llvmlite import binding

    module = binding.parse_assembly(text)
    module.verify()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    builder = binding.create_pass_builder(
        machine, binding.create_pipeline_tuning_options(speed_level=1)
    )
    passes = binding.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module
