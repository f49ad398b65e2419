"""`tilewright run`: a Python program in which `import triton` means tilewright."""

from __future__ import annotations

import contextlib
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.loading import use_as_triton
from tilewright.errors import LaunchError
from tilewright.integrations.cuda_on_cpu import cuda_on_cpu

_NO_CUDA = "Torch not compiled with CUDA"


def run_program(file: Path, arguments: Sequence[str], on_cpu: bool = False) -> None:
    """Run `file` as `python file arguments…` would, with its folder first on the path.

    With `on_cpu` the device "cuda" of torch means the CPU (`integrations/cuda_on_cpu.py`).

    `sys.argv` and `sys.path` are put back afterwards. An error that the program does not catch is
    printed as Python prints it, from the program's own frame on, and ends in `SystemExit(1)`.
    Raises LaunchError if there is no such file, or no torch to tell about the CPU.
    """
    if not file.is_file():
        raise LaunchError(f"there is no file {file}")
    device = _cuda_on_cpu() if on_cpu else contextlib.nullcontext()
    use_as_triton()
    kept = sys.argv, sys.path[:]
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        with device:
            runpy.run_path(str(file), run_name="__main__")
    except Exception as error:
        if not on_cpu and isinstance(error, AssertionError) and _NO_CUDA in str(error):
            error.add_note(f"tilewright run --on-cpu {file} puts the CPU in the place of cuda.")
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
            trace = trace.tb_next
        error.with_traceback(trace or error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
    finally:
        sys.argv, sys.path[:] = kept


def _cuda_on_cpu() -> Any:
    if importlib.util.find_spec("torch") is None:
        raise LaunchError(
            "--on-cpu is about torch, which is not installed", help="pip install torch"
        )
    return cuda_on_cpu()
