"""Assertions that end the kernel instead of being recorded for the launch."""

from __future__ import annotations

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools


@tw.jit
def checked(x, index, o, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index + i)
    tl.device_assert((at >= 0) & (at < 100), "index out of bounds")
    tl.store(o + i, tl.load(x + at))


@pytest.mark.parametrize("traps", [False, True])
def test_a_failed_assertion_is_recorded_or_ends_the_kernel(traps):
    options = Options(debug=True, assert_traps=traps)
    types = {"x": "*fp32:16", "index": "*i64:16", "o": "*fp32:16"}
    found = checked.compile(types, {"B": 256}, target="sm_90a", options=options)
    ptx = found.asm["ptx"]
    assert bool(found.plan.asserts) == (not traps)
    assert ("call.uni __assertfail" in ptx) == traps and ("atom.relaxed.sys" in ptx) == (not traps)
    assert ptx.count("checked_param_3") == (0 if traps else 2)
    assert found.cubin is not None or tools.find("ptxas") is None
