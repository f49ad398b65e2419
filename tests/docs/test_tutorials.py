"""Every tutorial runs on a machine without a GPU, and finds what it says."""

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "examples" / "tutorials").glob("[0-9]*.py"))
#: torch.compile takes seconds to import
SLOW = ("08_custom_op",)


def test_numbers():
    assert [script.name[:2] for script in SCRIPTS] == [f"{i:02}" for i in range(1, 11)]


@pytest.mark.parametrize(
    "script",
    [pytest.param(s, marks=pytest.mark.slow) if s.stem in SLOW else s for s in SCRIPTS],
    ids=lambda s: s.stem,
)
def test_tutorial_runs(script, monkeypatch):
    if "import torch" in script.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "none")
    runpy.run_path(str(script), run_name="__main__")
