"""Worker processes that compile the configurations of an autotuned kernel in parallel.

The GIL serializes compilation in threads. Inside `side_by_side(jobs, cores)`, compilations of several
threads are sent to worker processes. The front end runs in this process, which has the kernel's source. A worker
receives tile IR (`ir.text`), options, the target and environment settings, and returns
the artifact or the error. Until workers have started, and if none can be, kernels are compiled in this process.

A worker is a new Python process (`compile_worker`), not a fork: forking is unsafe with threads or a CUDA context.
It is started at the first configuration that misses the cache, is reused by later
tunings, and exits after an idle timeout or with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Generator
from typing import Any, cast

from tilewright import config
from tilewright.backends.base import Artifact, Options
from tilewright.runtime import backend_compile
from tilewright.targets import TargetInfo

#: compilations from which on workers pay: to start one takes as long as several small kernels
_MIN_JOBS = 6
_MAX_WORKERS = 16


class WorkerGone(Exception):
    """A worker exited or sent an unexpected answer."""


def send(stream: Any, content: Any) -> None:
    """One message, which `pickle.load` reads."""
    pickle.dump(content, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


class Worker:
    """One process. Raises OSError or WorkerGone where it does not start."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tilewright.runtime.compile_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=config.environment_of_child(PYTHONPATH=paths),
        )
        try:
            self._hear()  # that it is ready
        except WorkerGone:
            self.close()
            raise

    def _hear(self) -> Any:
        try:
            return pickle.load(cast(Any, self._process.stdout))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise WorkerGone(str(error)) from None

    def compile(self, module: bytes, options: Options, machine: TargetInfo) -> Artifact | None:
        """Compile to an artifact, or return None if the failure should be reproduced in this process.

        Raises errors in the kernel, and WorkerGone.
        """
        try:
            send(self._process.stdin, (config.variables(), module, options, machine))
        except (OSError, ValueError) as error:
            raise WorkerGone(str(error)) from None
        result, error = self._hear()
        if error is not None:
            kind, arguments, state = error
            raised = kind.__new__(kind, *arguments)
            raised.__dict__.update(state)
            raise raised
        return result

    def close(self) -> None:
        """Terminate the worker, even if it is busy."""
        with contextlib.suppress(OSError):
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()
        self._process.wait()


class Workers:
    """Some workers, and who waits for them."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.wanted = 0
        """The requested number of workers."""
        self.users = 0
        self._free: list[Worker] = []
        self._all: list[Worker] = []
        self._starting = 0
        self._here = 0
        self._failed = False
        self._changed = threading.Condition()

    def compile(self, module: Any, options: Options, machine: TargetInfo) -> Artifact:
        """Compile a tile IR module (consumed) in a worker that is free, or here."""
        worker = self._take()
        if worker is not None:
            try:
                # xDSL, which the process has imported by now without reading formats (ir.formats)
                from tilewright.ir.text import module_to_bytes

                artifact = worker.compile(module_to_bytes(module), options, machine)
            except WorkerGone:
                self._lose(worker)
            except BaseException:
                self._give_back(worker)
                raise
            else:
                self._give_back(worker)
                if artifact is not None:
                    return artifact
            with self._changed:
                self._here += 1
        try:
            return backend_compile.compile_here(module, options, machine)
        finally:
            with self._changed:
                self._here -= 1
                self._changed.notify()

    def _take(self) -> Worker | None:
        """A free worker, or None when it is this process's turn."""
        with self._changed:
            while True:
                if self._free:
                    return self._free.pop()
                if self._here < (2 if self._starting else 1):
                    break
                if not self._all and not self._starting:
                    break  # no worker will start; threads still overlap with the assembler
                self._changed.wait()
            self._here += 1
            return None

    def start(self) -> None:
        """Begin to start the workers that are missing; it takes them as long as this process's imports."""
        with self._changed:
            missing = 0 if self._failed else max(0, self.wanted - len(self._all) - self._starting)
            self._starting += missing
        for _ in range(missing):
            threading.Thread(target=self._start_one, name="tilewright-worker", daemon=True).start()

    def _start_one(self) -> None:
        worker = None
        with contextlib.suppress(OSError, WorkerGone, ValueError):
            worker = Worker()
        with self._changed:
            self._starting -= 1
            if worker is None:
                self._failed = True  # here and now it does not work: do not try again
            else:
                self._all.append(worker)
                self._free.append(worker)
            self._changed.notify_all()

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            self._free.append(worker)
            self._changed.notify()

    def _lose(self, worker: Worker) -> None:
        worker.close()
        with self._changed:
            self._all.remove(worker)
            self._changed.notify_all()

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            workers, self._all, self._free = self._all, [], []
            self.wanted = 0
        for worker in workers:
            worker.close()


_lock = threading.Lock()


def worthwhile(jobs: int, cores: int) -> bool:
    """Whether workers make `jobs` compilations faster.

    On two cores one worker starts while the other core could have compiled a third of a usual list.
    """
    return cores > 2 and jobs >= _MIN_JOBS and os.name == "posix" and bool(sys.executable)


@contextlib.contextmanager
def side_by_side(jobs: int, cores: int) -> Generator[None]:
    """Let compilations inside be done by workers, if `jobs` of them on `cores` cores make it pay."""
    if not worthwhile(jobs, cores):
        yield
        return
    count = min(cores - 1, jobs // 2, _MAX_WORKERS)
    with _lock:
        workers = backend_compile.known_workers
        if workers is None or workers.owner != os.getpid():
            workers = backend_compile.known_workers = Workers()
            atexit.register(workers.close)
        workers.users += 1
        workers.wanted = max(workers.wanted, count)
    try:
        yield
    finally:
        with _lock:
            workers.users -= 1
