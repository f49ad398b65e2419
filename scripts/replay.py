"""Which kernels of a fixed corpus get different code from this checkout than from another commit.

    python scripts/replay.py BASE [--only PATTERN] [--full] [--lines N] [--keep FOLDER]      (make replay BASE=main~3)

BASE is checked out into a temporary git worktree; both sources compile the corpus of `replay_corpus.py`, each
in a process of its own, without the disk cache and without ptxas. Compared are PTX (GPUs), assembly (CPU) and
launch plans. The exit status is 1 if any differ.

Normalized before the comparison, and nothing else:
- the kernel's entry symbol, which is reported as a note where it differs (generated kernels carry their
  configuration in it);
- names of fields of the launch plan in `RENAMED_PLAN_FIELDS`;
- the path of the temporary checkout, from which IR of `tests/passes/programs` is read.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORPUS = Path(__file__).resolve().with_name("replay_corpus.py")
#: fields of launch plans that got other names: old name → new name
RENAMED_PLAN_FIELDS: dict[str, str] = {
    "overlaps": "programmatic_launch",
    "cluster": "cluster_size",
    "extents": "global_dims",
    "pitches": "global_strides",
    "box": "box_dims",
    "span": "swizzle_bytes",
}

Texts = dict[str, str]


@dataclass
class Result:
    """One compilation of the corpus in both sources."""

    name: str
    state: str
    """"identical", "different", "only in base", "only here", "fails in both"."""
    notes: list[str] = field(default_factory=list)
    diff: list[str] = field(default_factory=list)


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary git worktree of `commit`."""
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        place = Path(folder) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), commit], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def start(root: Path, out: Path, cache: Path, more: list[str]) -> subprocess.Popen[bytes]:
    """Compile the corpus with the source in `root`, in another process; its texts go to `out`."""
    settings = {name: v for name, v in os.environ.items() if not name.startswith(("TILEWRIGHT_", "TRITON_"))}
    settings |= {"PYTHONPATH": str(root / "src"), "TILEWRIGHT_CACHE_DIR": str(cache)}
    settings |= {"TILEWRIGHT_ALWAYS_COMPILE": "1", "TILEWRIGHT_PTXAS": "none"}
    command = [sys.executable, str(CORPUS), str(out), "--root", str(root), *more]
    return subprocess.Popen(command, env=settings, cwd=ROOT)


def compiled(base: Path, here: Path, more: list[str]) -> tuple[dict[str, Texts], dict[str, Texts]]:
    """The corpus's texts of both sources, compiled side by side."""
    with tempfile.TemporaryDirectory(prefix="replay-out-") as folder:
        places = [Path(folder) / "base.json", Path(folder) / "here.json"]
        caches = [Path(folder) / "cache-base", Path(folder) / "cache-here"]
        roots = [base, here]
        processes = [start(*item, more) for item in zip(roots, places, caches, strict=True)]
        try:
            failed = [p.wait() for p in processes]
        finally:
            for process in processes:
                process.kill()
        if any(failed):
            raise SystemExit("the corpus was not compiled")
        first, second = (json.loads(place.read_text()) for place in places)
        return first, second


def normalized(texts: Texts, root: Path) -> tuple[Texts, str]:
    """Texts without what may differ, and the entry symbols."""
    plans = [json.loads(line) for line in texts.get("plan", "").splitlines() if line]
    symbols = [str(plan["name"]) for plan in plans]
    found = {}
    for stage, text in texts.items():
        if stage == "plan":
            shown = [json.dumps(_renamed(plan), indent=1, sort_keys=True) for plan in plans]
            text = "\n".join(shown)
        for i, symbol in enumerate(symbols):
            text = re.sub(rf"\b{re.escape(symbol)}(?=\b|_param_\d)", f"kernel_{i}", text)
        found[stage] = text.replace(str(root), "ROOT")
    return found, ", ".join(symbols)


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {RENAMED_PLAN_FIELDS.get(name, name): _renamed(item) for name, item in value.items()}
    return [_renamed(item) for item in value] if isinstance(value, list) else value


def compare(name: str, base: Texts | None, here: Texts | None, roots: tuple[Path, Path]) -> Result:
    """What became of one compilation."""
    if base is None or here is None:
        return Result(name, "only here" if base is None else "only in base")
    if "error" in base or "error" in here:
        errors = [f"{side}: {t['error']}" for side, t in (("base", base), ("here", here)) if "error" in t]
        return Result(name, "fails in both" if len(errors) == 2 else "different", errors)
    (old, old_symbol), (new, new_symbol) = (
        normalized(texts, root) for texts, root in zip((base, here), roots, strict=True)
    )
    result = Result(name, "identical" if old == new else "different")
    if old_symbol != new_symbol:
        result.notes.append(f"symbol {old_symbol} -> {new_symbol}")
    for stage in dict.fromkeys([*old, *new]):
        before, after = old.get(stage, ""), new.get(stage, "")
        if before != after:
            lines = before.splitlines(), after.splitlines()
            result.diff += difflib.unified_diff(*lines, f"base {stage}", f"here {stage}", "", "", 3, "")
    return result


def table(results: list[Result]) -> str:
    """The compilations that are not plainly identical, and how many are of each state."""
    lines = []
    for result in results:
        if result.state != "identical" or result.notes:
            changed = sum(line[:1] in "+-" and line[:3] not in ("+++", "---") for line in result.diff)
            size = f", {changed} lines" if changed else ""
            lines.append(f"{result.state + size:26} {result.name}")
            lines += [f"{'':26}   {note.splitlines()[0][:160]}" for note in result.notes]
    counts = Counter(result.state for result in results)
    summary = ", ".join(f"{number} {state}" for state, number in counts.most_common())
    return "\n".join([*lines, f"{len(results)} compilations: {summary}"])


def replay(base: Path, here: Path, more: list[str]) -> list[Result]:
    """Compare the sources in two checkouts."""
    old, new = compiled(base, here, more)
    return [compare(n, old.get(n), new.get(n), (base, here)) for n in dict.fromkeys([*old, *new])]


def keep(results: list[Result], folder: Path) -> None:
    """Write the whole difference of each compilation that has one."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, result in enumerate(r for r in results if r.diff):
        name = re.sub(r"\W+", "-", result.name)[:80]
        (folder / f"{i:03}-{name}.diff").write_text("\n".join([result.name, *result.diff, ""]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base", help="A commit to compare with, e.g. main~3.")
    parser.add_argument("--only", default="", help="Compilations whose names contain or match this.")
    parser.add_argument("--full", action="store_true", help="All large tiles for all targets, too.")
    parser.add_argument("--lines", type=int, default=40, help="Lines of each difference to print.")
    parser.add_argument("--keep", type=Path, help="Write whole differences to files here.")
    given = parser.parse_args()
    more = [*(["--only", given.only] if given.only else []), *(["--full"] if given.full else [])]
    begun = time.monotonic()
    with checkout(given.base) as base:
        results = replay(base, ROOT, more)
    for result in results:
        if result.diff and given.lines:
            shown = result.diff[: given.lines]
            left = len(result.diff) - len(shown)
            print("\n".join([f"==== {result.name}", *shown, *([f"… {left} more lines"] if left else []), ""]))
    if given.keep is not None:
        keep(results, given.keep)
    print(f"{table(results)}, {time.monotonic() - begun:.0f} s")
    if not results:
        print(f"no compilation is called {given.only!r}", file=sys.stderr)
    return int(not results or any(r.state not in ("identical", "fails in both") for r in results))


if __name__ == "__main__":
    sys.exit(main())
