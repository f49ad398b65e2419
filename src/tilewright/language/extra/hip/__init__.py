"""Names that AMD kernels import: `tl.extra.hip.libdevice`."""

from tilewright.language.extra.hip import libdevice

__all__ = ["libdevice"]
