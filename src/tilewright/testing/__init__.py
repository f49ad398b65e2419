"""Measure and check kernels: `do_bench`, `perf_report`, `Benchmark`, `assert_close`.

Names, arguments and results are those of `triton.testing`; nothing here needs torch, and pandas
only where a caller asks for a DataFrame.
"""

from tilewright.runtime.timing import do_bench
from tilewright.testing.closeness import assert_close
from tilewright.testing.machine import get_dram_gbps, get_max_simd_tflops
from tilewright.testing.perf_report import Benchmark, Mark, perf_report

__all__ = [
    "Benchmark",
    "Mark",
    "assert_close",
    "do_bench",
    "get_dram_gbps",
    "get_max_simd_tflops",
    "perf_report",
]
