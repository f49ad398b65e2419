"""Apply the renames of the glossary to a worktree: one commit per group.

    python scripts/renames/rename.py WORKTREE [--groups ir passes files identifiers terms] [--no-commit] [--no-golden]
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from engine import Tree

GROUPS = {"ir": "g1_ir", "passes": "g2_passes", "files": "g3_files", "identifiers": "g4_identifiers", "terms": "g5_terms"}


def call(root: Path, *command: str, check: bool = True) -> int:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=root, env=environment)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command)[:200]}: status {done.returncode}")
    return done.returncode


def tidy(root: Path) -> None:
    """Order of imports and layout of the lines that got longer or shorter, in changed Python files."""
    listed = subprocess.run(["git", "diff", "HEAD", "--name-only", "--diff-filter=d"], cwd=root, capture_output=True, text=True, check=True)
    folders = ("src/", "tests/", "benchmarks/", "examples/")
    files = [f for f in listed.stdout.split() if f.endswith(".py") and f.startswith(folders) and not f.startswith("examples/seeds")]
    if files:
        ruff = str(root / ".venv/bin/ruff")
        call(root, ruff, "check", "--quiet", "--fix", "--select", "I,RUF022", *files, check=False)
        call(root, ruff, "format", "--quiet", *files)


def regenerate(root: Path) -> None:
    """Goldens, generated pages and type stubs."""
    python = str(root / ".venv/bin/python")
    call(root, python, "scripts/generate_docs.py")
    goldens = ["tests/cli", "tests/errors", "tests/test_public_surface.py"]
    call(root, python, "-m", "pytest", "-q", "-n", "0", "--update-golden", "-p", "no:randomly", *goldens, check=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--no-commit", action="store_true")
    parser.add_argument("--no-golden", action="store_true")
    given = parser.parse_args()
    root = given.root.resolve()
    status = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True).stdout
    if status.strip() and not given.no_commit:
        raise SystemExit(f"{root} has changes: commit them first\n{status}")
    begun = time.monotonic()
    for group in given.groups:
        module = importlib.import_module(GROUPS[group])
        tree = Tree(root)
        print(f"== {group}")
        module.apply(tree)
        changed = tree.save()
        tidy(root)
        print(f"   {len(changed)} files, {time.monotonic() - begun:.0f} s, {len(tree.warnings)} warnings")
        if not given.no_commit:
            call(root, "git", "add", "-A")
            call(root, "git", "commit", "-q", "-m", f"{module.SUBJECT}\n\n{module.BODY}")
    if not given.no_golden:
        regenerate(root)
        if not given.no_commit and subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True).stdout.strip():
            call(root, "git", "add", "-A")
            call(root, "git", "commit", "-q", "-m", "[docs] Regenerate pages and golden texts after the renames\n\nmake docs and pytest --update-golden; no other changes.")
    print(f"done in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
