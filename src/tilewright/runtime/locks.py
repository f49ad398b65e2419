"""Locks between processes, as files: for compiling a kernel once, and for tidying the cache."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None


@contextlib.contextmanager
def file_lock(path: Path, timeout: float) -> Generator[bool]:
    """Hold the lock of the file at `path` inside the `with`; gives whether it was to be had.

    The system takes a lock back from a process that ends, however it ends. After `timeout` seconds,
    or where files cannot be locked, the body runs without the lock: it must only be wasteful, never
    wrong, to do so.
    """
    with contextlib.ExitStack() as stack:
        yield _posix(path, timeout, stack) if fcntl is not None else _other(path, timeout, stack)


def _posix(path: Path, timeout: float, stack: contextlib.ExitStack) -> bool:
    # filelock does the same, but takes 40 ms to import: as long as compiling a small kernel
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    stack.callback(os.close, handle)  # which unlocks
    end, pause = time.monotonic() + timeout, 0.001
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, 0.05)
        except OSError:
            return False
        else:
            stack.callback(fcntl.flock, handle, fcntl.LOCK_UN)  # also for a child forked meanwhile
            return True


def _other(path: Path, timeout: float, stack: contextlib.ExitStack) -> bool:
    from filelock import FileLock, Timeout

    try:
        stack.enter_context(FileLock(path, timeout=timeout))
    except (OSError, Timeout):
        return False
    return True
