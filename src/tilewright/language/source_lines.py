"""The source lines of a function, found by its indentation.

`inspect.getsourcelines` finds the end of a function with Python's tokenizer, which takes milliseconds for a
kernel of some size. What is found here is parsed, and left to `inspect` unless it is a function by itself.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

_CLOSING = (")", "]", "}", '"' * 3, "'" * 3)
"""What a line may begin with that continues the one before."""


def source_of(function: Callable[..., Any]) -> tuple[str, int, int, ast.stmt | None]:
    """Source text from the `def` line on (dedented), that line's number in the file, the columns that
    dedenting removed, and the syntax tree if it was parsed on the way.

    Raises OSError or TypeError where the source is not to be had.
    """
    found = _by_indentation(function)
    if found is not None:
        return found
    lines, start = inspect.getsourcelines(function)
    indent = len(lines[0]) - len(lines[0].lstrip())
    skip = next((i for i, line in enumerate(lines) if _is_def(line)), None)
    if skip is None:  # Python 3.13 gives an empty line for code from exec()
        raise OSError("could not get source code")
    return textwrap.dedent("".join(lines[skip:])), max(start, 1) + skip, indent, None


def _is_def(line: str) -> bool:
    return line.lstrip().startswith("def ")


def _by_indentation(function: Any) -> tuple[str, int, int, ast.stmt] | None:
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return None
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
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
    if len(body) != 1 or getattr(body[0], "name", None) != code.co_name:
        return None
    return text, start + 1, indent, body[0]
