"""Processes that need the same kernel compile it once; one that died or hangs stops nobody."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.runtime import cache as cache_module
from tilewright.runtime.cache import DiskCache, file_lock

SCRIPT = """
import os, sys, time
import numpy as np
sys.path.insert(0, {root!r})
from tests.runtime.kernels import add_kernel
from tilewright.backends import registry

backend = registry.get("cpu").backend
compile_it = backend.compile

def slowly(*arguments, **more):
    with open({log!r}, "a") as log:
        log.write("compiles\\n")
    time.sleep({seconds})
    return compile_it(*arguments, **more)

backend.compile = slowly
x, y, out = (np.arange(64, dtype=np.float32) for _ in range(3))
add_kernel[(1,)](x, y, out, 64, BLOCK=64)
assert np.array_equal(out, x + y)
"""


@pytest.fixture
def start(tmp_path, private_cache):
    """Start a process that compiles a kernel slowly; each compilation is a line of `start.log`."""
    root, log = str(Path(__file__).resolve().parents[2]), tmp_path / "log"

    def run(seconds):
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(root=root, log=str(log), seconds=seconds)],
            env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(private_cache)},
        )

    run.log = log
    return run


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_processes_compile_once(start):
    processes = [start(0.5), start(0.5)]
    assert [p.wait(60) for p in processes] == [0, 0]
    assert start.log.read_text().splitlines() == ["compiles"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_process_that_dies_while_it_compiles(start):
    dies = start(60)
    wait_for(start.log.exists)
    dies.send_signal(signal.SIGKILL)
    dies.wait(60)
    begin = time.monotonic()
    assert start(0).wait(60) == 0
    assert time.monotonic() - begin < 30
    assert len(start.log.read_text().splitlines()) == 2


def test_one_that_hangs_is_waited_for_only_so_long(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "_PATIENCE_SECONDS", 0.05)
    cache = DiskCache(tmp_path)
    key = cache.key("a")
    with cache.making(key):
        begin = time.monotonic()
        with cache.making(key):
            assert time.monotonic() - begin >= 0.05


def test_threads_exclude_each_other(tmp_path):
    inside, most = [0], [0]

    def work():
        with file_lock(tmp_path / "lock", 30) as held:
            assert held
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.02)
            inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_unusable_folders_and_errors_inside(tmp_path):
    with file_lock(tmp_path / "none" / "lock", 1) as held:
        assert not held
    with pytest.raises(KeyError), file_lock(tmp_path / "lock", 1):
        raise KeyError
    with file_lock(tmp_path / "lock", 0) as held:
        assert held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_meanwhile_does_not_keep_the_lock(tmp_path):
    with file_lock(tmp_path / "lock", 1):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
    try:
        with file_lock(tmp_path / "lock", 0) as held:
            assert held
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
