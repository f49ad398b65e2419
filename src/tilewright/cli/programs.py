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

    `sys.argv` and `sys.path` are put back afterwards. Raises LaunchError if there is no such file,
    and whatever the program raises.
    """
    if not file.is_file():
        raise LaunchError(f"there is no file {file}")
    use_as_triton()
    kept = sys.argv, sys.path[:]
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = kept
