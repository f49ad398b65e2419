"""What GPU code for large tiles costs: time to PTX and of ptxas, registers, spills, lines of PTX.

    python benchmarks/gpu_compile.py [--only NAME ...] [--target sm_90a] [--no-ptxas] [--disable PASS ...]

Needs no GPU. The kernels are those of `tests/large_tiles.py`. Prints a line a kernel.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for _folder in ("src", "tests"):
    sys.path.insert(0, str(ROOT / _folder))

import large_tiles  # noqa: E402

PATIENCE_SECONDS = 120.0


def measured(case: Any, target: str, patience: float, disable: str) -> str:
    """Compile one case: a line of figures."""
    from tilewright.backends.nvidia import assemble, tools

    pieces: list[str] = []
    whole = assemble.Assembler.assemble

    def noted(self: Any, ptx: str, *_: object) -> Any:
        pieces.append(ptx)
        return assemble.Assembled()

    assemble.Assembler.assemble = noted  # type: ignore[method-assign]
    try:
        start = time.perf_counter()
        case.kernel.compile(
            case.types, case.constants, target=target, num_warps=case.warps, disable=disable
        )
        seconds = time.perf_counter() - start
    finally:
        assemble.Assembler.assemble = whole  # type: ignore[method-assign]
    ptx = pieces[0]
    found = f"{case.name:38} PTX {seconds:6.2f} s {ptx.count(chr(10)):7} lines"
    ptxas = tools.find("ptxas")
    if ptxas is None or not patience:
        return found
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(ptx)
        command = [str(ptxas), "-v", f"-arch={target}", str(file), "-o", f"{folder}/kernel.cubin"]
        start = time.perf_counter()
        try:
            log = subprocess.run(
                command, capture_output=True, text=True, timeout=patience, check=True
            ).stderr
        except subprocess.TimeoutExpired:
            return f"{found}  ptxas more than {patience:.0f} s"
        took = time.perf_counter() - start
    registers = re.search(r"Used (\d+) registers", log)
    spilled = re.search(r"(\d+) bytes spill stores", log)
    return (
        f"{found}  ptxas {took:6.2f} s  {registers[1] if registers else '?':>3} registers"
        f"  {spilled[1] if spilled else '?'} B spilled"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--no-ptxas", action="store_true")
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS)
    parser.add_argument("--disable", default="")
    given = parser.parse_args()
    patience = 0.0 if given.no_ptxas else given.patience
    for case in large_tiles.CASES:
        if not given.only or any(word in case.name for word in given.only):
            print(measured(case, given.target, patience, given.disable), flush=True)


if __name__ == "__main__":
    main()
