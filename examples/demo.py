"""The main job in one command (`make demo`): compile and run every kernel of the seed documents.

Each kernel runs on real inputs, is compared with a float64 reference, and is timed beside NumPy and,
where it is installed, torch on the same work. A table is printed, and `--report DIR` leaves one
self-contained HTML page with the numbers, plots, and the IR of one kernel after every pass.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


def main() -> int:
    from demo_cases import all_cases
    from demo_report import print_table, write_report

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--report", type=Path, help="folder for index.html")
    parser.add_argument("--quick", action="store_true", help="small shapes, short timings")
    options = parser.parse_args()

    rows = []
    for case in all_cases(options.quick):
        row = case.run(options.quick)
        rows.append(row)
        mark = "ok " if row.passed else "BAD"
        print(f"{mark} {row.kernel:<34} {row.shape:<26} error {row.error:.1e}", flush=True)
    print_table(rows)
    if options.report is not None:
        print(f"report: {write_report(rows, options.report)}")
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
