"""What processes are forked with: the compiler's modules are imported, and no GPU has been asked for anything.

As a program it compiles a kernel, in a process of its own, and prints which modules that has needed and whether there
is a GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import TilewrightError

_PACKAGES = ("tilewright", "xdsl", "llvmlite")


@tw.jit
def _copy(x_ptr, y_ptr, BLOCK: tl.constexpr, UNIQUE: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


def preload() -> bool:
    """Import the compiler. Returns whether there is a GPU."""
    path = os.pathsep.join(sys.path)
    found = subprocess.run(
        [sys.executable, __file__], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True
    )  # fmt: skip
    facts = json.loads(found.stdout.splitlines()[-1])
    for name in facts["modules"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    return facts["gpu"]


def main() -> None:
    import torch

    gpu = torch.cuda.is_available()
    constants = {"BLOCK": 64, "UNIQUE": os.getpid()}  # in no cache
    with contextlib.suppress(TilewrightError):  # no assembler: it has been imported nevertheless
        _copy.compile(
            {"x_ptr": "*fp32", "y_ptr": "*fp32"}, constants, target="sm_90a" if gpu else "cpu"
        )
    names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    print(json.dumps({"gpu": gpu, "modules": names}))


if __name__ == "__main__":
    main()
