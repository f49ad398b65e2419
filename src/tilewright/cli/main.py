"""Entry of the `tilewright` command. Errors of ours print as text, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: those of the process); gives its exit status.

    Wrong usage gives 2, a fault in a kernel or in its use 1. TILEWRIGHT_FULL_TRACEBACK=1 lets
    errors through with their tracebacks.
    """
    from tilewright import config
    from tilewright.cli.app import app
    from tilewright.errors import TilewrightError

    try:
        app(arguments, prog_name="tilewright")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    except TilewrightError as error:
        if config.current().full_traceback:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        sys.stderr.close()
        return 1
    return 0
