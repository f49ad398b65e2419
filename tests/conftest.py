"""Fixtures that several test folders share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what tests produce"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(text, name)` compares `text` with `golden/<name>` beside the test file."""

    def check(text: str, name: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing; run pytest with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check
