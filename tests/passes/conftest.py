"""Collects the FileCheck cases in `*.mlir` beside the Python tests."""

from pathlib import Path

from tests import filecheck

from tilewright.backends.base import TargetInfo
from tilewright.backends.nvidia.target import target_info

#: a made-up machine, so that the expected IR is the same everywhere
AVX512 = TargetInfo(
    name="cpu", triple="x86_64-unknown-linux-gnu", cpu="skylake-avx512",
    features=("avx2", "avx512f", "fma"), vector_bits=512, vector_registers=32,
)  # fmt: skip


def pytest_collect_file(file_path: Path, parent):
    gpu = file_path.parent.name == "gpu"
    return filecheck.collect(file_path, parent, target_info("sm_90a") if gpu else AVX512)
