"""Record and render the IR after every pass, for `tilewright show`.

    recorder = Recorder(module)
    run_pipeline(module, passes, target, observer=recorder, stop_after="raise-access")
    print(render(recorder.snapshots, diff=True))

Passes that changed nothing are rendered as one line. `snapshots` is plain data, so that other reports can format it
differently.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.ir.location import source_location


@dataclass(frozen=True)
class Snapshot:
    """The IR after one pass. The first snapshot is named `input` and has no time."""

    name: str
    seconds: float
    changed: bool
    text: str
    lines: tuple[int, ...] = ()
    """Per line of the text, its source line in the kernel's file; 0 if unknown."""

    @property
    def milliseconds(self) -> float:
        """Time of the pass."""
        return self.seconds * 1e3

    @property
    def operations(self) -> int:
        """Number of operations in the text."""
        closing = ("}", "^", "builtin.module")
        lines = (line.strip() for line in self.text.splitlines())
        return sum(bool(line) and not line.startswith(closing) for line in lines)


class Recorder:
    """A `run_pipeline` observer that records the text of the IR."""

    def __init__(self, module: ModuleOp) -> None:
        text = str(module)
        self.snapshots = [Snapshot("input", 0.0, True, text, source_lines(module, text))]

    def __call__(self, name: str, seconds: float, changed: bool, module: ModuleOp) -> None:
        before = self.snapshots[-1]
        text = str(module) if changed else before.text
        lines = source_lines(module, text) if changed else before.lines
        self.snapshots.append(Snapshot(name, seconds, changed, text, lines))


def labels_of(names: Iterable[str]) -> list[str]:
    """Names of passes as accepted by `stop_after`: `cse`, `cse:2` …"""
    seen = Counter[str]()
    labels: list[str] = []
    for name in names:
        seen[name] += 1
        labels.append(name if seen[name] == 1 else f"{name}:{seen[name]}")
    return labels


_OPERATION = re.compile(r'^\s*(?:%[^=]* = )?"?([a-z_]+\.[\w.]+)')


def source_lines(module: ModuleOp, text: str) -> tuple[int, ...]:
    """Return the kernel's source line per line of `text`, the printed `module` (0: unknown).

    Operations print in walk order; terminators that are not printed are skipped. Operations of an inlined function
    have the line of the outermost call.
    """
    operations = list(module.walk())
    found: list[int] = []
    position = 0
    for line in text.split("\n"):
        match = _OPERATION.match(line)
        at = position
        while match is not None and at < len(operations) and operations[at].name != match[1]:
            at += 1
        if match is None or at == len(operations):
            found.append(0)
            continue
        found.append(_kernel_line(operations[at]))
        position = at + 1
    return tuple(found)


def _kernel_line(op: Operation) -> int:
    location = source_location(op.location)
    while location is not None and location.caller is not None:
        location = location.caller
    return 0 if location is None else location.line


def render(
    snapshots: Sequence[Snapshot],
    *,
    diff: bool = False,
    only: Collection[str] = (),
    times: bool = True,
    context: int = 3,
) -> str:
    """Render the snapshots as text, unchanged ones folded.

    `diff` shows each change as a unified diff with `context` lines around it; `only` names the passes
    whose IR is shown (default: all; other passes keep their headings). `times=False` omits times, for texts
    that are compared.
    """
    lines: list[str] = []
    previous = ""
    for snapshot in snapshots:
        lines.append(_heading(snapshot, times))
        if snapshot.changed and (not only or snapshot.name in only):
            if diff and previous:
                lines += _diff(previous, snapshot.text, context)
            else:
                lines += snapshot.text.rstrip("\n").split("\n")
            lines.append("")
        previous = snapshot.text
    if times:
        total = sum(s.seconds for s in snapshots)
        lines.append(f"---- {len(snapshots) - 1} passes, {total * 1e3:.2f} ms")
    return "\n".join(lines).rstrip("\n") + "\n"


def _heading(snapshot: Snapshot, times: bool) -> str:
    parts = [f"---- {snapshot.name}"]
    if not snapshot.changed:
        parts.append("(unchanged)")
    else:
        parts.append(f"({snapshot.operations} operations)")
    if times and snapshot.name != "input":
        parts.append(f"{snapshot.seconds * 1e3:.2f} ms")
    return " ".join(parts)


def _diff(before: str, after: str, context: int) -> Iterator[str]:
    """Yield a unified diff without file names."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=context)
    yield from list(lines)[2:]
