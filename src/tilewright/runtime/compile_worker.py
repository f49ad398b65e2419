"""Worker process that compiles kernels on request (see `workers`).

It reads requests from standard input and answers on the original standard output; other output is redirected to
standard error. It exits at the end of the input or after an idle timeout.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import select
import signal
import sys
from typing import Any

from tilewright import config
from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.formats import formats_read_when_used
from tilewright.runtime.backend_compile import compile_here
from tilewright.runtime.workers import send

_IDLE_SECONDS = 30.0
_NEEDED = (
    "tilewright.ir.text",
    "tilewright.backends.cpu.backend",
    "tilewright.backends.nvidia.backend",
)


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the process that started this one
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    with formats_read_when_used():
        _serve(requests, answers)


def _serve(requests: Any, answers: Any) -> None:
    for name in _NEEDED:
        importlib.import_module(name)
    gc.freeze()
    send(answers, "ready")
    while select.select([requests], [], [], _IDLE_SECONDS)[0]:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        send(answers, _answer(*request))


def _answer(settings: dict[str, str], data: bytes, options: Any, machine: Any) -> tuple[Any, Any]:
    """An artifact or None, and the error to raise: class, arguments, attributes.

    For failures other than errors in the kernel both are None; the parent process reproduces them.
    """
    from tilewright.ir.text import module_from_bytes

    config.adopt(settings)
    try:
        return compile_here(module_from_bytes(data), options, machine), None
    except InternalError:
        return None, None
    except TilewrightError as error:
        described = type(error), error.args, error.__dict__
        try:
            pickle.dumps(described)
        except Exception:
            return None, None
        return None, described
    except Exception:
        return None, None


if __name__ == "__main__":
    main()
