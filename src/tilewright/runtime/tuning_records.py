"""Tuning results on disk: one JSON file for each kernel, target and tuning key.

A file holds one entry a configuration, so that adding a configuration to a list measures only the
new one. Writers merge under a lock and replace the file atomically; a file that cannot be read, or
was written for something else, counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.runtime.cache import cache_root
from tilewright.runtime.locks import file_lock

_FORMAT = 1


def records_directory() -> Path:
    """Where tuning results are kept: `tuning` in the cache folder."""
    return cache_root() / "tuning"


class TuningRecord:
    """Timings of one kernel on one target for one tuning key.

    `identity` is everything the timings depend on except the configuration; it is stored in the
    file and compared on load. Timings are `[median, low, high]` in ms, or a text: why it failed.
    """

    def __init__(self, identity: Mapping[str, str], directory: Path | None = None) -> None:
        self.identity = dict(identity)
        text = json.dumps(self.identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:40]
        self.path = (directory or records_directory()) / f"{digest}.json"

    def load(self) -> dict[str, list[float]]:
        """Timings by configuration text; {} when there are none."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT or data["identity"] != self.identity:
                return {}
            return {
                str(name): [float(t) for t in times]
                for name, times in data["timings"].items()
                if times and all(isinstance(t, (int, float)) for t in times)
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def update(self, timings: Mapping[str, list[float]]) -> None:
        """Merge `timings` into the file. A folder that cannot be written is no error."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file_lock(Path(f"{self.path}.lock"), 5):
                self._write({**self.load(), **timings})

    def _write(self, timings: Mapping[str, Any]) -> None:
        data = {"format": _FORMAT, "identity": self.identity, "timings": dict(timings)}
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".tuning-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(data, stream, indent=1, sort_keys=True)
            Path(name).replace(self.path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
