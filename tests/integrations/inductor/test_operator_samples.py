"""A part of torch's own samples of its operators; all of them: see operator_samples.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("type_", ["float32", "int64"])
def test_operator_samples(type_):
    program = Path(__file__).with_name("operator_samples.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, str(program), type_, "--part", "3/40"],
        capture_output=True, text=True, timeout=1100, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 5 and [each for each in found if each["error"]] == []
