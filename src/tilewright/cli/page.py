"""Render a trace as a self-contained HTML page: the kernel's source next to the IR after every pass."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from tilewright.cli.stages import FRONT_END, Trace
from tilewright.passes.show import Snapshot

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ kernel }}: IR after every pass</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
 body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 110rem; padding: 0 1rem; color: #1c2733 }
 main { display: grid; grid-template-columns: minmax(20rem, 2fr) minmax(0, 5fr); gap: 1rem; align-items: start }
 aside { position: sticky; top: .5rem; max-height: 97vh; overflow: auto }
 details { margin: .3rem 0; border: 1px solid #d8dee6; border-radius: 4px; padding: .3rem .8rem }
 pre { overflow-x: auto; font-size: 12px; line-height: 1.35; margin: .4rem 0 }
 .meta { color: #5b6b7b } .add { background: #e2f5e9 } .cut { background: #ffe9e6; text-decoration: none }
 pre span.line { display: block; min-height: 1.35em; width: max-content; min-width: 100% } p.off { color: #a33 }
 .on { background: #fff3bf } [data-l] { cursor: pointer } nav { overflow-x: auto; white-space: nowrap }
 .op { color: #0b5ea8 } .type { color: #7a4a00 } .num { color: #8a8f98; user-select: none }
 @media (max-width: 60rem) { main { display: block } aside { position: static; max-height: none } body { margin: .5rem auto; padding: 0 .5rem } }
</style></head><body>
<h1><code>{{ kernel }}</code> after every pass</h1>
<p>tilewright compiles this kernel by a list of named passes. Below is its intermediate representation (IR) after each pass that changed
it: green lines are new, red lines are gone. Point at a line to mark what it comes from or became; click to go there.</p>
<p class="meta">{{ target.name }}: {{ target.cpu }}, {{ target.vector_bits }}-bit vectors</p>
{% if types %}<pre>{{ types }}</pre>{% endif %}
{% if dropped %}<p class="off">disabled: {{ dropped|join(', ') }}</p>{% endif %}
{% if failure %}<pre class="cut">{{ failure }}</pre>{% endif %}
<nav aria-label="contents">{% for s in stages %}{% if s.changed %}<a href="#{{ s.name|replace(':', '-') }}">{{ s.name }}</a>
{{ '' if loop.last else '→' }} {% endif %}{% endfor %}</nav>
<main><aside>{% if source %}<b>source</b><pre>{% for number, line in source %}<span class="line" data-l="{{ number }}"
><span class="num">{{ '%4d' % number }}  </span>{{ line }}</span>{% endfor %}</pre>{% endif %}</aside><div>
{% for s in stages %}{% if s.changed %}<details id="{{ s.name|replace(':', '-') }}"{{ ' open' if s.open else '' }}><summary>
<b>{{ s.name }}</b> <span class="meta">{{ '%.2f' % s.milliseconds }} ms, {{ s.operations }} operations</span></summary>
<pre>{% for line in s.lines %}<span class="line {{ line.mark }}"{% if line.source %} data-l="{{ line.source }}"{% endif %}>{% for kind, text in line.parts
%}{% if kind %}<span class="{{ kind }}">{{ text }}</span>{% else %}{{ text }}{% endif %}{% endfor %}</span>{% endfor %}</pre></details>
{% else %}<p class="meta"><b>{{ s.name }}</b> {{ '%.2f' % s.milliseconds }} ms, unchanged</p>{% endif %}
{% endfor %}</div></main><script>
 const same = n => document.querySelectorAll(`[data-l="${n}"]`);
 const mark = on => e => { const l = e.target.closest("[data-l]"); if (l) same(l.dataset.l).forEach(x => x.classList.toggle("on", on)) };
 addEventListener("mouseover", mark(true)); addEventListener("mouseout", mark(false));
 addEventListener("click", e => { const l = e.target.closest("[data-l]"); if (!l) return;
  const inside = l.closest("aside"), other = [...same(l.dataset.l)].find(x => !!x.closest("aside") !== !!inside && (!x.closest("details") || x.closest("details").open));
  if (other) other.scrollIntoView({ block: "center" }) });
 const show = () => { const d = document.getElementById(location.hash.slice(1)); if (d) d.open = true }; addEventListener("hashchange", show); show();
</script></body></html>
"""
_TOKEN = re.compile(
    r"(?P<op>(?<![\w%!.])(?:arith|math|scf|func|tile|cpu|gpu)\.[\w.]+\b(?! =))|(?P<type>!?\b(?:tensor|vector|tile\.ptr|gpu\.shared)<[^ ]*)"
)


@dataclass(frozen=True)
class _Line:
    """One line of IR: whether it came or went ("add", "cut"), its line of source, and its text in highlighted parts."""

    mark: str
    source: int
    text: str

    @property
    def parts(self) -> list[tuple[str, str]]:
        parts, at = list[tuple[str, str]](), 0
        for match in _TOKEN.finditer(self.text):
            parts += [("", self.text[at : match.start()]), (match.lastgroup or "", match[0])]
            at = match.end()
        return [*parts, ("", self.text[at:])]


@dataclass(frozen=True)
class _Stage:
    """A stage as the page shows it."""

    name: str
    milliseconds: float
    operations: int
    changed: bool
    open: bool
    lines: list[_Line]


def page_of(result: Trace) -> str:
    """All stages of `result`, changes marked against the stage before; the front end's IR is folded."""
    import jinja2

    stages, before = list[_Stage](), None
    for s in result.stages:
        lines = _lines(before, s) if s.changed else []
        folded = s.name == FRONT_END or any(stage.open for stage in stages)
        stages.append(
            _Stage(s.name, s.milliseconds, s.operations, s.changed, s.changed and not folded, lines)
        )
        before = s
    first, source = result.source
    return (
        jinja2.Environment(autoescape=True)
        .from_string(_PAGE)
        .render(
            kernel=result.kernel, stages=stages, target=result.target, dropped=result.dropped,
            types=result.signature.line(), failure=result.failure and str(result.failure),
            source=list(enumerate(source.rstrip("\n").split("\n"), first)) if source else (),
        )
    )  # fmt: skip


def _lines(before: Snapshot | None, after: Snapshot) -> list[_Line]:
    """The lines of `after`, and the removed lines of `before`."""
    new = _numbered(after)
    if before is None:
        return [_Line("", line, text) for line, text in new]
    old = _numbered(before)
    matcher = difflib.SequenceMatcher(
        None, [t for _, t in old], [t for _, t in new], autojunk=False
    )
    lines = list[_Line]()
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind != "equal":
            lines += [_Line("cut", line, text) for line, text in old[i1:i2]]
        lines += [_Line("" if kind == "equal" else "add", line, text) for line, text in new[j1:j2]]
    return lines


def _numbered(s: Snapshot) -> list[tuple[int, str]]:
    texts = s.text.rstrip("\n").split("\n")
    return list(zip(s.lines or [0] * len(texts), texts, strict=False))
