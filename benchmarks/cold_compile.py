"""Cold compilation for sm_90a beside Triton: kernels of packages and of Inductor, in CPU seconds. Needs no GPU.

    python benchmarks/cold_compile.py --triton FOLDER --site FOLDER … [--rounds 3] [--only REGEX] [--save]

FOLDER of `--triton` is a site-packages with Triton, those of `--site` hold fla-core, Liger-Kernel and FlagGems (without
them only Inductor's kernels are compiled). Both compilers get the same types, constants and launch options, and the same
ptxas. A round is a process of each compiler that compiles all kernels once, one after another, without caches and
after small kernels that initialize it; of each kernel the round with the least time counts. Counted is the CPU time of
the process and of its assemblers (user and system), because other work on the machine hardly changes it.
`--save` writes benchmarks/results/cold_compile.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import protocol  # noqa: E402

COMPILERS = ("triton", "tilewright")
TARGETS = {"packages": 0.7, "Inductor": 0.6}
"""Share of Triton's time that a kernel may take."""

Rows = dict[str, dict[str, dict[str, Any]]]
"""Kernel -> compiler -> what its process printed."""


def recorded(sites: list[str], sources: Path, only: str) -> dict[str, Any]:
    """Kernels of packages and of Inductor, each recorded by a process of its own."""
    found: dict[str, Any] = {}
    for folders in [sites, []] if sites else [[]]:
        out = sources / "kernels.json"
        script = str(HERE / "cold_compile_record.py")
        _run([script, str(out), str(sources), *folders], {"PYTHONPATH": str(ROOT / "src")})
        found |= json.loads(out.read_text())
    return {name: kernel for name, kernel in found.items() if re.search(only, name)}


def _run(arguments: list[str], settings: dict[str, str]) -> str:
    """The output of a Python process; what it complains about is shown only if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ | settings, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def measured(compiler: str, file: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One round of a compiler."""
    from tilewright.backends.nvidia import tools

    ptxas = str(tools.find("ptxas"))
    settings = {"PYTHONPATH": str(ROOT / "src"), "TILEWRIGHT_PTXAS": ptxas}
    if compiler == "triton":
        settings = {"PYTHONPATH": given.triton, "TRITON_PTXAS_PATH": ptxas}
    script = str(HERE / "cold_compile_worker.py")
    for line in _run([script, compiler, str(file), *given.site], settings).splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def seconds(row: dict[str, Any]) -> float:
    return row["own"] + row["ptxas"] if "own" in row else math.inf


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows: Rows) -> list[str]:
    """A line per kernel that both compile, then the means."""
    lines = [
        "| kernel | Triton ms | of it ptxas | tilewright ms | of it ptxas | tilewright / Triton |",
        "|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {group: [] for group in TARGETS}
    sums: dict[str, list[float]] = {group: [0.0, 0.0] for group in TARGETS}
    for name, pair in rows.items():
        if any(seconds(pair[compiler]) == math.inf for compiler in COMPILERS):
            continue
        both = [seconds(pair[compiler]) for compiler in COMPILERS]
        group = "Inductor" if name.startswith("inductor: ") else "packages"
        ratios[group].append(both[1] / both[0])
        sums[group] = [a + b for a, b in zip(sums[group], both, strict=True)]
        figures = [
            f"{1e3 * seconds(pair[c]):.0f} | {1e3 * pair[c]['ptxas']:.0f}" for c in COMPILERS
        ]
        lines.append(f"| {name} | {' | '.join(figures)} | {both[1] / both[0]:.2f} |")
    lines.append("")
    for group, found in ratios.items():
        if found:
            lines.append(
                f"{group}: {len(found)} kernels, geometric mean {geomean(found):.2f} (target {TARGETS[group]}), most "
                f"{max(found):.2f}, total {sums[group][1] / sums[group][0]:.2f}."
            )
    return lines


def failures(rows: Rows) -> list[str]:
    """What one of the compilers did not compile, which is not counted."""
    return [
        f"- {name}, {compiler}: {pair[compiler]['error'].splitlines()[0][:140]}"
        for name, pair in rows.items()
        for compiler in COMPILERS
        if "error" in pair[compiler]
    ]


def versions(triton: str) -> str:
    """Versions of what was measured."""
    from tilewright.backends.nvidia import tools
    from tilewright.runtime.compiler import tool_versions

    peer = sorted(
        path.name.removesuffix(".dist-info") for path in Path(triton).glob("triton-*.dist-info")
    )
    version = [str(tools.find("ptxas")), "--version"]
    told = subprocess.run(version, capture_output=True, text=True, check=True).stdout
    release = re.search(r"V([\d.]+)", told)
    named = [name.removesuffix(".dist-info") for name in tool_versions()]
    return ", ".join(
        [protocol.cpu_model(), *peer, *named, f"ptxas {release[1] if release else '?'}"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--triton", required=True, help="site-packages with Triton")
    parser.add_argument("--site", action="append", default=[], help="a folder of packages")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="kernels whose names match")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    given = parser.parse_args()
    rows: Rows = {}
    with tempfile.TemporaryDirectory() as folder:
        kernels = recorded(given.site, Path(folder), given.only)
        file = Path(folder) / "chosen.json"
        file.write_text(json.dumps(kernels))
        for _ in range(given.rounds):
            for compiler in COMPILERS:
                for row in measured(compiler, file, given):
                    pair = rows.setdefault(row.pop("kernel"), {})
                    if compiler not in pair or seconds(row) < seconds(pair[compiler]):
                        pair[compiler] = row
    lines = table(rows)
    missing = failures(rows)
    if missing:
        lines += ["", "Not compiled by one of them:", "", *missing]
    print(*lines, sep="\n")
    if given.save:
        head = (
            "# Cold compilation for sm_90a\n\nMade by `benchmarks/cold_compile.py`, which says how it is measured: CPU "
            f"milliseconds, the least of {given.rounds} rounds. {versions(given.triton)}.\n"
        )
        (protocol.RESULTS / "cold_compile.md").write_text("\n".join([head, *lines, ""]))


if __name__ == "__main__":
    main()
