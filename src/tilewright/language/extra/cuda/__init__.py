"""Names that NVIDIA kernels import; where there is nothing to wait for, waiting does nothing."""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import builtin
from tilewright.language.extra.cuda import libdevice


@builtin()
def gdc_wait() -> Any:
    """Wait for the kernels this one was launched to overlap with."""


@builtin()
def gdc_launch_dependents() -> Any:
    """Allow dependent kernels to start."""


__all__ = ["gdc_launch_dependents", "gdc_wait", "libdevice"]
