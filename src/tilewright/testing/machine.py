"""Measured limits of the machine, for the axes of performance plots."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.runtime.gpu_timing import copy_milliseconds, gpu_timer
from tilewright.runtime.timing import do_bench


def get_dram_gbps(device: Any = None) -> float:
    """GB/s that a copy of large arrays reads plus writes: by the GPU where one is in use, else with
    NumPy on one thread of this CPU.

    `device` is accepted for Triton's sake; the current GPU is measured.
    """
    timer = gpu_timer()
    if timer is None:
        return _cpu_dram_gbps()
    timer.close()
    return _gpu_dram_gbps(timer.device.index)


@functools.cache
def _cpu_dram_gbps() -> float:
    source = np.ones(8 << 20, dtype=np.float64)
    target = np.zeros_like(source)
    ms = do_bench(lambda: np.copyto(target, source), warmup=0, rep=60, return_mode="min")
    return 2 * source.nbytes * 1e-6 / ms


@functools.cache
def _gpu_dram_gbps(index: int) -> float:
    size = 1 << 30
    return 2 * size * 1e-6 / copy_milliseconds(index, size)


def nvsmi(attributes: Sequence[str]) -> list[int]:
    """Values that `nvidia-smi` reports for the first GPU: `nvsmi(["clocks.max.sm"])` in MHz.

    Raises FileNotFoundError where that command is absent.
    """
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attributes)}"]
    found = subprocess.check_output([*command, "--format=csv,noheader,nounits"], text=True)
    return [int(value) for value in found.split(",")]


def get_max_tensorcore_tflops(
    dtype: Any = None, clock_rate: Any = None, device: Any = None
) -> float:
    """`get_max_simd_tflops`: a CPU has no other units, and fp32 is what NumPy multiplies fastest."""
    return get_max_simd_tflops()


@functools.cache
def get_max_simd_tflops(dtype: Any = None, clock_rate: Any = None, device: Any = None) -> float:
    """TFLOP/s of NumPy's own fp32 matrix product on this CPU, a practical upper bound.

    The arguments are accepted for Triton's sake.
    """
    n = 1024
    a = np.ones((n, n), dtype=np.float32)
    out = np.empty_like(a)
    ms = do_bench(lambda: np.matmul(a, a, out=out), warmup=0, rep=60, return_mode="min")
    return 2 * n**3 * 1e-9 / ms
