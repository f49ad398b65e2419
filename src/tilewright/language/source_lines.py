"""The source lines of a function, found by its indentation.

`inspect.getsourcelines` finds the end of a function with Python's tokenizer, which takes milliseconds for a
kernel of some size. What is found here is parsed, and left to `inspect` unless it is a function by itself.
The lines are those of the moment when a function was decorated (`captured_lines`), not of its first launch.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

_CLOSING = (")", "]", "}", '"' * 3, "'" * 3)
"""Tokens at the start of a line that continues the one before."""


def captured_lines(function: Any) -> list[str]:
    """The lines of the file that a function was defined in, as they are now: to be read when it is decorated.

    A file that is edited after that has other functions on these lines. Costs a `stat`: files are read once.
    Empty where the text is unknown.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return []
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, getattr(function, "__globals__", None))
    if not lines and code.co_filename == "<string>" and function.__module__ == "__main__":
        return _lines_of_command()
    return lines


def _lines_of_command() -> list[str]:
    """The program given to `python -c`."""
    arguments = sys.orig_argv
    text = arguments[arguments.index("-c") + 1] if "-c" in arguments[:-1] else ""
    return text.splitlines(keepends=True)


def register_source(text: str, name: str | None = None) -> str:
    """Keep the text of generated code, so that kernels in it can be compiled; gives a file name for it.

        exec(compile(text, tilewright.register_source(text), "exec"), scope)

    `name` is the file name to use; by default one that depends on the text.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    file = name or f"<tilewright {digest[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


def source_of(
    function: Callable[..., Any], lines: list[str] | None = None
) -> tuple[str, int, int, ast.stmt | None]:
    """Source text from the `def` line on (dedented), that line's number in the file, the columns that
    dedenting removed, and the syntax tree if it was parsed on the way.

    `lines` are the file's, from `captured_lines`. Raises OSError or TypeError where the source cannot be read,
    or is another function's.
    """
    if lines is None:
        lines = captured_lines(function)
    found = _by_indentation(function, lines)
    if found is not None:
        return found
    block, start = _by_tokens(inspect.unwrap(function), lines)
    indent = len(block[0]) - len(block[0].lstrip())
    skip = next((i for i, line in enumerate(block) if _is_def(line)), None)
    if skip is None:
        raise OSError("could not get source code")
    text = textwrap.dedent("".join(block[skip:]))
    _check_same(function, text)
    return text, start + skip, indent, None


def _by_tokens(function: Any, lines: list[str]) -> tuple[list[str], int]:
    """The lines of a function with its decorators as the tokenizer sees them, and the first one's number."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise TypeError(f"{function!r} is not a Python function")
    start = code.co_firstlineno
    if not 0 < start <= len(lines):
        raise OSError("could not get source code")
    return inspect.getblock(list(lines[start - 1 :])), start


def _check_same(function: Any, text: str) -> None:
    """Raise OSError where `text` is not the definition of `function`: the file was edited before it was read."""
    code = inspect.unwrap(function).__code__
    try:
        same = _is_of(ast.parse(text).body[0], code)
    except SyntaxError:  # text in several lines that is not indented
        same = text.lstrip().startswith(f"def {code.co_name}")
    if not same:
        raise OSError(
            f"line {code.co_firstlineno} of {code.co_filename} holds another function than '{code.co_name}'"
        )


def _is_of(node: ast.stmt, code: CodeType) -> bool:
    """Whether a definition has the name and the parameters of a code object."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != code.co_name:
        return False
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [*map(_unmangled, names)] == [*map(_unmangled, given)]


def _unmangled(name: str) -> str:
    """The end of a name that Python may have put a class's name before."""
    return name.rpartition("__")[2] if not name.endswith("__") else name


def _is_def(line: str) -> bool:
    return line.lstrip().startswith("def ")


def _by_indentation(function: Any, lines: list[str]) -> tuple[str, int, int, ast.stmt] | None:
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return None
    start = code.co_firstlineno - 1  # of the first decorator
    while start < len(lines) and not _is_def(lines[start]):
        start += 1
    if start >= len(lines) or "\t" in (head := lines[start]):
        return None
    indent = len(head) - len(head.lstrip())
    end = last = start + 1
    while end < len(lines):
        text = lines[end].lstrip()
        end += 1
        if text and not text.startswith("#"):
            if len(lines[end - 1]) - len(text) <= indent and not text.startswith(_CLOSING):
                break
            last = end
    text = textwrap.dedent("".join(lines[start:last]))
    try:
        body = ast.parse(text).body
    except SyntaxError:  # something goes on where it seemed to end
        return None
    if len(body) != 1 or not _is_of(body[0], code):
        return None
    return text, start + 1, indent, body[0]
