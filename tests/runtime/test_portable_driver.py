"""The driver for systems without a native launcher gives what the native one gives."""

import _thread
import threading
import time

import numpy as np
import pytest
from tests.runtime.fake_backend import ADD, SLOTS, THREADS, FakeBackend, use
from tests.runtime.kernels import add_kernel, one_pointer, scalars

from tilewright.errors import DeviceAssertError, LaunchError
from tilewright.runtime.drivers import cpu
from tilewright.runtime.drivers.portable import PortableDriver


@pytest.fixture(autouse=True)
def portable(monkeypatch):
    monkeypatch.setattr(cpu, "_driver", PortableDriver())


def test_add():
    x, y, out = np.ones(1000, np.float32), np.ones(1000, np.float32), np.zeros(1000, np.float32)
    with use(FakeBackend(ADD, BLOCK=64)):
        for _ in range(2):
            out[:] = 0
            add_kernel[(16,)](x, y, out, 1000, BLOCK=64)
            assert (out == 2).all()
        add_kernel[(0,)](x, y, out, 1000, BLOCK=64)
        out.flags.writeable = False
        for grid in ((16,), (-1,)):
            with pytest.raises(LaunchError):
                add_kernel[grid](x, y, out, 1000, BLOCK=64)


def test_slots():
    out = np.zeros(8, np.int64)
    with use(FakeBackend(SLOTS)):
        for _ in range(2):
            out[:] = 0
            scalars[(2, 3)](out, -5, 2.5, c=1 << 40)
            assert out[1] == -5 and out.view(np.float32)[4] == 2.5 and out[3] == 1 << 40
            assert list(out[4:]) == [2, 3, 1, 6]


def test_threads_scratch_and_faults():
    site = ("small", __file__, 3, 4)
    with use(FakeBackend(THREADS, 5000, 0.0, None, [site], SCRATCH=5000, SLEEP=1, FAIL=7)):
        out = np.zeros(40, np.int64)
        with pytest.raises(DeviceAssertError, match="program \\(7, 0, 0\\): small"):
            one_pointer[(40,)](out)
        assert set(out) == set(range(cpu.driver().threads))


def test_ctrl_c_stops_between_programs():
    """All threads have stopped when KeyboardInterrupt comes: they use the caller's arrays."""
    program_ns, programs = 10_000_000, 400
    with use(
        FakeBackend(THREADS, 5000, program_ns, SCRATCH=5000, SLEEP=program_ns // 1000, FAIL=-1)
    ):
        out = np.full(programs, -1, np.int64)
        one_pointer[(1,)](out)
        threading.Timer(0.1, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            one_pointer[(programs,)](out)
        ran = (out >= 0).sum()
        assert 0 < ran < programs // 2
        time.sleep(0.05)
        assert (out >= 0).sum() == ran
