"""`launch_cooperative_grid=True`: programs that wait for each other run at the same time, or not at all."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError
from tilewright.runtime.drivers.cpu import driver


@tw.jit
def all_arrive(arrived, out, n):
    """A grid barrier: each program waits until all have come."""
    tl.atomic_add(arrived, 1, sem="release")
    seen = tl.atomic_add(arrived, 0, sem="acquire")
    while seen < n:
        seen = tl.atomic_add(arrived, 0, sem="acquire")
    tl.store(out + tl.program_id(0), seen)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
    driver().refresh_threads()
    yield
    monkeypatch.undo()
    driver().refresh_threads()


@pytest.mark.timeout(60)
def test_programs_that_wait_for_each_other(two_threads):
    if driver().threads < 2:
        pytest.skip("one thread")
    for _ in range(3):  # the second launch takes the fast path
        arrived, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
        all_arrive[(2,)](arrived, out, 2, launch_cooperative_grid=True)
        assert out.tolist() == [2, 2]


def test_larger_grids_are_refused(two_threads):
    arrived, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    for _ in range(2):
        with pytest.raises(LaunchError, match="64 programs cannot all run at the same time"):
            all_arrive[(8, 8)](arrived, out, 64, launch_cooperative_grid=True)
    assert arrived[0] == 0
    all_arrive[(1,)](arrived, out, 1, launch_cooperative_grid=True)
    all_arrive[(1,)](arrived, out, 1)
    assert arrived[0] == 2


def test_exported_cpu_code(tmp_path):
    types = {"arrived": "*i32", "out": "*i32", "n": "i32"}
    compiled = all_arrive.compile(types, launch_cooperative_grid=True)
    with pytest.raises(LaunchError, match="exported CPU code gives a thread several programs"):
        compiled.export(tmp_path)
