"""The disk cache: named blobs under a key, safe against crashes, other processes and other users.

An entry is one file: a header line with a format mark and the SHA-256 of the rest, then a JSON line
that says which blobs follow and how long they are. Files are written next to their place and renamed
into it, so a reader sees a whole entry or none; one whose checksum is wrong counts as absent. The
folder is private (0700) and refused when another user owns it: its contents are run as code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from tilewright import config

_FORMAT = b"tilewright-cache-1"
_SUFFIX = ".entry"
#: look at the folder's size when this part of its limit (one in …) was written since the last look
_SWEEP_PART = 16
#: how long to wait for another process to compile a kernel before doing it as well
_PATIENCE_SECONDS = 60.0


def cache_root() -> Path:
    """The cache folder of the settings, or the user's."""
    root = config.current().cache_dir
    if root is None:
        import platformdirs

        root = Path(platformdirs.user_cache_dir("tilewright"))
    return root


def default_directory() -> Path:
    """The folder of compiled kernels."""
    return cache_root() / "kernels"


class DiskCache:
    """Blobs on disk. No method raises for what is wrong with the disk: a cache may always miss."""

    def __init__(self, directory: Path, limit_bytes: int = 1 << 30) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes

    @staticmethod
    def key(*parts: str) -> str:
        """A key that depends on every part and on where each ends."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def path(self, key: str) -> Path:
        return self.directory / key[:2] / (key + _SUFFIX)

    def load(self, key: str) -> dict[str, bytes] | None:
        """The blobs stored under `key`; None if there are none or they are damaged."""
        path = self.path(key)
        data = _read(path)
        if data is None:
            path_of = _second_place.get()
            second = None if path_of is None else path_of(key)
            data = None if second is None else _read(second)
            if second is None or data is None:
                return None
            path = second
        blobs = _decode(key, data)
        with contextlib.suppress(OSError):
            if blobs is None:
                path.unlink()
            elif time.time() - path.stat().st_mtime > 3600:
                os.utime(path)  # the eviction order; an hour's grain keeps hits cheap
        return blobs

    def store(self, key: str, blobs: Mapping[str, bytes]) -> bool:
        """Keep `blobs` under `key`. False if that was not possible."""
        path = self.path(key)
        try:
            if not self._prepare(path.parent):
                return False
            replace_file(path, _encode(key, blobs))
        except OSError:
            return False
        if self._sweep_is_due(sum(map(len, blobs.values()))):
            self.evict()
        return True

    def _sweep_is_due(self, size: int) -> bool:
        """Whether the stores since the last sweep, this one of `size` bytes included, warrant one.

        A sweep looks at every entry, which takes longer than a compile once there are thousands. All
        processes count their stores in the length of one file, a byte a KiB.
        """
        try:
            counter = os.open(self._written, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(counter, b"." * (1 + (size >> 10)))
                return os.fstat(counter).st_size << 10 > self.limit_bytes // _SWEEP_PART
            finally:
                os.close(counter)
        except OSError:
            return True

    @property
    def _written(self) -> Path:
        return self.directory / ".written"

    def _prepare(self, folder: Path) -> bool:
        if not folder.is_dir():
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
        status = os.stat(self.directory)
        if not _is_ours(status):
            return False
        if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
            os.chmod(self.directory, 0o700)
        return True

    def evict(self) -> int:
        """Delete the entries used longest ago until the folder fits its limit; how many went."""
        with file_lock(self.directory / ".lock", 0) as held:
            return self._evict() if held else 0

    @contextlib.contextmanager
    def making(self, key: str) -> Generator[None]:
        """Inside the `with`, no other process makes what belongs under `key` (see `file_lock`).

        Keys share 256 lock files, which are not removed.
        """
        folder = self.directory / key[:2]
        with contextlib.suppress(OSError):
            self._prepare(folder)
        with file_lock(folder / ".lock", _PATIENCE_SECONDS):
            yield

    def _evict(self) -> int:
        entries, total, now = [], 0, time.time()
        with contextlib.suppress(OSError):
            self._written.unlink()
        for path in self.directory.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.name.startswith(".new-") and now - status.st_mtime > 3600:
                    path.unlink()  # left by a process that was killed
                elif path.suffix == _SUFFIX:
                    entries.append((status.st_mtime, status.st_size, path))
                    total += status.st_size
        gone = 0
        for _, size, path in sorted(entries, key=lambda entry: entry[0]):
            if total <= self.limit_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
                gone += 1
        return gone

    def clear(self) -> None:
        """Delete all entries."""
        for path in self.directory.glob(f"*/*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                path.unlink()


_second_place: ContextVar[Callable[[str], Path | None] | None] = ContextVar(
    "second_place", default=None
)


@contextlib.contextmanager
def also_reading(path_of: Callable[[str], Path | None]) -> Generator[None]:
    """Inside the `with`, load an entry that the folder does not have from `path_of(key)`."""
    token = _second_place.set(path_of)
    try:
        yield
    finally:
        _second_place.reset(token)


def _read(path: Path) -> bytes | None:
    """The file's content; None if it cannot be read or belongs to another user."""
    try:
        with path.open("rb") as stream:
            return stream.read() if _is_ours(os.fstat(stream.fileno())) else None
    except OSError:
        return None


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid in (os.getuid(), 0)


def _encode(key: str, blobs: Mapping[str, bytes]) -> bytes:
    index = json.dumps({"key": key, "blobs": [[n, len(b)] for n, b in blobs.items()]}).encode()
    body = index + b"\n" + b"".join(blobs.values())
    return _FORMAT + b" " + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _decode(key: str, data: bytes) -> dict[str, bytes] | None:
    head, _, body = data.partition(b"\n")
    if head != _FORMAT + b" " + hashlib.sha256(body).hexdigest().encode():
        return None
    line, _, rest = body.partition(b"\n")
    try:
        index = json.loads(line)
        if index["key"] != key:
            return None
        blobs, offset = {}, 0
        for name, size in index["blobs"]:
            blobs[name] = rest[offset : offset + size]
            offset += size
    except (ValueError, KeyError, TypeError):
        return None
    return blobs if offset == len(rest) else None


def replace_file(path: Path, data: bytes) -> None:
    """Write a file of which readers see the old content or the new one, never a part."""
    # tempfile would cost 5 ms of imports; these three distinguish writers as well
    name = path.parent / f".new-{os.getpid()}-{threading.get_ident()}-{time.time_ns()}"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def disk_cache() -> DiskCache:
    """The cache that the settings name now."""
    return DiskCache(default_directory(), config.current().cache_limit_bytes)


try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None


@contextlib.contextmanager
def file_lock(path: Path, timeout: float) -> Generator[bool]:
    """Hold the lock of the file at `path` inside the `with`; returns whether it was acquired.

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
