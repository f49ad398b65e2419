"""Progress of the tuning of a kernel, for terminals."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

#: tuning that takes less shows nothing
_SILENT_SECONDS = 0.5


@contextmanager
def progress(name: str, configs: int) -> Generator[Callable[..., None]]:
    """A progress bar on a terminal once tuning has taken half a second, whatever it is doing by then.

    Inside the `with`, `advance()` is called when a configuration has compiled, `advance(best)` when one was
    timed: `best` is the shortest time so far in ms.
    """
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    shown = _Bar(name, configs)
    timer = threading.Timer(_SILENT_SECONDS, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield shown.advance
    finally:
        timer.cancel()
        shown.stop()


class _Bar:
    def __init__(self, name: str, configs: int) -> None:
        self.name, self.configs = name, configs
        self.compiled = self.timed = 0
        self.best = math.inf
        self._bar: Any = None
        self._row: Any = None
        self._ended = False
        self._lock = threading.Lock()

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        with self._lock:
            if self._ended:
                return
            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._row = self._bar.add_task("", total=2 * self.configs)
            self._update()

    def advance(self, best: float | None = None) -> None:
        with self._lock:
            if best is None:
                self.compiled += 1
            else:
                self.timed += 1
                self.best = best
            if self._bar is not None:
                self._update()

    def _update(self) -> None:
        so_far = f", best {self.best:.3g} ms" if math.isfinite(self.best) else ""
        text = f"autotuning {self.name}: {self.compiled} compiled, {self.timed} of {self.configs} timed{so_far}"
        self._bar.update(self._row, completed=self.compiled + self.timed, description=text)

    def stop(self) -> None:
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()
