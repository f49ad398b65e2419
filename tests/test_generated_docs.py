"""Pages made from the source are those in the repository."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location(
    "generate_docs", ROOT / "scripts" / "generate_docs.py"
)
generate_docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate_docs)


@pytest.mark.parametrize("name", generate_docs.PAGES)
def test_page_is_fresh(name):
    written = (ROOT / name).read_text(encoding="utf-8")
    made = generate_docs.PAGES[name]()
    assert written == made, f"run python scripts/generate_docs.py ({name} is out of date)"
