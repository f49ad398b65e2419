"""`TILEWRIGHT_INDUCTOR` in the environment: "1" or "all", "cpu", "cuda"."""

from __future__ import annotations

import warnings

from tilewright.errors import IntegrationError
from tilewright.integrations.inductor import state


def install(wanted: str) -> None:
    """Install for the devices named in `wanted`. `import torch` works in any case: failures are warnings."""
    device = wanted.lower()
    try:
        if device == state.NAMES_ONLY:
            state.serve()
        else:
            state.install(device if device in ("cpu", "cuda") else "all")
    except IntegrationError as error:
        warnings.warn(f"TILEWRIGHT_INDUCTOR={wanted}: {error}", RuntimeWarning, stacklevel=2)
