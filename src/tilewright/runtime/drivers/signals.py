"""Install the native signal handlers: Ctrl-C stops a kernel, a fault in one says what ran (`native.signals`).

Handlers found before stay in use: ours call them. SIGINT is taken where a Python function handles it. The default
one raises KeyboardInterrupt, and stops a launch at once; any other may want the work to go on, so that a launch is
stopped by the second interrupt in it. `signal.signal` puts Python's handler back; ours then returns with the next
launch of some length.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Generator
from typing import Any

from tilewright.runtime.native.signals import PREVIOUS, SIGBUS, SIGINT, SIGSEGV, SIGURG, Sigaction

#: to find the line of a fault, which compiles the kernel again
_LAST_WORDS_SECONDS = 30
_SA_SIGINFO, _SA_RESTART, _SA_ONSTACK = 4, 0x10000000, 0x08000000


HANDLERS = {
    SIGINT: "tw_on_interrupt",
    SIGSEGV: "tw_on_fault",
    SIGBUS: "tw_on_fault",
    SIGURG: "tw_on_urgent",
}


def supported(machine: str, system: str) -> bool:
    """Whether kernels can be stopped and their faults reported on this machine: x86-64 Linux."""
    return system == "Linux" and machine in ("x86_64", "AMD64", "amd64")


class Signals:
    """The handlers of one process, on the state words of the native launcher."""

    def __init__(self, state: Any, addresses: dict[str, int]) -> None:
        self._state = state
        self._addresses = addresses
        self._libc = ctypes.CDLL(None)
        self._previous: dict[int, Sigaction] = {}
        key = ctypes.c_uint32()
        ends = ctypes.c_void_p(addresses["tw_thread_ends"])
        if self._libc.pthread_key_create(ctypes.byref(key), ends) != 0:
            raise OSError("no thread-specific storage is left in this process")
        state.record_key = key.value
        state.interrupts = 1
        self.after_fork()
        for number in HANDLERS:
            if number != SIGINT:
                self._take(number)
        self.watch_interrupts()
        self._install = self.watch_interrupts
        for kept in (self._install, state, self._libc):  # until the process ends: handlers use them
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        state.watch = id(self._install)

    def after_fork(self) -> None:
        """In a forked child the thread that forked is the main one, and runs no kernel."""
        self._state.main_thread = threading.main_thread().ident or 0
        self._state.main_job = None

    def watch_interrupts(self) -> None:
        """Take SIGINT if Python handles it."""
        current = self._now(SIGINT)
        handler = signal.getsignal(signal.SIGINT)
        if (current.handler or 0) < 2 or not callable(handler):
            self._state.declined = current.handler
            return
        self._state.interrupts = 1 if handler is signal.default_int_handler else 2
        self._take(SIGINT)

    def _now(self, number: int) -> Sigaction:
        found = Sigaction()
        self._libc.sigaction(number, None, ctypes.byref(found))
        return found

    def _take(self, number: int) -> None:
        before = self._now(number)
        ours = self._addresses[HANDLERS[number]]
        if before.handler == ours:
            return
        self._previous[number] = before
        kept = self._state.previous[PREVIOUS[number]]
        kept.handler, kept.flags = before.handler, before.flags & 0xFFFFFFFF
        # without SA_RESTART a blocking call of Python's returns when SIGINT comes, as with its own handler
        flags = before.flags | _SA_SIGINFO | _SA_ONSTACK
        if number != SIGINT:
            flags |= _SA_RESTART
        new = Sigaction(ours, before.mask, flags, before.restorer)
        self._libc.sigaction(number, ctypes.byref(new), None)

    def give_back(self, number: int) -> None:
        """Put the handler found before back."""
        with contextlib.suppress(KeyError):
            self._libc.sigaction(number, ctypes.byref(self._previous[number]), None)

    @contextlib.contextmanager
    def ending(self, number: int) -> Generator[None]:
        """End the process by a signal after the `with`, as it would have without our handler: faulthandler may
        say more. What fails inside does not matter, nor what hangs: memory may be damaged.
        """
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LAST_WORDS_SECONDS)
        with contextlib.suppress(Exception):
            yield
        sys.stderr.flush()
        self.give_back(number)
        signal.raise_signal(number)
        reset = Sigaction()  # a handler that returned
        self._libc.sigaction(number, ctypes.byref(reset), None)
        signal.raise_signal(number)
