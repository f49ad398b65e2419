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


def errors(names: list[str], folder: Path) -> dict[str, str]:
    """What went wrong with each, "" for nothing. No C++ compiler is to be found meanwhile."""
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
    return {item["name"]: item["error"] for item in found}


@pytest.fixture(scope="module")
def quick_errors(tmp_path_factory):
    return errors(QUICK, tmp_path_factory.mktemp("inductor"))


@pytest.mark.parametrize("name", QUICK)
def test_workload(quick_errors, name):
    assert quick_errors[name] == ""


@pytest.fixture(scope="module")
def other_errors(tmp_path_factory):
    return errors(OTHERS, tmp_path_factory.mktemp("inductor"))


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_other_workload(other_errors, name):
    assert other_errors[name] == ""
