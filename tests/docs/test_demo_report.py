"""The demo's page: readable on a phone, and by somebody who does not know what the demo is."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import demo_report

    yield demo_report
    for name in ("demo_report", "demo_cases", "seeds_loader"):
        sys.modules.pop(name, None)


def test_page(demo, tmp_path, monkeypatch):
    from tilewright.passes.show import Snapshot

    stages = [Snapshot("front-end", 0.1, True, "func.func @k"), Snapshot("cse", 0.1, False, "")]
    monkeypatch.setattr(demo, "kernel_stages", lambda: ("k", "def k(x): pass", stages))
    facts = ("kernel", "1 x 2", "fp32", 1e-7, 1e-6, 0.5, 10.0)
    rows = [demo.Row(*facts, "GB/s", 0.6, None, "BLOCK: 32"), demo.Row(*facts, "GFLOP/s", 0.6)]
    page = demo.write_report(rows, tmp_path).read_text(encoding="utf-8")
    assert 'name="viewport"' in page and '<div class="scroll"><table>' in page
    assert '<a href="#passes">' in page and "def k(x): pass" in page
    assert "tilewright compiles kernels" in page, "a sentence for a stranger"
    assert "<details open" not in page and '<td class="left meta">BLOCK: 32</td>' in page
    assert page.count("data:image/png;base64,") == 2
