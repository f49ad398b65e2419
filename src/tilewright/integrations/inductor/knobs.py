"""`triton.knobs`, as far as torch reads it: hooks around launches, paths of tools. All are settable."""

from __future__ import annotations

from types import SimpleNamespace

runtime = SimpleNamespace(
    launch_enter_hook=None, launch_exit_hook=None, jit_post_compile_hook=None, jit_cache_hook=None
)
nvidia = SimpleNamespace(libdevice_path=None, ptxas=None, ptxas_path=None)
cache = SimpleNamespace(dir=None)
