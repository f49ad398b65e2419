"""`triton.knobs`, as far as torch reads it: hooks around launches, paths of tools. All are settable."""

from __future__ import annotations

from tilewright.integrations.triton_knobs import cache, nvidia, runtime

__all__ = ["cache", "nvidia", "runtime"]
