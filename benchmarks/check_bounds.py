"""What bounds checks of compiled CPU code cost: the kernels of the demo with and without.

    python benchmarks/check_bounds.py [--quick]

Prints a table: milliseconds unchecked and checked, and their ratio.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import numpy as np

from demo_cases import Case, all_cases
from tilewright.errors import OutOfBoundsError
from tilewright.testing import do_bench


def measured(case: Case, check: str, rep: int) -> float:
    """Median milliseconds of a launch."""
    os.environ["TILEWRIGHT_CHECK"] = check
    case.reset()
    case.launch()
    error = np.abs(np.asarray(case.result(), np.float64) - case.reference()).max()
    if not error <= case.tolerance * max(1.0, float(np.abs(case.reference()).max())):
        raise SystemExit(f"{case.kernel} {case.shape}: error {error}")
    return float(do_bench(case.launch, warmup=5, rep=rep, return_mode="median"))


def main() -> None:
    """Print the table."""
    quick = "--quick" in sys.argv[1:]
    print(f"{'kernel':28} {'shape':20} {'dtype':10} {'plain ms':>9} {'checked':>9} {'ratio':>6}")
    for case in all_cases(quick):
        row = f"{case.kernel:28} {case.shape:20} {case.dtype:10}"
        plain = measured(case, "", 10 if quick else 50)
        try:
            checked = measured(case, "bounds", 10 if quick else 50)
        except OutOfBoundsError as error:
            print(f"{row} {plain:9.3f}  outside: {error.message}")
            continue
        print(f"{row} {plain:9.3f} {checked:9.3f} {checked / plain:6.2f}")


if __name__ == "__main__":
    main()
