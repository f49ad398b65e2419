"""`triton.runtime.cache`: folders of files under keys, in which programs for Triton keep files of their own.

tilewright's kernels are elsewhere (`runtime.cache`), with checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tilewright.integrations import triton_knobs
from tilewright.runtime.cache import cache_root, replace_file
from tilewright.runtime.compiler import own_content


class CacheManager:
    """What a manager of cached files has."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    def get_file(self, filename: str) -> str | None:
        """The path of a file; None if there is none."""
        raise NotImplementedError

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Store a file; return its path."""
        raise NotImplementedError

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files of a group, by name."""
        raise NotImplementedError

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files are a group; return that file's path."""
        raise NotImplementedError


class FileCacheManager(CacheManager):
    """Files in a folder of the cache named after the key; or of where dumps go, or overriding files are."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override, dump)
        other = triton_knobs.cache.dump_dir if dump else triton_knobs.cache.override_dir
        folder = Path(other) if dump or override else cache_root() / "files"
        self.cache_dir = str(folder / key)
        self.lock_path = None if dump or override else os.path.join(self.cache_dir, "lock")
        if dump or not override:
            os.makedirs(self.cache_dir, mode=0o700, exist_ok=True)

    def _make_path(self, filename: str) -> str:
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename: str) -> bool:
        """Whether there is such a file."""
        return os.path.exists(self._make_path(filename))

    def get_file(self, filename: str) -> str | None:
        return self._make_path(filename) if self.has_file(filename) else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        content = data if isinstance(data, bytes) else str(data).encode()
        replace_file(Path(self._make_path(filename)), content)
        return self._make_path(filename)

    def get_group(self, filename: str) -> dict[str, str] | None:
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        names = json.loads(Path(path).read_text(encoding="utf-8"))["child_paths"]
        return {name: found for name, found in names.items() if os.path.exists(found)}

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        return self.put(json.dumps({"child_paths": group}), f"__grp__{filename}", binary=False)


class RemoteCacheBackend:
    """Where a cache on another machine would be; kernels are cached on this one only."""


def _manager(key: str, **which: bool) -> CacheManager:
    chosen = triton_knobs.cache.manager_class or FileCacheManager
    return chosen(hashlib.sha256(key.encode()).hexdigest(), **which)


def get_cache_manager(key: str) -> CacheManager:
    """The manager of files under this key."""
    return _manager(key)


def get_override_manager(key: str) -> CacheManager:
    """The manager of files that override what is compiled: nothing reads them."""
    return _manager(key, override=True)


def get_dump_manager(key: str) -> CacheManager:
    """The manager of dumped files."""
    return _manager(key, dump=True)


def triton_key() -> str:
    """A digest of the compiler."""
    return own_content()
