"""Functions beyond the core language: `tl.extra.libdevice`, `tl.extra.cuda`, `tl.extra.hip`."""

from tilewright.language.extra import libdevice

from tilewright.language.extra import cuda  # isort: skip
from tilewright.language.extra import hip  # isort: skip

__all__ = ["cuda", "hip", "libdevice"]
