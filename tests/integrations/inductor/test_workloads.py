"""Functions through torch.compile with tilewright's kernels on the CPU, against eager mode.

Importing Inductor takes seconds, and what it finds there it keeps: one process compiles all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.integrations.inductor.workloads import WORKLOADS  # noqa: E402

PROGRAM = Path(__file__).with_name("workloads.py")
QUICK = [name for name, (_, _, options) in WORKLOADS.items() if "quick" in options]
OTHERS = [name for name in WORKLOADS if name not in QUICK]


def failures(names: list[str], folder: Path) -> dict[str, str]:
    """The errors of workloads that fail. No C++ compiler can be found meanwhile."""
    environment = {
        **os.environ, "PATH": str(folder), "CXX": str(folder / "none"), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
        "TILEWRIGHT_CACHE_DIR": str(folder / "kernels"),
    }  # fmt: skip
    command = [sys.executable, str(PROGRAM), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, env=environment)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr
    assert [item["name"] for item in found] == names
    return {item["name"]: item["error"] for item in found if item["error"]}


@pytest.mark.slow
def test_workloads(tmp_path):
    """In one test: a fixture would compile them in each of pytest's processes."""
    assert failures(QUICK, tmp_path) == {}


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_other_workloads(tmp_path):
    assert failures(OTHERS, tmp_path) == {}
