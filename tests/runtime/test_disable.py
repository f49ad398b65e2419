"""`disable=` leaves passes out, in launches and in configurations."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError, PassError


@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 2 * x, mask=at < n)


def arrays():
    x = np.arange(1000, dtype=np.float32)
    return x, np.zeros_like(x)


def test_launches_with_passes_off():
    x, out = arrays()
    whole = double[(4,)](x, out, 1000, BLOCK=256)
    for off in (("raise-access",), ["raise-access"], "raise-access", "raise-access, licm"):
        for _ in range(2):
            out[:] = 0
            made = double[(4,)](x, out, 1000, BLOCK=256, disable=off)
            np.testing.assert_array_equal(out, 2 * x)
            assert "raise-access" in made.options.disable and made is not whole
            assert double[(4,)](x, out, 1000, BLOCK=256) is whole
    assert "load_view" in whole.asm["cpu"] or whole.asm["cpu"] != made.asm["cpu"]


def test_wrong_names():
    x, out = arrays()
    with pytest.raises(PassError, match="rise-access"):
        double[(4,)](x, out, 1000, BLOCK=256, disable="rise-access")
    with pytest.raises(LaunchError, match="disable=7"):
        double[(4,)](x, out, 1000, BLOCK=256, disable=7)


def test_configurations_with_passes_off(monkeypatch):
    tuned = tw.autotune(
        [tw.Config({"BLOCK": 256}), tw.Config({"BLOCK": 256}, disable=("licm", "cse"))], key=["n"]
    )(double)
    x, out = arrays()
    tuned[(4,)](x, out, 1000)
    np.testing.assert_array_equal(out, 2 * x)
    assert len(tuned.configs_timings) == 2 and len(set(tuned.configs)) == 2
    assert "disable: ('licm', 'cse')" in str(tuned.configs[1])
