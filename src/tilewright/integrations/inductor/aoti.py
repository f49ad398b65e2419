"""Kernels for models whose wrapper is a C++ program. For a CPU: shared objects that AOTInductor's loads.

torch 2.13's wrapper opens two per kernel: one with the kernel, one with `run_from_nativert(grid x, y, z, threads,
arguments, kernel)`. The first is the kernel's exported C function (`runtime.export`) with all it needs, the second
unpacks the arguments: addresses of tensors, and pointers to scalars, in the order of the signature. Both are linked by
the C++ compiler that builds the wrapper.

The wrapper launches kernels of users so. Of Inductor's own kernels it passes no grid, so that those have to be C++
(`cpu_backend="cpp"`).

On a GPU the wrapper launches a cubin by `cuLaunchKernel`: with neither tensor maps nor clusters of CTAs.
"""

from __future__ import annotations

import importlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import IntegrationError
from tilewright.runtime.export import export_kernel

_OBJECTS = ("so", "launcher.so")
_LAUNCHER = """#include <cstdint>
#include <stdexcept>
extern "C" int omp_get_max_threads(void) __attribute__((weak));
extern "C" void run_from_nativert(
    uint32_t x, uint32_t y, uint32_t z, int threads, void** args, void* kernel) {{
  using Kernel = int (*)({types});
  if (threads <= 1 && omp_get_max_threads) threads = omp_get_max_threads();
  int result = reinterpret_cast<Kernel>(kernel)({values}x, y, z, threads);
  if (result != 0) throw std::runtime_error("kernel {name} failed: an assertion, or no memory");
}}
"""
#: C types of scalars by type: (as the wrapper passes them, as the kernel takes them)
_SCALARS = {
    "i1": ("bool", "bool"), "i8": ("int64_t", "int8_t"), "i16": ("int64_t", "int16_t"),
    "i32": ("int64_t", "int32_t"), "i64": ("int64_t", "int64_t"), "u8": ("int64_t", "uint8_t"),
    "u16": ("int64_t", "uint16_t"), "u32": ("int64_t", "uint32_t"), "u64": ("int64_t", "uint64_t"),
    "fp32": ("float", "float"), "fp64": ("float", "double"),
}  # fmt: skip


class _Stages(Mapping[str, Any]):
    """`asm` of a kernel."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, stage: str) -> Any:
        return self._kernel.loaded.asm[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernel.loaded.asm)

    def __len__(self) -> int:
        return len(self._kernel.loaded.asm)


class CpuStages(_Stages):
    """`asm` of a kernel for a CPU, with "so" and "launcher.so", which are made when they are asked for."""

    def __getitem__(self, stage: str) -> Any:
        if stage in _OBJECTS:
            return shared_objects(self._kernel)[_OBJECTS.index(stage)]
        return super().__getitem__(stage)


#: passes that make tensor maps and clusters
_NEED_A_LAUNCHER = "distribute-rows-over-cluster,lower-stores-to-tma,pipeline-loads{tma=false},schedule-loops,specialize-warps"


class GpuStages(_Stages):
    """`asm` of a kernel for a GPU. Raises IntegrationError for "cubin", which C++ wrappers ask for, if they cannot launch it."""

    def __getitem__(self, stage: str) -> Any:
        if stage == "cubin":
            self._check()
        return super().__getitem__(stage)

    def __contains__(self, stage: object) -> bool:
        return stage in self._kernel.loaded.asm

    def _check(self) -> None:
        plan = self._kernel.plan
        needs = {
            "tensor maps": plan.tensor_maps,
            f"clusters of {plan.cluster_size} CTAs": plan.cluster_size > 1,
            "a cooperative grid": plan.cooperative,
            "a record of failed assertions": plan.asserts or plan.checked,
        }
        if found := [name for name, needed in needs.items() if needed]:
            raise IntegrationError(
                f"kernel {self._kernel.name} is launched with {', '.join(found)}, which torch's C++ wrappers pass to no kernel",
                help=f"set TILEWRIGHT_DISABLE={_NEED_A_LAUNCHER} where models are compiled ahead of time, and num_ctas=1",
            )


def launcher_source(kernel: Any) -> str:
    """C++ of the launcher of a `kernels.CompiledKernel`. Raises IntegrationError for scalars of 16-bit floats."""
    position = {name: index for index, name in enumerate(kernel.src.signature)}
    types, values = "", ""
    for argument in kernel.plan.arguments:
        place = f"args[{position[argument.name]}]"
        if argument.kind == "pointer":
            types += "void*, "
            values += f"{place}, "
            continue
        if argument.type not in _SCALARS:
            raise IntegrationError(
                f"kernel {kernel.name}: AOTInductor passes no scalars of type {argument.type}"
            )
        passed, taken = _SCALARS[argument.type]
        types += f"{taken}, "
        values += f"static_cast<{taken}>(*static_cast<{passed}*>({place})), "
    types += "int64_t, int64_t, int64_t, int"
    return _LAUNCHER.format(types=types, values=values, name=kernel.name)


def cpp_compiler() -> str:
    """The compiler that Inductor builds wrappers with."""
    builder: Any = importlib.import_module("torch._inductor.cpp_builder")
    return str(builder.get_cpp_compiler())


def shared_objects(kernel: Any) -> tuple[bytes, bytes]:
    """The kernel and its launcher as shared objects. Raises IntegrationError if the compiler fails."""
    compiler = cpp_compiler()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        exported = export_kernel(kernel.loaded, place)
        source = place / "launcher.cpp"
        source.write_text(launcher_source(kernel))
        return (
            _linked(compiler, exported.code, place / "kernel.so"),
            _linked(compiler, source, place / "launcher.so"),
        )


def _linked(compiler: str, source: Path, result: Path) -> bytes:
    command = [
        compiler, "-shared", "-fPIC", "-O1", "-pthread", str(source), "-o", str(result), "-lm",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise IntegrationError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return result.read_bytes()
