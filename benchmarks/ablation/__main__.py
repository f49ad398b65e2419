"""`python -m benchmarks.ablation` in a checkout: measure each optimization of a matmul."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.ablation import Study, run_study, write_ir, write_report
from tilewright.errors import LaunchError


def ablation(target: str, size: str | None, dtype: str, save: Path | None, ir: Path | None) -> None:
    """Measure each optimization of a matmul; write tables to `save` (default in a checkout: `benchmarks/results`).

    With `ir` nothing runs: the variants are compiled, and the IR of each step is written to that folder.
    """
    extents = None if size is None else _extents(size)
    if ir is not None:
        study = run_study(target, extents, dtype, only_compile=True, tell=print)
        print(f"{len(write_ir(study, ir))} files in {ir}")
        return
    here = Path("benchmarks", "results")
    folder = save or (here if here.is_dir() else Path("ablation"))

    def keep(study: Study) -> None:
        name = "cpu" if study.target == "cpu" else re.sub(r"[^a-z0-9]+", "-", study.machine.lower())
        for path in write_report(study, folder, name, _versions(study.target)):
            print(path)

    run_study(target, extents, dtype, tell=print, keep=keep)


def _extents(text: str) -> tuple[int, int, int]:
    try:
        m, n, k = [int(part) for part in text.split(",")] * (1 if "," in text else 3)
    except ValueError:
        raise LaunchError(
            f"'{text}' is not a valid size", help="write 4096 or 512,512,256"
        ) from None
    if min(m, n, k) < 1:
        raise LaunchError(f"'{text}' has an extent below 1")
    return m, n, k


def _versions(target: str) -> list[str]:
    """What a result depends on besides the code."""
    import platform
    from importlib import metadata

    from tilewright.backends import registry

    if target == "cpu":
        machine = registry.get("cpu").target()
        wide = f"{machine.cpu}, {machine.vector_bits}-bit vectors, {machine.cores} cores"
        return [f"{platform.machine()}, {wide}; llvmlite {metadata.version('llvmlite')}"]
    import torch

    from tilewright.runtime.drivers.cuda import driver

    found = driver()
    major, minor = divmod(found.version // 10, 100)
    device = found.device(found.current_device())
    try:
        triton = f", triton {metadata.version('triton')}"
    except metadata.PackageNotFoundError:
        triton = ""
    return [f"{device.name}, driver for CUDA {major}.{minor}, torch {torch.__version__}{triton}"]


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--target", default="cpu", help="cpu or cuda (with --ir any, e.g. sm_90a)")
    parser.add_argument("--size", help="of the matmul, e.g. 4096 or 512,512,256")
    parser.add_argument("--dtype", default="", help="of the operands: float16, bfloat16, float32")
    parser.add_argument("--ir", type=Path, help="compile only: write the IR of each step here")
    parser.add_argument("--save", type=Path, help="folder for the tables")
    given = parser.parse_args(arguments)
    ablation(given.target, given.size, given.dtype, given.save, given.ir)


if __name__ == "__main__":
    main()
