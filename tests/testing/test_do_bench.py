"""`do_bench`: units, quantiles, return modes, hooks around runs."""

import time

import pytest

from tilewright.runtime import gpu_timing
from tilewright.runtime.timing import quantile, summarize
from tilewright.testing import do_bench


@pytest.fixture(autouse=True)
def timed_by_the_clock(monkeypatch):
    """On a GPU machine, too: once a process has used a GPU, events measure, in other numbers of runs."""
    monkeypatch.setattr(gpu_timing, "gpu_timer", lambda: None)


def test_result_is_milliseconds():
    ms = do_bench(lambda: time.sleep(0.004), warmup=1, rep=20, return_mode="min")
    assert 3.9 < ms < 400


def test_quantiles_are_ordered_as_asked():
    mid, low, high = do_bench(lambda: sum(range(500)), warmup=1, rep=5, quantiles=[0.5, 0.2, 0.8])
    assert low <= mid <= high


def test_one_quantile_is_a_number():
    assert isinstance(do_bench(lambda: None, warmup=0, rep=1, quantiles=[0.5]), float)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("min", 1), ("max", 4), ("mean", 2.5), ("median", 2.5), ("all", [4, 1, 2, 3])],
)
def test_return_modes(mode, expected):
    assert summarize([4, 1, 2, 3], None, mode) == expected


def test_unknown_mode_and_bad_quantile():
    with pytest.raises(ValueError, match="return_mode='avg': choose one of min, max"):
        do_bench(lambda: None, return_mode="avg")
    with pytest.raises(ValueError, match="between 0 and 1"):
        do_bench(lambda: None, quantiles=[50])


def test_quantile_interpolates():
    assert quantile([0.0, 10.0], 0.25) == 2.5
    assert quantile([7.0], 0.8) == 7.0


def test_setup_and_teardown_surround_every_run_unmeasured():
    events = []

    def slow_setup():
        time.sleep(0.1)
        events.append("setup")

    ms = do_bench(
        lambda: events.append("run"), warmup=0, rep=0, setup=slow_setup,
        teardown=lambda: events.append("down"), return_mode="min",
    )  # fmt: skip
    assert ms < 50
    assert events[:3] == ["setup", "run", "down"] and len(events) % 3 == 0


def test_gives_up_after_one_estimate():
    calls = []

    def slow():
        calls.append(1)
        time.sleep(0.003)

    assert do_bench(slow, rep=100, give_up_above=1.0) > 1
    assert len(calls) == 2


def test_grad_is_dropped():
    class Tensor:
        grad = 1

    tensor = Tensor()
    do_bench(lambda: None, warmup=0, rep=0, grad_to_none=[tensor])
    assert tensor.grad is None


def test_flush_runs():
    assert do_bench(lambda: None, warmup=0, rep=0, flush_cache=True, return_mode="min") < 5
