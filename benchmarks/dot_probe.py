"""Compile a single micro-kernel, run it on NumPy matrices and inspect its assembly.

Used by tests and benchmarks of the micro-kernels, not by the compiler.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir

from tilewright.backends.cpu.lower.dot import DOT_TYPE, emit_dot
from tilewright.passes.cpu.dot_plan import BufferLayout, DotPlan
from tilewright.targets import TargetInfo

#: NumPy types of buffer elements; bf16 as its bits
NUMPY: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip

_LINUX = "x86_64-unknown-linux-gnu"
_V4 = ("sse2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq")

#: feature levels for which kernels are inspected, independent of the host
TARGETS: dict[str, TargetInfo] = {
    "sse2": TargetInfo("cpu", _LINUX, "x86-64", ("sse2",), 128, 16),
    "avx2": TargetInfo("cpu", _LINUX, "x86-64-v3", ("sse2", "avx", "avx2", "fma", "f16c"), 256, 16),
    "avx512": TargetInfo("cpu", _LINUX, "x86-64-v4", _V4, 512, 32),
    "avx512vnni": TargetInfo("cpu", _LINUX, "x86-64-v4", (*_V4, "avx512vnni"), 512, 32),
    "avx512bf16": TargetInfo(
        "cpu", _LINUX, "znver4", (*_V4, "avx512vnni", "avx512bf16", "clzero"), 512, 32
    ),
    "amx": TargetInfo(
        "cpu", _LINUX, "sapphirerapids",
        (*_V4, "avx512vnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-bf16", "amx-int8"), 512, 32,
    ),
    "neon": TargetInfo("cpu", "aarch64-unknown-linux-gnu", "neoverse-n1", ("neon",), 128, 32),
}  # fmt: skip


def initialize() -> None:
    """Register LLVM's targets (idempotent)."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def runs_here(target: TargetInfo) -> bool:
    """Return whether the host has all features of an x86-64 target."""
    import platform

    if platform.machine() not in ("x86_64", "AMD64") or not target.triple.startswith("x86_64"):
        return False
    host = llvm.get_host_cpu_features()
    return all(host.get(feature, False) for feature in target.features)


def machine(target: TargetInfo) -> llvm.TargetMachine:
    initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=",".join(f"+{f}" for f in target.features), opt=3, jit=True
    )


def dot_module(plan: DotPlan, target: TargetInfo) -> str:
    """LLVM text of a module whose `run` calls the dot function of `plan`."""
    module = ir.Module("dot")
    module.triple = target.triple
    module.data_layout = str(machine(target).target_data)
    wrapper = ir.Function(module, DOT_TYPE, "run")
    b = ir.IRBuilder(wrapper.append_basic_block())
    b.call(emit_dot(module, plan, target), wrapper.args)
    b.ret_void()
    return str(module)


def assembly(plan: DotPlan, target: TargetInfo) -> str:
    """Assembly text of the dot function."""
    code = machine(target)
    module = llvm.parse_assembly(dot_module(plan, target))
    module.verify()
    return code.emit_assembly(module)


def vector_spills(asm: str) -> int:
    """Count the vector spills and reloads in x86-64 or AArch64 assembly."""
    lines = asm.splitlines()
    x86 = [n for n in lines if "(%rsp)" in n and re.search(r"%[xyz]mm|\bv?mov[aud]", n)]
    arm = [n for n in lines if re.search(r"\b(str|ldr|stp|ldp)\s+q\d+.*\[sp", n)]
    return sum("mm" in n for n in x86) + len(arm)


def aligned(count: int, dtype: Any) -> np.ndarray:
    """Allocate `count` cache-line-aligned elements with all bits set (NaN in every floating-point type)."""
    size = np.dtype(dtype).itemsize
    raw = np.full(count * size + 64, 0xFF, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * size].view(dtype)


def positions(layout: BufferLayout) -> np.ndarray:
    """Return `offset(i, j)` of all elements as an int64 [rows, columns] array."""
    i, j = np.meshgrid(np.arange(layout.rows), np.arange(layout.columns), indexing="ij")
    if layout.kind == "row":
        return i * layout.width + j
    line = j // layout.width * layout.rows + i // layout.group * layout.group
    return line * layout.width + j % layout.width * layout.group + i % layout.group


class CompiledDot:
    """A dot function of one plan, ready to run on matrices.

    Args:
        rewrite: changes the LLVM text before it is compiled (tests put emulations in place of
            instructions that the machine lacks).
    """

    def __init__(
        self, plan: DotPlan, target: TargetInfo, rewrite: Callable[[str], str] | None = None
    ) -> None:
        self.plan = plan
        text = dot_module(plan, target)
        module = llvm.parse_assembly(rewrite(text) if rewrite else text)
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine(target))
        self._engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7)
        #: the native function; takes addresses
        self.function = kind(self._engine.get_function_address("run"))
        self.buffers = [
            aligned(layout.size, NUMPY[name])
            for layout, name in (
                (plan.a_layout, plan.a_type),
                (plan.b_layout, plan.b_type),
                (plan.acc_layout, plan.acc_type),
            )
        ]

    def run(self, next_a: np.ndarray | None = None, next_b: np.ndarray | None = None) -> None:
        """Call the function on the current buffers; it prefetches the given arrays."""
        extra: list[int | None] = []
        for array in (next_a, next_b):
            extra += [None, 0] if array is None else [array.ctypes.data, array.strides[0]]
        self.function(*(x.ctypes.data for x in self.buffers), *extra)

    def __call__(
        self, a: np.ndarray, b: np.ndarray, acc: np.ndarray, fetch: bool = False
    ) -> np.ndarray:
        """`acc + a @ b` for matrices of the buffers' types."""
        plan = self.plan
        layouts = (plan.a_layout, plan.b_layout, plan.acc_layout)
        for buffer, layout, matrix in zip(self.buffers, layouts, (a, b, acc), strict=True):
            buffer.view(np.uint8)[:] = 0xFF
            buffer[positions(layout)] = matrix
        self.run(a, b) if fetch else self.run()
        return self.buffers[2][positions(plan.acc_layout)].copy()
