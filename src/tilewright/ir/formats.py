"""Assembly formats of operations, read when text is first parsed or printed with them.

xDSL reads the format of every operation when its class is made. A compilation makes a hundred such
classes and neither parses nor prints anything: that was 7 % of the time to the first kernel.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Generator
from typing import Any

from xdsl.irdl.declarative_assembly_format import FormatProgram


class LazyFormat:
    """Stands for the `FormatProgram` of an operation's definition.

    An error in a format is raised when it is first used.
    """

    def __init__(self, text: str, definition: Any, read: Any) -> None:
        self._text, self._definition, self._read = text, definition, read

    @functools.cached_property
    def program(self) -> FormatProgram:
        """The format, read."""
        return self._read(self._text, self._definition)

    def parse(self, parser: Any, kind: Any) -> Any:
        """An operation of class `kind`, as `FormatProgram.parse`."""
        return self.program.parse(parser, kind)

    def print(self, printer: Any, op: Any) -> None:
        """Print `op`, as `FormatProgram.print`."""
        self.program.print(printer, op)


#: dialects whose operations compilations make; formats of any others are read as xDSL does
_DIALECTS = frozenset(
    [
        "builtin", "func", "arith", "math", "scf", "vector", "memref", "ub", "affine", "linalg",
        "tensor", "tile", "cpu", "gpu",
    ]
)  # fmt: skip
_lock = threading.Lock()
_inside = 0


@contextlib.contextmanager
def formats_read_when_used() -> Generator[None]:
    """Inside, operations of a compilation's dialects that are defined (imported) have a `LazyFormat`.

    xDSL has no switch for that: its reader is replaced, for as long as some thread is inside.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            FormatProgram.from_str = staticmethod(_from_str)  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                FormatProgram.from_str = _own


_own: Any = FormatProgram.__dict__["from_str"]


def _from_str(text: str, definition: Any) -> Any:
    if definition.name.partition(".")[0] in _DIALECTS:
        return LazyFormat(text, definition, _own.__func__)
    return _own.__func__(text, definition)
