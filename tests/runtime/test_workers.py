"""Compiling in other processes: the same code, the same errors, and no harm where a worker fails."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Options
from tilewright.errors import CompilationError, PassError
from tilewright.runtime import backend_compile
from tilewright.runtime.autotune import Config
from tilewright.runtime.backend_compile import active_workers
from tilewright.runtime.workers import Worker, WorkerGone, Workers, side_by_side

SIGNATURE = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32"}


@tw.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 3):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0))
    tl.store(out_ptr + at, FACTOR * tl.load(x_ptr + at, mask=at < n) + total, mask=at < n)


@tw.jit
def only_on_gpus(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    tl.store(out_ptr + at, y)


@pytest.fixture(scope="module")
def worker():
    started = Worker()
    yield started
    started.close()


@pytest.fixture
def one_worker(worker, monkeypatch):
    """Everything compiles in one worker, which the test may end."""
    pool = Workers()
    pool.users = 1
    pool._free, pool._all = [worker], [worker]
    monkeypatch.setattr(backend_compile, "known_workers", pool)
    return pool


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_the_same_code_and_plan(one_worker, monkeypatch, target):
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    asked = []
    compile_ = Worker.compile

    def counted(self, *arguments):
        asked.append(arguments)
        return compile_(self, *arguments)

    monkeypatch.setattr(Worker, "compile", counted)
    there = scale.compile(SIGNATURE, {"BLOCK": 256}, target=target)
    assert len(asked) == 1
    monkeypatch.setattr(one_worker, "users", 0)
    here = scale.compile(SIGNATURE, {"BLOCK": 256}, target=target)
    assert len(asked) == 1
    assert there.artifact.object_code == here.artifact.object_code
    assert there.plan == here.plan
    assert there.asm["llvm"] == here.asm["llvm"]


def test_errors_are_those_of_this_process(one_worker, monkeypatch):
    with pytest.raises(CompilationError) as there:
        only_on_gpus.compile(SIGNATURE, {"BLOCK": 64})
    monkeypatch.setattr(one_worker, "users", 0)
    with pytest.raises(CompilationError) as here:
        only_on_gpus.compile(SIGNATURE, {"BLOCK": 64})
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)
    assert "inline_asm_elementwise" in str(there.value) and "test_workers.py:" in str(there.value)
    assert len(one_worker._free) == 1


def test_settings_go_with_each_request(one_worker, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DISABLE", "assign-layouts")
    with pytest.raises(PassError, match="assign-layouts cannot be switched off"):
        scale.compile(SIGNATURE, {"BLOCK": 256}, target="sm_90a")
    monkeypatch.delenv("TILEWRIGHT_DISABLE")
    assert scale.compile(SIGNATURE, {"BLOCK": 256}, target="sm_90a").asm["ptx"]


def test_a_worker_that_dies_is_replaced_by_this_process(monkeypatch):
    pool, doomed = Workers(), Worker()
    pool.users = 1
    pool._free, pool._all = [doomed], [doomed]
    monkeypatch.setattr(backend_compile, "known_workers", pool)
    doomed._process.kill()
    assert scale.compile(SIGNATURE, {"BLOCK": 128}).artifact.object_code
    assert not pool._all and not pool._free and pool._here == 0
    with pytest.raises(WorkerGone):
        doomed.compile(b"", Options(), None)  # type: ignore[arg-type]


def test_where_no_process_can_be_started(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr(backend_compile, "known_workers", None)
    with side_by_side(8, 4):
        pool = active_workers()
        with ThreadPoolExecutor(4) as threads:
            made = list(
                threads.map(
                    lambda factor: scale.compile(SIGNATURE, {"BLOCK": 64, "FACTOR": factor}),
                    range(2, 8),
                )
            )
    assert pool is not None and pool._here == 0 and not pool._all
    assert len({kernel.hash for kernel in made}) == 6
    assert active_workers() is None


def test_the_first_compilations_of_a_process_may_be_several_at_once(tmp_path):
    """Dialects, targets and tables are loaded when they are first needed."""
    program = tmp_path / "several.py"
    program.write_text(
        "import threading, tilewright as tw, tilewright.language as tl\n"
        "@tw.jit\n"
        "def k(x_ptr, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + at, tl.exp(tl.load(x_ptr + at)))\n"
        "start, done = threading.Barrier(4), []\n"
        "def one(i):\n"
        "    start.wait()\n"
        "    target = ('sm_90a', 'cpu')[i % 2]\n"
        "    done.append(k.compile({'x_ptr': '*fp32'}, {'BLOCK': 64 << i}, target=target))\n"
        "threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]\n"
        "[t.start() for t in threads], [t.join() for t in threads]\n"
        "assert len(done) == 4\n"
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_short_lists_and_two_cores_start_nothing():
    for jobs, cores in ((2, 16), (100, 2)):
        with side_by_side(jobs, cores):
            assert active_workers() is None


def test_a_forked_child_leaves_its_parents_workers_alone(one_worker, monkeypatch):
    assert active_workers() is one_worker
    monkeypatch.setattr(one_worker, "owner", os.getpid() + 1)
    assert active_workers() is None


@pytest.mark.slow
def test_a_long_list_is_tuned_with_workers(monkeypatch):
    """All configurations compile, some of them elsewhere, and land in this process's cache."""
    monkeypatch.setattr("tilewright.runtime.tuning.cores", lambda: 3)
    monkeypatch.setattr(backend_compile, "known_workers", None)
    there = []
    compile_, here = Worker.compile, backend_compile.compile_here
    first = threading.Event()

    def counted(self, *arguments):
        there.append(1)
        first.set()
        return compile_(self, *arguments)

    def slowly(*arguments):
        first.wait(120)  # until a worker has had its share, however slowly it starts
        return here(*arguments)

    monkeypatch.setattr(Worker, "compile", counted)
    monkeypatch.setattr(backend_compile, "compile_here", slowly)
    configs = [Config({"BLOCK": 32, "FACTOR": factor}) for factor in range(2, 10)]

    def bench(call, quantiles):
        call()
        return [1.0] * len(quantiles)

    x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    tuner = tw.autotune(configs, key=["n"], do_bench=bench)(scale)
    tuner[(1,)](x, out, 32)
    assert there and not tuner.failures
    np.testing.assert_array_equal(out, 2 + 32)
    assert backend_compile.known_workers is not None
    backend_compile.known_workers.close()
    again = scale.compile({**SIGNATURE, "n": "i32:16+"}, {"BLOCK": 32, "FACTOR": 9})
    assert again.from_cache
