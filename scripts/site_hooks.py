"""MkDocs hooks: pages of the repository outside docs/, and source files that pages link to, become part of the site.

Links in docs/ are relative to the repository, so that they work in a checkout too. `../benchmarks/results/x.md` becomes
a page, `../src/x.py` a page with the highlighted source, a picture a copy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?\)")
_LANGUAGES = {".py": "python", ".json": "json", ".mlir": "mlir", ".toml": "toml", ".yml": "yaml"}
#: path in the repository → path in the site, of what is outside docs/
_FOUND: dict[Path, str] = {}


def on_config(config: Any) -> Any:
    """Write the list of decisions into the navigation."""
    adrs = [f"adr/{path.name}" for path in sorted((DOCS / "adr").glob("*.md"))]
    _replace(config.nav, "ADRS", adrs)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to, and what those pages link to."""
    _FOUND.clear()
    pending = [(path, path.read_text(encoding="utf-8")) for path in DOCS.rglob("*.md")]
    pending.append((DOCS / "x.md", "[](../README.md)"))
    while pending:
        page, text = pending.pop()
        for match in _LINK.finditer(_without_code(text)):
            target = (page.parent / match[2]).resolve()
            outside = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
            if "://" in match[2] or not outside or target in _FOUND or not target.is_file():
                continue
            _FOUND[target] = _site_path(target)
            if target.suffix == ".md":
                pending.append((target, target.read_text(encoding="utf-8")))
    for target, name in _FOUND.items():
        files.append(_file(config, target, name))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the paths of the site."""
    here = next((path for path, name in _FOUND.items() if name == page.file.src_uri), None)
    source = here or DOCS / page.file.src_uri
    depth = "../" * page.file.src_uri.count("/")

    def moved(match: re.Match[str]) -> str:
        head, path, anchor = match[1], match[2], match[3] or ""
        if "://" in path:
            return match[0]
        target = (source.parent / path).resolve()
        if target in _FOUND:
            return f"{head}{depth}{_FOUND[target]}{anchor})"
        if target.is_relative_to(DOCS) and target.is_file():
            return f"{head}{depth}{target.relative_to(DOCS).as_posix()}{anchor})"
        if target.exists() and not target.is_file():  # a folder has no page
            return match[0][: match[0].index("](")].removeprefix("[")
        return match[0]

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def _file(config: Any, target: Path, name: str) -> File:
    if target.suffix in (".png", ".svg"):
        return File.generated(config, name, content=target.read_bytes())
    text = target.read_text(encoding="utf-8")
    if target.suffix != ".md":
        language = _LANGUAGES.get(target.suffix, "text")
        text = f"# {target.relative_to(ROOT).as_posix()}\n\n````{language}\n{text}````\n"
    return File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV)


def _site_path(target: Path) -> str:
    name = target.relative_to(ROOT).as_posix()
    if target.suffix in (".png", ".svg", ".md"):
        return name
    return f"source/{name}.md"


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def _replace(item: Any, name: str, value: Any) -> None:
    for entry in item if isinstance(item, list) else []:
        for key, inner in entry.items() if isinstance(entry, dict) else []:
            if inner == name:
                entry[key] = value
            _replace(inner, name, value)
