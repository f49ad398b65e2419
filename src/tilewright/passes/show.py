"""The IR after every pass, as text for people: what `tilewright show` prints.

    recorder = Recorder(module)
    run_pipeline(module, passes, target, observer=recorder, stop_after="raise-access")
    print(render(recorder.snapshots, diff=True))

Passes that changed nothing take one line. `snapshots` is plain data, so that a report can lay it out
differently.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Snapshot:
    """The IR after one pass. The first snapshot is called `input` and took no time."""

    name: str
    seconds: float
    changed: bool
    text: str

    @property
    def milliseconds(self) -> float:
        """Time of the pass."""
        return self.seconds * 1e3

    @property
    def operations(self) -> int:
        """How many lines of the text hold an operation."""
        closing = ("}", "^", "builtin.module")
        lines = (line.strip() for line in self.text.splitlines())
        return sum(bool(line) and not line.startswith(closing) for line in lines)


class Recorder:
    """An observer for `run_pipeline` that keeps the text of the IR."""

    def __init__(self, module: ModuleOp) -> None:
        self.snapshots = [Snapshot("input", 0.0, True, str(module))]

    def __call__(self, name: str, seconds: float, changed: bool, module: ModuleOp) -> None:
        text = str(module) if changed else self.snapshots[-1].text
        self.snapshots.append(Snapshot(name, seconds, changed, text))

    @property
    def labels(self) -> list[str]:
        """Names of the snapshots as `stop_after` takes them: `cse`, `cse:2` …"""
        seen: dict[str, int] = {}
        labels = []
        for snapshot in self.snapshots:
            seen[snapshot.name] = seen.get(snapshot.name, 0) + 1
            count = seen[snapshot.name]
            labels.append(snapshot.name if count == 1 else f"{snapshot.name}:{count}")
        return labels


def render(
    snapshots: Sequence[Snapshot],
    *,
    diff: bool = False,
    only: Collection[str] = (),
    times: bool = True,
    context: int = 3,
) -> str:
    """The snapshots as text, unchanged ones folded.

    `diff` shows each change as a unified diff with `context` lines around it; `only` names the passes
    whose IR is shown (default: all; the others keep their headings); `times=False` leaves out times,
    for texts that are compared.
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
    """A unified diff without its file names."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=context)
    yield from list(lines)[2:]
