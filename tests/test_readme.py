"""The README's Python runs as printed, its links lead somewhere, and it names every setting."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_python_blocks_run_in_order(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert len(blocks) >= 3
    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks))
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}
            assert anchor in anchors, f"{page.name} links to {target}"


def test_every_setting_is_listed():
    source = (ROOT / "src/tilewright/config.py").read_text(encoding="utf-8")
    for name in set(re.findall(r'"((?:TILEWRIGHT|TRITON)_\w+)"', source)):
        assert f"`{name}`" in README, name


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert page.name == "index.md" or f"({page.name})" in index, page.name


@pytest.mark.parametrize("page", ["README.md", "docs/debugging.md"])
def test_names_of_dumps(page):
    from tilewright.backends.cpu.pipeline import cpu_passes

    names = {f"{i:02}-{p.name}.mlir" for i, p in enumerate(cpu_passes(), 1)}
    named = set(re.findall(r"\d\d-[\w-]+\.mlir", (ROOT / page).read_text(encoding="utf-8")))
    assert named and named <= names


def test_shell_commands_exist():
    from typer.main import get_command

    from tilewright.cli.app import app

    text = README + (ROOT / "docs/debugging.md").read_text(encoding="utf-8")
    commands = get_command(app).commands
    for name, rest in re.findall(r"`?tilewright ([a-z]+)([^\n`]*)", text):
        if name not in commands:
            continue  # a sentence, not a command
        options = {o for p in commands[name].params for o in p.opts}
        for option in re.findall(r"\s(--?[a-z][\w-]*)", rest.partition("#")[0]):
            assert option in options, f"tilewright {name} {option}"
