"""Threads: static parts, two launching threads, forked children, faults, and the GIL."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.fake_backend import ADD, THREADS, FakeBackend, use
from tests.runtime.kernels import add_kernel, one_pointer

from tilewright.runtime.drivers.cpu import driver

ROOT = str(Path(__file__).resolve().parents[2])


def sleeper(scratch=4096, sleep=200, cost=0.0, fail=-1):
    return FakeBackend(THREADS, scratch=scratch, cost=cost, SCRATCH=scratch, SLEEP=sleep, FAIL=fail)


def test_static_contiguous_parts():
    with use(sleeper()):
        out = np.zeros(40, np.int64)
        one_pointer[(40,)](out)
    steps = np.diff(out)
    assert set(out) == set(range(min(driver().threads, 40)))
    assert (steps >= 0).all() and np.bincount(out).max() - np.bincount(out).min() <= 1


def test_cheap_launches_stay_on_one_thread():
    with use(sleeper(cost=1.0, sleep=0)):
        out = np.full(40, -1, np.int64)
        one_pointer[(40,)](out)
        assert not out.any()


def test_two_python_threads_at_once():
    """Launching and compiling at once; one of them runs alone when the pool is taken."""
    with use(sleeper(sleep=50)):
        errors = []

        def work(seed):
            try:
                for i in range(30):
                    out = np.full(16 + seed, -1, np.int64)
                    one_pointer[(16 + seed,)](out)
                    assert (out >= 0).all()
                    assert (np.diff(out) >= 0).all()
                    del i
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert not errors


def test_one_compilation_for_two_threads():
    class Slow(FakeBackend):
        def compile(self, *args):
            time.sleep(0.2)
            return super().compile(*args)

    with use(Slow(ADD, BLOCK=64)) as backend:
        results = []

        def work():
            x, y, out = (np.ones(64, np.float32) for _ in range(3))
            add_kernel[(1,)](x, y, out, 64, BLOCK=64)
            results.append(out.sum())

        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert results == [128.0] * 3 and len(backend.compiled) == 1


def test_other_python_threads_run_meanwhile():
    with use(sleeper(sleep=100_000)):
        out = np.zeros(8, np.int64)
        one_pointer[(1,)](out)
        ticks, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                ticks[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        before = ticks[0]
        one_pointer[(8,)](out)
        gained = ticks[0] - before
        stop.set()
        thread.join()
        assert gained >= 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_and_its_child():
    with use(sleeper(sleep=100)):
        out = np.zeros(16, np.int64)
        one_pointer[(16,)](out)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                out[:] = -1
                one_pointer[(16,)](out)
                first = (out >= 0).all()
                driver().refresh_threads()
                one_pointer[(16,)](out)
                grandchild = os.fork()
                if grandchild == 0:
                    one_pointer[(16,)](out)
                    os._exit(0)
                _, status = os.waitpid(grandchild, 0)
                code = 0 if first and status == 0 else 2
            finally:
                os._exit(code)
        deadline = time.time() + 30
        while time.time() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        else:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            pytest.fail("the child hangs")
        assert status == 0
        one_pointer[(16,)](out)


def test_scratch_grows_between_kernels():
    out = np.zeros(8, np.int64)
    for size in (64, 1 << 20, 128, 1 << 22):
        one_pointer._launcher = one_pointer._run = None
        os.environ["TILEWRIGHT_CACHE_DIR"] += "x"
        with use(sleeper(scratch=size, sleep=0)):
            one_pointer[(8,)](out)


GOMP = """
import sys
sys.path.insert(0, {root!r})
import torch, numpy as np
torch.mm(torch.ones(300, 300), torch.ones(300, 300))
from tests.runtime.test_threads import *
with use(sleeper()):
    out = np.zeros(40, np.int64)
    one_pointer[(40,)](out)
    assert driver().pool_kind == "libgomp", driver().pool_kind
    assert set(out) == set(range(torch.get_num_threads())), out
    torch.set_num_threads(1)
    one_pointer[(40,)](out)
    assert not out.any()
    torch.set_num_threads(2)
    test_forked_child_and_its_child()
print("ok")
"""


def test_shares_the_threads_of_torch():
    pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, "-c", GOMP.format(root=ROOT)], capture_output=True, text=True, timeout=120
    )
    assert run.stdout.strip() == "ok", run.stderr[-2000:]
