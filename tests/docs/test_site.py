"""The documentation site: every page is in its navigation; code of how-to pages runs. `make site` builds it (in .ci/run)."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HOW_TO = [
    p
    for p in sorted((DOCS / "how-to").glob("*.md"))
    if "```python" in p.read_text(encoding="utf-8")
]


def test_navigation_has_every_page():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r"([\w/.-]+\.md)$", navigation, re.M)) - {"README.md"}
    pages = {p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md") if p.parent.name != "adr"}
    assert listed == pages


@pytest.mark.parametrize("page", HOW_TO, ids=lambda p: p.stem)
def test_code_of_how_to_pages(page, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(program))
    for name, value in names.items():
        if name.startswith("test_"):
            value()
