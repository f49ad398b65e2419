"""Inductor's compile workers are forked from a process that has loaded the compiler.

Inductor forks them where torch and Triton have been imported. The first kernel that a process compiles also imports the
compiler and initializes LLVM: 0.7 s of CPU time, against 0.03 s for a further small kernel. Done before the fork, it is
paid once instead of by every worker. Workers started by "spawn" share nothing and import it themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement


def _compiler_loaded(_: Any, original: Callable[[], None]) -> Callable[[], None]:
    def pre_fork_setup() -> None:
        original()
        from tilewright.integrations.inductor import state
        from tilewright.integrations.inductor.first_kernel import compile_for
        from tilewright.targets import nvidia

        # not the GPU's own target: a forked process cannot use a CUDA driver that was initialized before
        targets = {"cpu": "cpu", "cuda": nvidia.DEFAULT}
        for device in sorted(state.devices() or targets):
            with contextlib.suppress(Exception):  # a worker reports what prevents compilation
                compile_for(targets[device])

    return pre_fork_setup


REPLACEMENTS = (Replacement("torch._inductor.async_compile", "pre_fork_setup", _compiler_loaded),)
