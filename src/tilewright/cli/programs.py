"""`tilewright run`: a Python program in which `import triton` means tilewright."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.cli.loading import use_as_triton
from tilewright.errors import LaunchError


def run_program(file: Path, arguments: Sequence[str]) -> None:
    """Run `file` as `python file arguments…` would, with its folder first on the path.

    `sys.argv` and `sys.path` are put back afterwards. An error that the program does not catch is
    printed as Python prints it, from the program's own frame on, and ends in `SystemExit(1)`.
    Raises LaunchError if there is no such file.
    """
    if not file.is_file():
        raise LaunchError(f"there is no file {file}")
    use_as_triton()
    kept = sys.argv, sys.path[:]
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), run_name="__main__")
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
            trace = trace.tb_next
        error.with_traceback(trace or error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
    finally:
        sys.argv, sys.path[:] = kept
