"""A trace as one HTML page that needs no other file."""

from __future__ import annotations

import difflib

from tilewright.cli.stages import Trace

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ kernel }}</title><style>
 body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: #1c2733 }
 details { margin: .3rem 0; border: 1px solid #d8dee6; border-radius: 4px; padding: .3rem .8rem }
 pre { overflow-x: auto; font-size: 12px; line-height: 1.35; margin: .4rem 0 }
 .meta { color: #5b6b7b } .add { background: #e2f5e9 } .cut { background: #ffe9e6; text-decoration: none }
 pre span { display: block; min-height: 1.35em } p.off { color: #a33 }
</style></head><body>
<h1><code>{{ kernel }}</code> after every pass</h1>
<p class="meta">{{ target.name }}: {{ target.cpu }}, {{ target.vector_bits }}-bit vectors</p>
{% if types %}<p><code>{{ types }}</code></p>{% endif %}
{% if dropped %}<p class="off">left out: {{ dropped|join(', ') }}</p>{% endif %}
{% if failure %}<pre class="cut">{{ failure }}</pre>{% endif %}
<p>Green lines are new, red lines went. Passes that changed nothing are marked.</p>
{% for stage, lines in stages %}{% if stage.changed %}<details{{ ' open' if loop.first else '' }}><summary>
<b>{{ stage.name }}</b> <span class="meta">{{ '%.2f' % stage.milliseconds }} ms,
{{ stage.operations }} operations</span></summary>
<pre>{% for mark, line in lines %}<span class="{{ mark }}">{{ line }}</span>{% endfor %}</pre></details>
{% else %}<p class="meta"><b>{{ stage.name }}</b> {{ '%.2f' % stage.milliseconds }} ms, unchanged</p>{% endif %}
{% endfor %}</body></html>
"""


def page_of(result: Trace) -> str:
    """All stages of `result`, changes marked against the stage before."""
    import jinja2

    stages, before = [], None
    for stage in result.stages:
        stages.append((stage, _lines(before, stage.text) if stage.changed else []))
        before = stage.text
    return (
        jinja2.Environment(autoescape=True)
        .from_string(_PAGE)
        .render(
            kernel=result.kernel, stages=stages, target=result.target, dropped=result.dropped,
            types=result.signature.line(), failure=result.failure and str(result.failure),
        )
    )  # fmt: skip


def _lines(before: str | None, after: str) -> list[tuple[str, str]]:
    """The lines of `after` with CSS class "" or "add", and those that went as "cut"."""
    new = after.rstrip("\n").split("\n")
    if before is None:
        return [("", line) for line in new]
    marks = {" ": "", "+": "add", "-": "cut"}
    different = difflib.ndiff(before.rstrip("\n").split("\n"), new, linejunk=None, charjunk=None)
    return [(marks[line[0]], line[2:]) for line in different if line[0] in marks]
