"""Settings that are not understood are errors or warnings, never silence."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import config
from tilewright.runtime import options


@tw.jit
def ones(o, B: tl.constexpr):
    tl.store(o + tl.arange(0, B), 1.0)


def launch():
    ones._launcher = ones._run = None
    out = np.zeros(8, np.float32)
    ones[(1,)](out, B=8)
    return bool((out == 1).all())


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "TILEWRIGHT_INTERPRET",
            "irr",
            r"TILEWRIGHT_INTERPRET='irr' is not understood \(give 1, 0 or ir\)",
        ),
        (
            "TILEWRIGHT_NUM_THREADS",
            "abc",
            "TILEWRIGHT_NUM_THREADS='abc' is not understood.*positive integer",
        ),
        ("TILEWRIGHT_NUM_THREADS", "0", "positive integer"),
        ("TILEWRIGHT_CACHE_LIMIT_MB", "1GB", "CACHE_LIMIT_MB='1GB'"),
        ("TILEWRIGHT_ALWAYS_COMPILE", "maybe", "ALWAYS_COMPILE='maybe'"),
        ("TILEWRIGHT_CACHE_AUTOTUNING", "never", "CACHE_AUTOTUNING='never'"),
        ("TILEWRIGHT_INTERPERT", "1", "did you mean TILEWRIGHT_INTERPRET"),
        ("TILEWRIGHT_DEBUG_CHECKS", "masked,rases", "rases"),
    ],
)
def test_refused(name, value, says, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(tw.LaunchError, match=says):
        launch()


@pytest.mark.parametrize(
    ("name", "value"),
    [("OMP_NUM_THREADS", "4,2"), ("OMP_NUM_THREADS", "x"), ("TRITON_PRINT_AUTOTUNING", "2"), ("TILEWRIGHT_RESULTS", "a"),
     ("TILEWRIGHT_INTERPRET", "Off"), ("TILEWRIGHT_INTERPRET", ""), ("TILEWRIGHT_DEBUG", "no")],
)  # fmt: skip
def test_accepted(name, value, monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_NUM_THREADS", raising=False)
    monkeypatch.setenv(name, value)
    assert launch()
    assert not config.current().interpreted and not config.current().problems
    assert config.current().num_threads == (4 if value == "4,2" else config.current().num_threads)


def test_checks_without_an_interpreter(monkeypatch):
    monkeypatch.setattr(options, "_warned", set())
    monkeypatch.setenv("TILEWRIGHT_DEBUG_CHECKS", "masked")
    with pytest.warns(UserWarning, match="set TILEWRIGHT_INTERPRET=1"):
        assert launch()
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "1")
    assert launch()
