"""Every kernel of these tests runs as Python."""

import pytest


@pytest.fixture(autouse=True)
def as_python(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "1")
    monkeypatch.delenv("TILEWRIGHT_DEBUG_CHECKS", raising=False)
