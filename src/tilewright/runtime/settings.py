"""Settings that mean nothing, or not what they seem to: refused or warned of at the next launch."""

from __future__ import annotations

import warnings

from tilewright.config import Config
from tilewright.errors import LaunchError

_warned: set[str] = set()


def check_settings(settings: Config) -> None:
    """Raise LaunchError for settings that are not understood; warn of checks that nothing makes."""
    if settings.problems:
        raise LaunchError(
            "; ".join(settings.problems), help="`tilewright doctor` prints all settings"
        )
    if settings.debug_checks:
        from tilewright.debug.context import check_names

        check_names(settings.debug_checks)
        if not settings.interpreted:
            _warn(
                "TILEWRIGHT_DEBUG_CHECKS is set, but kernels run as machine code, which makes no such checks: "
                "set TILEWRIGHT_INTERPRET=1, too"
            )


def _warn(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=2)
