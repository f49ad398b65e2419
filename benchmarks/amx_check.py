"""Check and time the AMX dot kernels on a machine that has AMX. Needs NumPy and llvmlite only.

    python benchmarks/amx_check.py            every kernel against float64 / int64, then its rate
    python benchmarks/amx_check.py --products whole matrix products against torch.mm as well

Exits with 1 if a result is wrong, with 2 where there is no AMX.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np

from benchmarks.dot_probe import TARGETS, CompiledDot, runs_here
from tilewright.backends.cpu.target import request_amx
from tilewright.passes.cpu.dot_plan import plan_dot

SHAPES = [(32, 32, 64), (16, 16, 64), (48, 24, 128), (28, 16, 128), (96, 160, 96), (128, 128, 32),
          (128, 128, 128), (256, 256, 256)]  # fmt: skip
AMX_TYPES = ("bf16", "f16", "i8")
SUM = {"bf16": "f32", "f16": "f32", "f32": "f32", "i8": "i32"}


def bf16_bits(x: np.ndarray) -> np.ndarray:
    """float32 → bf16 bits, to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def wide(x: np.ndarray, name: str) -> np.ndarray:
    """Elements as float64 or int64."""
    if name == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(np.int64 if name == "i8" else np.float64)


def matrix(rng: np.random.Generator, shape: tuple[int, int], name: str) -> np.ndarray:
    if name == "i8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 2, shape)
    return bf16_bits(x) if name == "bf16" else x.astype(np.float16)


def check(name: str, shape: tuple[int, int, int], special: float | None = None) -> tuple[bool, str]:
    """One kernel on random matrices; (right, one line about it)."""
    m, n, k = shape
    rng = np.random.default_rng(5)
    plan = plan_dot(m, n, k, name, name, SUM[name], TARGETS["amx"])
    if not plan.uses_amx:
        return True, f"{name:5s} {shape}: not an AMX shape ({plan.kind})"
    a, b = matrix(rng, (m, k), name), matrix(rng, (k, n), name)
    if special is not None:
        a[3, 5] = special
    acc = rng.integers(-99, 99, (m, n)).astype(np.int32 if name == "i8" else np.float32)
    result = CompiledDot(plan, TARGETS["amx"])(a, b, acc, fetch=True)
    with np.errstate(invalid="ignore"):
        exact = acc + wide(a, name) @ wide(b, name)
        size = np.abs(acc) + np.abs(wide(a, name)) @ np.abs(wide(b, name))
        if special is not None:
            right = np.allclose(result, exact, atol=1e-3, equal_nan=True)
            return right, f"{name:5s} {shape} with {special}: {'right' if right else 'WRONG'}"
    if name == "i8":
        right, error = bool((result == exact).all()), float(np.abs(result - exact).max())
    else:
        error = float((np.abs(result - exact) / size).max())
        right = error < 2e-6
    return right, f"{name:5s} {shape}: {'right' if right else 'WRONG'}, error {error:.1e}"


def rate(name: str, shape: tuple[int, int, int]) -> str:
    """Best of seven blocks, operands in cache."""
    plan = plan_dot(*shape, name, name, SUM[name], TARGETS["amx"], prefetch=False)
    dot = CompiledDot(plan, TARGETS["amx"])
    for buffer in dot.buffers:
        buffer[:] = 0
    addresses = [buffer.ctypes.data for buffer in dot.buffers]
    calls = max(4, int(4e8 / (2 * plan.m * plan.n * plan.k)))
    best = 9.0
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(calls):
            dot.function(*addresses, None, 0, None, 0)
        best = min(best, (time.perf_counter() - started) / calls)
    return f"{name:5s} {'x'.join(map(str, shape)):12s} {plan.kind:9s} {(2 * plan.m * plan.n * plan.k) / best / 1e9:7.0f} GOP/s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", action="store_true", help="whole products too (needs torch)")
    options = parser.parse_args()
    if not runs_here(TARGETS["amx"]) or not request_amx():
        print("no AMX here, or the kernel refuses it")
        return 2
    lines = [check(name, shape) for name in AMX_TYPES for shape in SHAPES]
    lines += [check("f16", (48, 32, 64), value) for value in (np.inf, -np.inf, np.nan)]
    print("\n".join(text for _, text in lines))
    print("\nrates in cache, one thread (call overhead of ctypes, about 1 us, included)")
    for name in SUM:
        for shape in [
            (128, 128, 32),
            (128, 128, 128),
            (128, 128, 256),
            (256, 256, 128),
            (256, 256, 256),
        ]:
            print(rate(name, shape), flush=True)
    if options.products:
        script = str(ROOT / "benchmarks" / "dot_microkernel.py")
        for name in ("bf16", "f16", "i8", "f32"):
            tiles = "128x128x32,128x128x128,256x256x128,256x256x256"
            command = [
                sys.executable,
                script,
                "--dtype",
                name,
                "--tiles",
                tiles,
                "--variants",
                "plain,fetch",
            ]
            subprocess.run(
                command,
                check=False,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
            )
    return 0 if all(right for right, _ in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
