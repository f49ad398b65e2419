"""Files and functions of the package stay small enough to be read at once."""

import ast
from pathlib import Path

import pytest

import tilewright

PACKAGE = Path(tilewright.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
FILE_LINES = 500
FUNCTION_LINES = 60
#: path below the package → the ADR that says why the file is longer
LONGER: dict[str, str] = {}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_file_is_short(file):
    text = file.read_text()
    if str(file.relative_to(PACKAGE)) not in LONGER:
        assert text.count("\n") <= FILE_LINES
    functions = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    long = {
        f"{f.name}, line {f.lineno}": lines
        for f in functions
        if f.end_lineno is not None and (lines := f.end_lineno - f.lineno + 1) > FUNCTION_LINES
    }
    assert not long


def test_every_folder_is_in_the_tour():
    tour = (PACKAGE.parent.parent / "docs" / "architecture.md").read_text()
    folders = {f.parent.relative_to(PACKAGE).parts[0] for f in FILES if f.parent != PACKAGE}
    assert not {folder for folder in folders if f"`{folder}/`" not in tour}
