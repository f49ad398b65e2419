"""The walk-throughs of docs/contributing: their blocks apply to the source, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("add-a-pass", "add-an-operation", "add-a-chip", "add-a-back-end")
#: page → most files of `src` that each of its parts, up to a check, may change
FILES = {"add-an-operation": [5, 7], "add-a-chip": [1]}
_BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.M | re.S)
_RUN = "import runpy, sys\nfor file in sys.argv[2:]:\n    runpy.run_path(file, run_name=file)\n"


@dataclass(frozen=True)
class Block:
    """One titled block of a page: a new file, a change of one (language "diff"), or a check."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The titled blocks of a page, in order."""
    text = (ROOT / "docs" / "contributing" / f"{page}.md").read_text(encoding="utf-8")
    return [Block(*match) for match in _BLOCK.findall(text)]


def apply(block: Block, root: Path) -> None:
    """Write the file of a block below `root`, or change it: each hunk must fit in exactly one place."""
    path = root / block.title
    if block.language != "diff":
        assert not path.exists(), f"{block.title} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    for hunk in re.split(r"^@@.*\n", block.text, flags=re.M):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.splitlines()]
        assert all(mark in " +-" for mark, _ in lines)
        before = "".join(f"{line}\n" for mark, line in lines if mark != "+")
        after = "".join(f"{line}\n" for mark, line in lines if mark != "-")
        assert text.count(before) == 1, f"{block.title}: {text.count(before)} places for\n{before}"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", FILES)
def test_number_of_files(page):
    parts: list[set[str]] = [set()]
    for block in blocks(page):
        if block.title == "check":
            parts.append(set())
        else:
            parts[-1].add(block.title)
    counts = [len({f for f in files if f.startswith("src/")}) for files in parts[:-1]]
    assert counts == FILES[page]


def test_walkthroughs_work(tmp_path):
    """All pages on one copy of the source: they touch different things, and the copy is the slow part."""
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy2(ROOT / "tests" / "filecheck.py", tmp_path / "tests")
    checks = []
    for page in PAGES:
        for i, block in enumerate(blocks(page)):
            if block.title != "check":
                apply(block, tmp_path)
                continue
            checks.append(tmp_path / f"{page.replace('-', '_')}_{i}.py")
            checks[-1].write_text(block.text, encoding="utf-8")
    assert len(checks) == 5
    run = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path), *map(str, checks)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache"),
             "TILEWRIGHT_PTXAS": "none"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
