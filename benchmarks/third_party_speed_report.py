"""Tables of `third_party_speed.py`: by package, the slow kernels, the failures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

LONG_US = 100
SLOW = 0.9
GOOD = ("agrees", "nondeterministic")
Kernel = tuple[str, dict[str, Any]]
"""A case and a row."""


def kernels_of(cases: dict[str, dict[str, Any]], package: str = "") -> list[Kernel]:
    """All rows of a package."""
    return [
        (name, row)
        for name, case in sorted(cases.items())
        if name.startswith(f"{package}/") or not package
        for row in case["rows"]
    ]


def timed(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Those with a ratio whose results agree."""
    return [(name, row) for name, row in kernels if row["ratio"] and row["status"] in GOOD]


def geomean(ratios: list[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def summary(label: str, kernels: list[Kernel]) -> str:
    """A row of the first table."""
    good = timed(kernels)
    ratios = [row["ratio"] for _, row in good]
    long = [row["ratio"] for _, row in good if row["triton"]["gpu_us"] >= LONG_US]
    unspilled = [row["ratio"] for _, row in good if not row["triton"]["spills"]]
    failed = [row for _, row in kernels if is_failure(row)]
    cells = (
        label, len(ratios), len({row["kernel"].partition("#")[0] for _, row in good}),
        _number(geomean(ratios)), f"{_number(geomean(long))} ({len(long)})", _number(geomean(unspilled)),
        _number(min(ratios, default=None)), sum(r < SLOW for r in ratios), len(failed),
    )  # fmt: skip
    return _line(cells)


def is_failure(row: dict[str, Any]) -> bool:
    """Whether tilewright has failed: Triton's own failures are not counted."""
    if row["status"] in (*GOOD, "dry"):
        return bool(row["tilewright"]["error"] or row["tilewright"]["failed"])
    return not row["triton"]["error"]


def markdown(cases: dict[str, dict[str, Any]], facts: dict[str, Any]) -> str:
    """The whole page."""
    every = kernels_of(cases)
    packages = sorted({name.partition("/")[0] for name in cases})
    head = ("package", "timed", "distinct", "geomean", f"of {LONG_US} µs and more", "where Triton does not spill",
            "lowest", f"under {SLOW}", "failures")  # fmt: skip
    lines = [
        "# Third-party kernels against Triton",
        "",
        ", ".join(f"{name}: {value}" for name, value in facts.items()),
        "",
        "Ratios are Triton's time over tilewright's: L2 cold, medians of alternating rounds. An autotuned kernel is timed "
        "in the fastest of its configurations, chosen for each compiler by itself.",
        "",
        _line(head),
        _line(["---"] * len(head)),
        *(summary(package, kernels_of(cases, package)) for package in packages),
        summary("all", every),
        "",
        f"## Under {SLOW}",
        "",
        *_slow(timed(every)),
        "",
        "## Failures",
        "",
        *_failures(cases),
        "",
    ]
    return "\n".join(lines)


def _slow(kernels: list[Kernel]) -> list[str]:
    head = (
        "ratio",
        "case",
        "kernel",
        "µs",
        "registers",
        "spills",
        "shared",
        "configuration",
        "access",
    )
    rows = sorted(((row["ratio"], name, row) for name, row in kernels if row["ratio"] < SLOW), key=lambda r: r[:2])  # fmt: skip
    lines = [_line(head), _line(["---"] * len(head))]
    for ratio, name, row in rows:
        lines.append(_line((
            f"{ratio:.2f}", name, row["kernel"].rpartition(".")[2], _pair(row, "gpu_us", "{:.1f}"),
            _pair(row, "registers"), _pair(row, "spills"), _pair(row, "shared_bytes"),
            _pair(row, "configuration"), row.get("access", ""),
        )))  # fmt: skip
    return lines


def _failures(cases: dict[str, dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for name, case in sorted(cases.items()):
        if case["failure"]:
            lines.append(f"- {name}: the program: {case['failure'][:300]}".replace("\n", " "))
        for row in case["rows"]:
            ours, theirs = row["tilewright"], row["triton"]
            text = ours["error"] or "; ".join(f"{c}: {e}" for c, e in ours["failed"].items())
            if theirs["error"]:
                text = f"Triton: {theirs['error']}"
            elif row["status"] == "differs":
                text = f"error {row['error']} of {row['tolerance']}, {row['worst']}, Triton with itself {row['triton_error']}; {text}"
            if is_failure(row) or theirs["error"]:
                kernel = row["kernel"].rpartition(".")[2]
                lines.append(f"- {name}: {kernel}: {row['status']}: {text[:400]}")
    return lines or ["none"]


def _pair(row: dict[str, Any], name: str, form: str = "{}") -> str:
    """Triton's value and tilewright's."""
    values = [row[side][name] for side in ("triton", "tilewright")]
    shown = ["–" if value in (None, "") else form.format(value) for value in values]
    return shown[0] if name == "configuration" and shown[0] == shown[1] else " / ".join(shown)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(c).replace('|', '/') for c in cells)} |"
