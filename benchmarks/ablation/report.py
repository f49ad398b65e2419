"""Write the tables, the figure and the IR of an ablation to files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.ablation.run import Row, Study
from tilewright.errors import LaunchError


def write_report(study: Study, folder: Path, name: str, notes: Sequence[str] = ()) -> list[Path]:
    """Write `ablation_<name>.md`, `.json` and `.png`; return the files.

    `notes` are lines for the head of the page (versions). Raises LaunchError without matplotlib, after the tables are
    written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"ablation_{name}"
    page, data, picture = (stem.with_name(stem.name + s) for s in (".md", ".json", ".png"))
    page.write_text(_page(study, stem.name, notes), encoding="utf-8")
    data.write_text(json.dumps(_facts(study, notes), indent=1) + "\n", encoding="utf-8")
    _draw(study, picture)
    return [page, data, picture]


def _page(study: Study, stem: str, notes: Sequence[str]) -> str:
    m, n, k = study.size
    first, full = study.added[0], study.added[-1]
    lines = [
        f"# What each optimisation brings: {m} x {n} x {k}, {study.dtype}, {study.machine}",
        "",
        *(f"{note}  " for note in notes),
        f"C = A · B with fp32 accumulators and results. Every result was compared with float64. {study.peer}: "
        f"{_rate(study, study.peer_milliseconds)} TFLOP/s."
        + f" The IR of every step: `{ir_command(study)}`.",
        "",
        f"![TFLOP/s]({stem}.png)",
        "",
        "## One after the other",
        "",
        *_table(study, study.added, None),
        "",
        "## Each taken out of the full set",
        "",
        *_table(study, [full, *study.removed], full),
    ]
    if study.extra:
        lines += ["", "## For comparison", "", *_table(study, study.extra, first)]
    return "\n".join(lines) + "\n"


def _rate(study: Study, milliseconds: float) -> str:
    return f"{study.flops / milliseconds * 1e-9:.3g}" if milliseconds else "-"


def _table(study: Study, rows: Sequence[Row], against: Row | None) -> list[str]:
    """`against`: the row that ratios refer to; None: the one before."""
    gpu = study.target != "cpu"
    head = ["step", "paper", "ms", "TFLOP/s", "x before" if against is None else "x"]
    head += [f"of {study.peer.split()[0] or 'peer'}", "error"]
    head += ["registers", "spilled", "shared KB"] if gpu else []
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    before = against
    for row in rows:
        if row.failure:
            lines.append(
                f"| {row.title} | {row.section} | {row.failure} |" + " |" * (len(head) - 3)
            )
            continue
        ratio = before.milliseconds / row.milliseconds if before and row.milliseconds else 1.0
        share = study.peer_milliseconds / row.milliseconds if row.milliseconds else 0.0
        cells = [row.title, row.section, f"{row.milliseconds:.4g}", f"{row.rate(study.flops):.3g}"]
        cells += [f"{ratio:.2f}", f"{share:.3f}", f"{row.error:.1e}"]
        if gpu:
            cells += [str(row.registers), str(row.spills), f"{row.shared_bytes / 1024:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
        before = row if against is None else against
    return lines


def _facts(study: Study, notes: Sequence[str]) -> dict[str, Any]:
    def facts(row: Row) -> dict[str, Any]:
        found = asdict(row)
        del found["ir"]
        found["tflops"] = row.rate(study.flops)
        return found

    tables = {
        name: [facts(r) for r in getattr(study, name)] for name in ("added", "removed", "extra")
    }
    return {
        "target": study.target, "machine": study.machine, "size": study.size, "dtype": study.dtype,
        "peer": study.peer, "peer_milliseconds": study.peer_milliseconds, "notes": list(notes),
        **tables,
    }  # fmt: skip


def ir_command(study: Study) -> str:
    """The command that writes the IR of every step of `study`."""
    size = ",".join(map(str, study.size))
    return f"python -m benchmarks.ablation --target {study.target} --size {size} --dtype {study.dtype} --ir FOLDER"


def write_ir(study: Study, folder: Path) -> list[Path]:
    """Write the last IR of each step to `folder`, replacing the .mlir files in it; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.mlir"):
        old.unlink()
    made = []
    for i, row in enumerate((*study.added, *study.extra)):
        words = re.sub(r"[^a-z0-9]+", "-", row.title.lower().partition(":")[0]).strip("-")
        path = folder / f"{i:02}-{words}.mlir"
        head = f"// {row.title}\n// {row.build}\n"
        path.write_text(head + row.ir.rstrip() + "\n", encoding="utf-8")
        made.append(path)
    return made


def _draw(study: Study, path: Path) -> None:
    """Bars of TFLOP/s, one per step, with the peer as a line (the paper's figure 3)."""
    try:
        import matplotlib
    except ImportError:
        raise LaunchError(
            f"cannot draw {path.name}: matplotlib is not installed (the tables are written)",
            help="pip install 'tilewright[report]'",
        ) from None

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = study.added
    figure, axes = pyplot.subplots(figsize=(1.5 + 0.8 * len(rows), 5.0))
    rates = [row.rate(study.flops) for row in rows]
    bars = axes.bar(range(len(rows)), rates, color="#3b6ea5")
    axes.bar_label(bars, labels=[f"{rate:.3g}" for rate in rates], fontsize=8)
    if study.peer_milliseconds:
        level = study.flops / study.peer_milliseconds * 1e-9
        axes.axhline(level, color="#b5482a", linewidth=1, label=f"{study.peer}: {level:.3g}")
        axes.legend(loc="upper left", frameon=False)
    labels = [row.title.partition(":")[0] for row in rows]
    axes.set_xticks(range(len(rows)), labels, rotation=35, ha="right", fontsize=8)
    axes.set_ylabel("TFLOP/s")
    m, n, k = study.size
    axes.set_title(f"{m} x {n} x {k}, {study.dtype}, {study.machine}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
