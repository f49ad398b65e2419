"""Measure and check kernels: `do_bench`, `perf_report`, `assert_close`, `check_passes`.

Names, arguments and results are those of `triton.testing`; nothing here needs torch, and pandas
only where a caller asks for a DataFrame.
"""

from tilewright.runtime.timing import do_bench, do_bench_cudagraph
from tilewright.testing.check_passes import Step, check_passes
from tilewright.testing.closeness import assert_close
from tilewright.testing.machine import (
    get_dram_gbps,
    get_max_simd_tflops,
    get_max_tensorcore_tflops,
    nvsmi,
)
from tilewright.testing.perf_report import Benchmark, Mark, perf_report

__all__ = [
    "Benchmark", "Mark", "Step", "assert_close", "check_passes", "do_bench", "do_bench_cudagraph",
    "get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops", "nvsmi", "perf_report",
]  # fmt: skip
