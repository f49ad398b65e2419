"""benchmarks/third_party_speed.py: processes, rows and tables, without Triton and without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "programs" / "timed_corpus.py"


def test_cases_beside_each_other():
    found = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert not found.returncode, found.stderr
    shown = json.loads(found.stdout.splitlines()[-1])
    fatal, tuned = shown["timed"]["own/small.py"]["rows"]
    assert (fatal["kernel"], fatal["status"], fatal["ratio"]) == ("fatal", "fault", None)
    assert (tuned["kernel"], tuned["status"], tuned["ratio"]) == ("tuned", "agrees", 0.5)
    assert tuned["triton"]["configuration"] != tuned["tilewright"]["configuration"]
    assert "static assertion failed" in next(iter(tuned["tilewright"]["failed"].values()))
    assert "| own | 1 | 1 | 0.500 | 0.500 (1) |" in shown["page"]
    dry = shown["dry"]["own/small.py"]
    assert (dry["failure"], [row["status"] for row in dry["rows"]]) == ("", ["dry", "dry"])
    assert shown["stuck"] == [["", ["time limit", "agrees"]]] * 2
    assert shown["hungry"] == [["", []]] * 2
