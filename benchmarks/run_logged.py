"""Run commands on a GPU machine and keep what they print, headed by what they ran on.

`python benchmarks/run_logged.py NAME -- COMMAND... [-- COMMAND...]` writes
`benchmarks/results/NAME-<device>.log` and exits with the first status that is not 0.
"""

from __future__ import annotations

import datetime
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "src"))


def version(package: str) -> str:
    """The installed version of a package, or "not installed"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def device() -> tuple[str, list[str]]:
    """Name of the first GPU, and a line for each with driver and memory, from nvidia-smi."""
    query = "name,driver_version,memory.total,power.limit,clocks.max.sm"
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    return (lines[0].split(",")[0] if lines else "no GPU"), lines


def commit() -> str:
    """The commit of the working tree, with a mark when it has changes (other than results)."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    try:
        status = ("-c", "core.fileMode=false", "status", "--porcelain", "-uno")
        changed = " with changes" if git(*status, "--", ".", ":!benchmarks/results") else ""
        return (git("rev-parse", "--short", "HEAD") or "unknown") + changed
    except OSError:
        return "unknown"


def header() -> list[str]:
    """What this machine is, line by line."""
    name, lines = device()
    now = datetime.datetime.now(datetime.UTC)
    packages = ("torch", "triton", "llvmlite", "xdsl", "numpy", "cupy-cuda13x")
    return [
        f"date      {now:%Y-%m-%d %H:%M} UTC",
        f"commit    {commit()}",
        *[f"device    {line}" for line in lines or [name]],
        f"python    {platform.python_version()} on {platform.platform()}",
        *[f"{package:9s} {version(package)}" for package in packages],
    ]


def commands(arguments: list[str]) -> list[list[str]]:
    """The commands between the "--"s."""
    found: list[list[str]] = []
    for word in arguments:
        if word == "--":
            found.append([])
        elif found:
            found[-1].append(word)
    return [command for command in found if command]


def main() -> int:
    name, status = sys.argv[1], 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    label = re.sub(r"[^a-z0-9]+", "-", device()[0].lower()).strip("-")
    with (RESULTS / f"{name}-{label}.log").open("w", encoding="utf-8") as log:

        def say(line: str) -> None:
            print(line, flush=True)
            log.write(line + "\n")
            log.flush()

        for line in header():
            say(line)
        for command in commands(sys.argv[2:]):
            say(f"\n$ {' '.join(command)}")
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for line in process.stdout or ():
                say(line.rstrip("\n"))
            code = process.wait()
            status = status or code
            if code:
                say(f"exit status {code}")
    return status


if __name__ == "__main__":
    sys.exit(main())
