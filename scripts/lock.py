"""Write requirements-dev.lock: the versions that pip resolves for development on this Python and platform.

python scripts/lock.py        # make lock; needs the package registry
pip install -r requirements-dev.lock && pip install --no-deps -e .
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
GROUPS = ("dev", "docs")


def resolve() -> list[str]:
    """`name==version` of every package of the development environment but tilewright itself, sorted."""
    groups = [word for name in GROUPS for word in ("--group", name)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
            "--report", str(report), "-e", ".[report]", *groups,
        ]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True)
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return sorted(
        f"{item['name'].lower().replace('_', '-')}=={item['version']}"
        for item in found
        if item["name"] != "tilewright"
    )


def main() -> None:
    """Write the file."""
    head = f"# made by `make lock` with Python {sys.version_info.major}.{sys.version_info.minor} on {sys.platform}"
    LOCK.write_text("\n".join([head, *resolve()]) + "\n", encoding="utf-8")
    print(f"{LOCK.name} written")


if __name__ == "__main__":
    main()
