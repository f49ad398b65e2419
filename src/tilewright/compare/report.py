"""A comparison for the terminal (rich), as JSON and as an HTML page."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from tilewright.compare.session import Comparison

GOOD = ("agrees", "nondeterministic")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ program }}: Triton and tilewright</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
 body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #1c2733 }
 table { border-collapse: collapse; width: 100%; white-space: nowrap; font-variant-numeric: tabular-nums } .scroll { overflow-x: auto } th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #d8dee6 }
 th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left }
 .meta { color: #5b6b7b } .bad { color: #a33 } .good { color: #17703f } details { margin: .3rem 0 }
 pre { overflow-x: auto; font-size: 12px; line-height: 1.35; margin: .2rem 0 } li { margin: .3rem 0 }
</style></head><body>
<h1><code>{{ program }}</code>: Triton and tilewright</h1>
<p class="meta">{{ machine }}. {{ summary }}</p>
{% if failure %}<p class="bad">the program: {{ failure }}</p>{% endif %}
<p>The ratio is Triton's time over tilewright's: above 1 tilewright is faster. Registers, spills, shared memory and times
are Triton's / tilewright's.</p>
<div class="scroll"><table><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row, cells in rows %}<tr>{% for cell in cells %}
<td{% if loop.index == 2 %} class="{{ 'good' if row.status in good else 'bad' }}"{% endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{% for row, _ in rows %}<details><summary><code>{{ row.kernel }}</code> <span class="meta">{{ row.file }}:{{ row.line }},
grid {{ row.grid }}, {{ row.launches }} launches</span></summary>
{% for side in ('triton', 'tilewright') %}{% if row[side].error %}<p class="bad">{{ side }}: {{ row[side].error }}</p>{% endif %}{% endfor %}
<p class="meta">{% for name, value in row.arguments.items() %}{{ name }} = {{ value }}{{ ', ' if not loop.last }}{% endfor %}</p>
<ul>{% for a in row.accesses if a.kind %}<li>{{ a.line }}:{{ a.column }} {{ a.kind }} of {{ a.type }}: <b>{{ a.forms|join(' / ') }}</b>
{{ ', %d stages' % a.stages if a.stages > 1 }}<pre>{{ a.source }}</pre>
{% for m in a.missed %}<div class="meta">no {{ m.form }}: {{ m.fact }}. {{ m.help }}</div>{% endfor %}</li>{% endfor %}</ul>
</details>{% endfor %}
</body></html>
"""
_COLUMNS: tuple[str, ...] = (
    "kernel", "results", "error", "ratio", "GPU µs", "host µs", "registers", "spills", "shared bytes", "configuration", "accesses",
)  # fmt: skip


def print_table(found: Comparison) -> None:
    """Print the table and the failures."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    columns = _shown(found)
    table = Table(title=f"{found.program} on {_machine(found)} (Triton / tilewright)")
    for name in columns:
        table.add_column(name, justify="left" if name in ("kernel", "results", "configuration", "accesses") else "right")  # fmt: skip
    for row in found.rows:
        cells = _cells(row)
        table.add_row(*(_escaped(cells[name]) for name in columns))
    console.print(table)
    for row in found.rows:
        for side in ("triton", "tilewright"):
            if row[side]["error"]:
                console.print(_escaped(f"{row['kernel']}: {side}: {row[side]['error']}"))
        if text := _failed_configurations(row):
            console.print(_escaped(f"{row['kernel']}: {text}"))
    if found.failure:
        console.print(_escaped(f"the program: {found.failure}"))
    console.print(_escaped(summary(found)))


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def json_of(found: Comparison) -> str:
    """The comparison as JSON: program, gpu, failure, summary, rows."""
    content = {
        "program": found.program,
        "gpu": found.gpu,
        "failure": found.failure,
        "summary": summary(found),
        "rows": found.rows,
    }
    return json.dumps(_finite(content), indent=1) + "\n"


def html_of(found: Comparison) -> str:
    """The comparison as one page that needs no other file."""
    import jinja2

    columns = _shown(found)
    rows: list[tuple[dict[str, Any], list[str]]] = []
    for row in found.rows:
        cells = _cells(row)
        rows.append((row, [cells[name] for name in columns]))
    page = jinja2.Environment(autoescape=True).from_string(_PAGE)
    return page.render(
        program=found.program, machine=_machine(found), summary=summary(found), rows=rows,
        failure=found.failure, columns=columns, good=GOOD,
    )  # fmt: skip


def summary(found: Comparison) -> str:
    """The number of kernels per status, and the geometric mean of the ratios."""
    counts: dict[str, int] = {}
    for row in found.rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    text = f"{len(found.rows)} kernels: " + ", ".join(f"{n} {s}" for s, n in counts.items())
    ratios = [row["ratio"] for row in found.rows if row["ratio"]]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        text += f"; geometric mean of {len(ratios)} ratios {mean:.3f}, lowest {min(ratios):.3f}"
    return text


def _machine(found: Comparison) -> str:
    return found.gpu or "the CPU (Triton's interpreter; results only)"


def _shown(found: Comparison) -> list[str]:
    """The columns for which any row has a value."""
    if found.gpu:
        return list(_COLUMNS)
    return [name for name in _COLUMNS if name in ("kernel", "results", "error", "accesses")]


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """A row's texts by column."""
    triton, ours = row["triton"], row["tilewright"]

    def both(name: str, form: str = "{}") -> str:
        values = (triton[name], ours[name])
        if all(value is None for value in values):
            return ""
        return " / ".join("-" if value is None else form.format(value) for value in values)

    ratio = f"{row['ratio']:.2f}" if row["ratio"] is not None else ""
    error = f"{row['error']:.1e}" if row["error"] is not None else ""
    values = [
        row["kernel"], row["status"], error, ratio, both("gpu_us", "{:.1f}"),
        both("host_us", "{:.1f}"), both("registers"), both("spills"), both("shared_bytes"),
        _configurations(row), _access_summary(row["accesses"]),
    ]  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def _configurations(row: dict[str, Any]) -> str:
    """The fastest configuration, or Triton's and tilewright's."""
    if row["configurations"] < 2:
        return ""
    names = [row[side]["configuration"] or "-" for side in ("triton", "tilewright")]
    return " / ".join(dict.fromkeys(names))


def _failed_configurations(row: dict[str, Any]) -> str:
    """The autotuner configurations that tilewright failed to compile or whose results differ."""
    failed: dict[str, str] = row["tilewright"]["failed"]
    if row["configurations"] < 2 or not failed:
        return ""
    first, error = next(iter(failed.items()))
    return f"{len(failed)} of {row['configurations']} configurations fail: {first}: {error}"


def _access_summary(accesses: list[dict[str, Any]]) -> str:
    """The slowest form of access and the missing fact for a better one."""
    missed = [a for a in accesses if a.get("missed")]
    if not accesses or "error" in accesses[0]:
        return ""
    if not missed:
        return "nothing missed"
    first = missed[0]
    reason = first["missed"][0]
    more = f" (+{len(missed) - 1})" if len(missed) > 1 else ""
    return f"{first['line']}: {first['forms'][0]}; {reason['code']}{more}"


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
