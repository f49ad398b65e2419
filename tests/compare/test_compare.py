"""`tilewright compare` with a stand-in for Triton, and with the real one where it is installed."""

import importlib.util
import json
from pathlib import Path

import pytest

from tilewright.cli.main import main

pytest.importorskip("torch")

HERE = Path(__file__).parent


@pytest.fixture
def fake_triton(monkeypatch):
    from torch.utils._triton import has_triton_package

    has_triton_package()  # torch remembers the answer, for tests that follow in this process
    monkeypatch.syspath_prepend(str(HERE / "fake"))
    monkeypatch.setenv("PYTHONPATH", str(HERE / "fake"))


@pytest.fixture
def compare(tmp_path, capsys):
    """`compare(*arguments)` -> (status, rows by kernel, output, page)."""

    def run(*arguments):
        files = ("--json", str(tmp_path / "rows.json"), "--html", str(tmp_path / "page.html"))
        status = main(["compare", *files, *map(str, arguments)])
        output = capsys.readouterr()
        if not (tmp_path / "rows.json").exists():
            return status, {}, output.err, ""
        content = json.loads((tmp_path / "rows.json").read_text())
        rows = {row["kernel"]: row for row in content["rows"]}
        return status, {**rows, "": content}, output.out, (tmp_path / "page.html").read_text()

    return run


def test_outcomes(fake_triton, compare):
    status, rows, out, page = compare(HERE / "programs" / "outcomes.py", "fail")
    assert status == 1
    assert rows.pop("")["failure"] == "RuntimeError: the program's own error"
    assert {name: row["status"] for name, row in rows.items()} == {
        "agrees": "agrees",
        "tuned": "agrees",
        "compiled": "agrees",
        "differs": "differs",
        "unstable": "nondeterministic",
        "refused": "tilewright fails",
        "unlucky": "triton fails",
        "fatal": "fault",
    }
    agrees = rows["agrees"]
    assert (agrees["launches"], agrees["grid"], agrees["error"]) == (2, [4], 0.0)
    assert agrees["arguments"]["x_ptr"] == "float32[100]"
    assert sorted(a["kind"] for a in agrees["accesses"]) == ["load", "store"]
    tuned = rows["tuned"]
    assert (tuned["grid"], tuned["arguments"]["BLOCK"], tuned["configurations"]) == ([4], "32", 2)
    assert rows["compiled"]["arguments"]["num_warps"] == "2"
    assert "no_such_function" in rows["refused"]["tilewright"]["error"]
    assert "ended with status 7" in rows["fatal"]["triton"]["error"]
    for name, row in rows.items():
        assert name in out and name in page and row["status"] in page


def test_time_limit(fake_triton, compare, tmp_path):
    program = tmp_path / "endless.py"
    program.write_text("while True: pass\n")
    status, _, err, _ = compare("--limit", "4", program)
    assert status == 1
    assert "no result within 4 s" in err


def test_errors(monkeypatch, fake_triton, compare, tmp_path):
    assert "there is no file nothing.py" in compare("nothing.py")[2]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _, _, err, _ = compare("nothing.py")
    assert "Triton, which is not installed\nhelp: pip install triton" in err


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_real_triton(compare):
    status, rows, _, _ = compare(HERE / "programs" / "three_kernels.py")
    rows.pop("")
    assert status == 0
    assert {row["status"] for row in rows.values()} == {"agrees"}
