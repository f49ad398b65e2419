"""The names that users may rely on: what `tilewright` and its public modules export."""

import importlib
import inspect
import subprocess
import sys

import pytest

import tilewright
import tilewright.language
import tilewright.testing

MODULES = {
    "tilewright": tilewright,
    "tilewright.language": tilewright.language,
    "tilewright.language.math": tilewright.language.math,
    "tilewright.language.libdevice": tilewright.language.libdevice,
    "tilewright.testing": tilewright.testing,
}
#: what importing the package must not pull in
HEAVY = ("xdsl", "torch", "matplotlib", "pandas", "typer", "rich", "llvmlite", "jinja2", "numpy")


@pytest.mark.parametrize("name", MODULES)
def test_exported_names(name, golden):
    names = sorted(MODULES[name].__all__)
    assert len(names) == len(set(names))
    golden("\n".join(names) + "\n", f"names_{name}.txt")


@pytest.mark.parametrize("name", MODULES)
def test_every_name_resolves(name):
    module = MODULES[name]
    missing = [n for n in module.__all__ if getattr(module, n, None) is None]
    assert not missing
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("name", ["tilewright", "tilewright.language", "tilewright.testing"])
def test_functions_and_classes_are_documented(name):
    module = MODULES[name]
    for exported in module.__all__:
        value = getattr(module, exported)
        if inspect.isroutine(value) or inspect.isclass(value):
            assert inspect.getdoc(value), f"{name}.{exported} has no docstring"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'jitt'"):
        tilewright.jitt


def test_import_pulls_in_nothing_heavy():
    code = (
        "import sys, tilewright, tilewright.language as tl\n"
        "@tilewright.jit\ndef f(x): pass\n"
        f"print([n for n in {HEAVY!r} if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_the_command_is_imported_lazily():
    code = (
        "import sys, tilewright.cli.main\n"
        "print([n for n in ('typer', 'rich', 'xdsl', 'llvmlite') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_modules_by_name():
    for name in tilewright._MODULES:
        assert getattr(tilewright, name) is importlib.import_module(f"tilewright.{name}")
