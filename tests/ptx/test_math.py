"""Functions that NVIDIA GPUs compute with approximations in hardware, executed as PTX text.

The emulator rounds `ex2.approx` and `rcp.approx` correctly, so the bounds are one or two units below those
that the functions promise.
"""

import math

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def functions(x_ptr, out_ptr, NAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.math.tanh(x) if NAME == "tanh" else tl.erf(x))


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_errors_in_ulp(name):
    x = np.concatenate(
        [np.linspace(-12, 12, 1000), 10.0 ** np.linspace(-38, 38, 20), [0.0, -0.0, np.inf, np.nan]]
    )
    x = np.concatenate([x, -x])[:2048].astype(np.float32)
    x.resize(2048)
    made = functions.compile(
        {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16"}, {"NAME": name, "N": 2048}, target="sm_90a"
    )
    text = made.asm["ptx"]
    assert "ex2.approx" in text and "div." not in text
    found = run_ptx(made.artifact, [x, np.empty_like(x)], (1, 1, 1))[1]
    function = np.tanh if name == "tanh" else np.vectorize(math.erf)
    expected = function(x.astype(np.float64))
    finite = np.isfinite(expected)
    error = abs(found - expected)[finite] / np.spacing(abs(expected[finite]).astype(np.float32))
    assert error.max() <= 3
    assert np.isnan(found[np.isnan(x)]).all()
    assert (np.signbit(found) == np.signbit(x))[~np.isnan(x)].all()


@tw.jit
def clamped(x_ptr, out_ptr, high, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.maximum(tl.minimum(tl.load(x_ptr + i), high), 0))


def test_integers_clamped_at_zero():
    """Where LLVM makes `min.relu` of two clamps."""
    x = np.arange(-128, 128, dtype=np.int32)
    made = clamped.compile(
        {"x_ptr": "*i32:16", "out_ptr": "*i32:16", "high": "i32"}, {"N": 256}, target="sm_90a"
    )
    assert "min.relu" in made.asm["ptx"]
    found = run_ptx(made.artifact, [x, np.empty_like(x), 60], (1, 1, 1))[1]
    assert found.tolist() == np.clip(x, 0, 60).tolist()
