"""The demo's table on the terminal and its HTML page."""

from __future__ import annotations

import base64
import io
import platform
from pathlib import Path
from typing import Any

import jinja2

from demo_cases import Row

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tilewright demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
 body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; color: #1c2733; padding: 0 1rem }
 table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; white-space: nowrap }
 .scroll { overflow-x: auto } .split { display: grid; grid-template-columns: minmax(20rem, 2fr) minmax(0, 3fr); gap: 1rem }
 .split > * { min-width: 0 } @media (max-width: 60rem) { .split { display: block } body { margin: .5rem auto } }
 th, td { padding: .3rem .6rem; border-bottom: 1px solid #d8dee6; text-align: right }
 th:first-child, td:first-child, td.left { text-align: left }
 tr.bad td { background: #ffe9e6 } .fast { color: #0a7a3d } .slow { color: #a33 }
 figure { display: inline-block; margin: 1rem 1rem 0 0; vertical-align: top } img { max-width: 100% }
 details { margin: .3rem 0; border: 1px solid #d8dee6; border-radius: 4px; padding: .3rem .8rem }
 pre { overflow-x: auto; font-size: 12px; line-height: 1.35 } .meta { color: #5b6b7b }
</style></head><body>
<h1>tilewright demo</h1>
<p>tilewright compiles kernels written in the Triton language, a Python dialect for GPU programming, to native code. This page was
written by <code>make demo</code>: it ran every kernel in <code>examples/seeds</code> on this machine's CPU, checked the results and timed them.</p>
<p class="meta">{{ machine }}</p>
<nav aria-label="contents"><a href="#results">Results</a> · <a href="#plots">Plots</a> · <a href="#passes">One kernel after every pass</a></nav>
<h2 id="results">Results</h2>
<p>Every kernel is compared with a float64 reference; the error is the largest difference over the
largest magnitude. The ratio is the time of {{ peer }} over ours: above 1 is faster.</p>
<div class="scroll"><table><tr><th>kernel</th><th>shape</th><th>dtype</th><th>error</th><th>ours, ms</th><th>rate</th>
<th>NumPy, ms</th><th>torch, ms</th><th>ratio</th><th>configuration</th></tr>
{% for r in rows %}<tr class="{{ '' if r.passed else 'bad' }}"><td>{{ r.kernel }}</td><td>{{ r.shape }}</td><td>{{ r.dtype }}</td>
<td>{{ '%.1e' % r.error }}</td><td>{{ '%.3f' % r.ours_ms }}</td><td>{{ '%.1f' % r.rate }} {{ r.unit }}</td>
<td>{{ '%.3f' % r.numpy_ms if r.numpy_ms else '–' }}</td><td>{{ '%.3f' % r.torch_ms if r.torch_ms else '–' }}</td>
<td class="{{ 'fast' if r.ratio and r.ratio >= 1 else 'slow' }}">{{ '%.2f' % r.ratio if r.ratio else '–' }}</td><td class="left meta">{{ r.note }}</td></tr>
{% endfor %}</table></div>
<h2 id="plots">Plots</h2>
{% for title, data in plots %}<figure><figcaption>{{ title }}</figcaption>
<img alt="{{ title }}" src="data:image/png;base64,{{ data }}"></figure>{% endfor %}
<h2 id="passes">One kernel after every pass: <code>{{ kernel }}</code></h2>
<p>The pipeline is a list of named passes; passes that changed nothing are marked. <code>tilewright show FILE.py:KERNEL --html page.html</code>
writes such a page for any kernel, with each line of IR linked to its line of source.</p>
<div class="split"><div><b>source</b><pre>{{ source }}</pre></div><div>
{% for stage in stages %}<details><summary><b>{{ stage.name }}</b>
<span class="meta">{{ '%.1f' % stage.milliseconds }} ms{{ '' if stage.changed else ' (unchanged)' }}</span></summary>
{% if stage.changed %}<pre>{{ stage.text }}</pre>{% endif %}</details>{% endfor %}
</div></div></body></html>
"""


def machine_text() -> str:
    """CPU, threads and versions, for the head of a report."""
    import numpy

    import tilewright
    from tilewright.backends.cpu.target import current_target

    target = current_target()
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return (
        f"{model}, {target.cores} threads, {target.vector_bits}-bit vectors"
        f"{', AMX' if target.has('amx-tile') else ''}; Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}, tilewright {tilewright.__version__}"
    )


def print_table(rows: list[Row]) -> None:
    """The rows on the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=machine_text(), title_justify="left")
    for name in ("kernel", "shape", "dtype"):
        table.add_column(name)
    for name in ("error", "ours ms", "rate", "NumPy ms", "torch ms", "ratio"):
        table.add_column(name, justify="right")
    for r in rows:
        table.add_row(
            r.kernel, r.shape, r.dtype, f"{r.error:.1e}{'' if r.passed else ' BAD'}",
            f"{r.ours_ms:.3f}", f"{r.rate:.1f} {r.unit}",
            f"{r.numpy_ms:.3f}" if r.numpy_ms else "-", f"{r.torch_ms:.3f}" if r.torch_ms else "-",
            f"{r.ratio:.2f}" if r.ratio else "-",
        )  # fmt: skip
    Console(width=150).print(table)


def _plot(rows: list[Row], title: str, unit: str) -> tuple[str, str]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 0.42 * len(rows) + 1.2))
    labels = [f"{r.kernel}\n{r.shape} {r.dtype}" for r in rows]
    place = range(len(rows))
    axes.barh(
        [p + 0.2 for p in place], [r.rate for r in rows], 0.38, label="tilewright", color="#2a6fbb"
    )
    peers = [r.rate * r.ours_ms / (r.torch_ms or r.numpy_ms or float("inf")) for r in rows]
    axes.barh([p - 0.2 for p in place], peers, 0.38, label="peer", color="#c9a227")
    axes.set_yticks(list(place), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.legend(fontsize=8)
    figure.tight_layout()
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    plt.close(figure)
    return title, base64.b64encode(data.getvalue()).decode()


def kernel_stages() -> tuple[str, str, list[Any]]:
    """The online softmax: its name, its source, and its IR after every pass of the CPU pipeline."""
    import seeds_loader
    from tilewright.cli.stages import stages_of

    program = seeds_loader.load("softmax", stand_in=True)
    kernel = program.kernel_softmax_fuse
    signature = {
        "x_ptr": "*fp32", "x_row_stride": "i32", "y_ptr": "*fp32", "y_row_stride": "i32",
        "n_cols": "i32", "BLOCK_SIZE": 1024,
    }  # fmt: skip
    return "kernel_softmax_fuse", kernel.src, stages_of(kernel, signature)


def write_report(rows: list[Row], folder: Path) -> Path:
    """Write `index.html`, which needs no other file, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = []
    for unit, title in (("GB/s", "Memory-bound kernels"), ("GFLOP/s", "Matmuls")):
        chosen = [r for r in rows if r.unit == unit]
        if chosen:
            plots.append(_plot(chosen, title, unit))
    kernel, source, stages = kernel_stages()
    page = jinja2.Environment(autoescape=True).from_string(_PAGE).render(
        rows=rows, plots=plots, kernel=kernel, source=source, stages=stages, machine=machine_text(),
        peer="torch" if any(r.torch_ms for r in rows) else "NumPy",
    )  # fmt: skip
    path = folder / "index.html"
    path.write_text(page, encoding="utf-8")
    return path
