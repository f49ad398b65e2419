"""`tl.extra.libdevice` under the name that kernels of one vendor use."""

from tilewright.language.extra.libdevice import *  # noqa: F403
