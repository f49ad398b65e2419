"""Assembly formats of operations, read when text is first parsed or printed with them.

xDSL reads the format of every operation when its class is made. A compilation makes a hundred such
classes and neither parses nor prints anything: that was 7 % of the time to the first kernel.
"""

from __future__ import annotations

import functools
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


@functools.cache
def read_formats_when_used() -> None:
    """Let operations that are defined from now on have a `LazyFormat`. Does nothing the second time."""
    read: Any = FormatProgram.from_str

    def from_str(text: str, definition: Any) -> Any:
        return LazyFormat(text, definition, read)

    FormatProgram.from_str = staticmethod(from_str)  # type: ignore[method-assign]
