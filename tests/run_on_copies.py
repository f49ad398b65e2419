"""Running a kernel on copies, so that two versions of its IR can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tilewright.interpreter.executor import run_module


def run_on_copies(
    module: ModuleOp, arguments: Sequence[Any], grid: Sequence[int]
) -> list[np.ndarray]:
    """The arrays among `arguments` as the kernel of `module` leaves them; the originals stay."""
    copies = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in arguments]
    run_module(module, copies, grid)
    return [c for c in copies if isinstance(c, np.ndarray)]
