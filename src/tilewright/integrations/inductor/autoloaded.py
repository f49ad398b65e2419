"""`TILEWRIGHT_INDUCTOR` in the environment: "1" or "all", "cpu", "cuda"."""

from __future__ import annotations

import warnings

from tilewright.errors import IntegrationError
from tilewright.integrations.inductor import install as install_for


def install(wanted: str) -> None:
    """Install for the devices named in `wanted`. `import torch` works in any case: failures are warnings."""
    device = wanted.lower()
    if device not in ("cpu", "cuda"):
        device = "all"
    try:
        install_for(device)
    except IntegrationError as error:
        warnings.warn(f"TILEWRIGHT_INDUCTOR={wanted}: {error}", RuntimeWarning, stacklevel=2)
