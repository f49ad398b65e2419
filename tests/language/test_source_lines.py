"""Sources of functions, found without a tokenizer, are those that `inspect` finds."""

import ast
import importlib
import inspect
import linecache
import pkgutil
import textwrap

import pytest

from tilewright.language import source_lines
from tilewright.language.source_lines import captured_lines, source_of

ODD = '''
import functools
def plain(a):
    return a
class Inside:
    @staticmethod
    def method(
        a,
        b=(1,
    2),
    ):
        # a comment
        if a:

            return b
        # after all

    def other(self): return 1
def text():
    """A text
that is not indented"""
    return 1
def continued():
    x = 1 + \\
2
    return x
def brackets():
    return [
1,
]
"""no docstring"""
@functools.cache
def decorated(a):
    def inner():
        return a
    return inner
def first(): pass
def one_line(): return 3
short = lambda: 1
if True:
    def branch():
        return 2
else:
    pass
def tabs():
\tif True:
\t\treturn 1
'''


def functions(module):
    found = [v for v in vars(module).values() if inspect.isfunction(v)]
    for kind in [v for v in vars(module).values() if inspect.isclass(v)]:
        members = [getattr(v, "__func__", v) for v in vars(kind).values()]
        found += [v for v in members if inspect.isfunction(v)]
    return [f for f in found if f.__module__ == module.__name__]


def check(function):
    lines, start = inspect.getsourcelines(function)
    skip = next(i for i, line in enumerate(lines) if line.lstrip().startswith("def "))
    expected = textwrap.dedent("".join(lines[skip:]))
    text, first, indent, tree = source_of(function)
    assert (first, indent) == (start + skip, len(lines[skip]) - len(lines[skip].lstrip()))
    assert text.rstrip() == expected.rstrip()
    if tree is not None:
        assert ast.dump(tree) == ast.dump(ast.parse(text).body[0])


def test_odd_functions(tmp_path, monkeypatch):
    (tmp_path / "odd_functions.py").write_text(ODD)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("odd_functions")
    found = [f for f in functions(module) if f.__name__ != "<lambda>"]
    for function in [*found, module.decorated.__wrapped__, module.decorated(1)]:
        check(function)
    assert len(found) == 10
    direct = {
        f.__name__ for f in found if source_lines._by_indentation(f, captured_lines(f)) is not None
    }
    assert direct == {"plain", "other", "first", "one_line", "branch", "tabs"}


@pytest.mark.parametrize("package", ["runtime", "language", "debug"])
def test_functions_of_this_package(package):
    root = importlib.import_module(f"tilewright.{package}")
    for info in pkgutil.iter_modules(root.__path__, root.__name__ + "."):
        for function in functions(importlib.import_module(info.name)):
            made = function.__code__.co_filename == "<string>" or hasattr(function, "__wrapped__")
            if function.__name__ != "<lambda>" and not made:
                check(function)


def test_cells_of_a_notebook():
    text = "def cell(a):\n    return a + 1\n\nresult = 2\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(keepends=True), "<cell 1>")
    scope = {"__name__": "__main__"}
    exec(compile(text, "<cell 1>", "exec"), scope)
    assert source_of(scope["cell"])[:3] == ("def cell(a):\n    return a + 1\n", 1, 0)
    with pytest.raises(OSError, match="could not get source code"):
        exec("def nowhere(): pass", scope)
        source_of(scope["nowhere"])
