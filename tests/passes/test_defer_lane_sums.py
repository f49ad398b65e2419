"""`defer-lane-sums`: rows' sums that lanes carry in parts, in machine code as well, and sums that stay as they are."""

import numpy as np
import pytest
from tests.attention import attention_ir
from tests.passes.test_attention import case as attention_case
from tests.passes.test_attention import check
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build

NAME = "defer-lane-sums"


@tw.jit
def sums(X, Y, Out, n, FORM: tl.constexpr):
    """Sums of the rows of x y, of n tiles y, each added to what is left of those before."""
    r, c = tl.arange(0, 64), tl.arange(0, 64)
    x = tl.load(X + r[:, None] * 64 + c[None, :])
    total = tl.full((64,), 3.0, tl.float32)
    top = tl.full((64,), -100.0, tl.float32)
    for i in range(0, n):
        q = tl.dot(x, tl.load(Y + i * 4096 + r[:, None] * 64 + c[None, :]))
        if FORM == "plain":
            total += tl.sum(q, 1)
        elif FORM == "scaled":
            total = total * tl.max(q, 1) + tl.sum(q, 1)
        elif FORM == "softmax":
            new = tl.maximum(top, tl.max(q, 1))
            total = total * tl.exp2(top - new) + tl.sum(tl.exp2(q - new[:, None]), 1)
            top = new
        else:  # the sum so far is read
            total = total + tl.sum(q * total[:, None], 1)
    tl.store(Out + r, total)


def compiled(form, **options):
    types = dict.fromkeys(("X", "Y"), dtypes.pointer_type(dtypes.float16))
    types |= {"Out": dtypes.pointer_type(dtypes.float32), "n": dtypes.int32}
    types["FORM"] = constexpr(form)
    module = build(sums, types, dict.fromkeys(("X", "Y", "Out"), 16)).module
    return backend.compile(module, Options(num_warps=4, **options), target_info("sm_90a"))


def case(n, form):
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal((k, 64)).astype(np.float16) / 8 for k in (64, 64 * n))
    total, top = np.full(64, 3.0), np.full(64, -100.0)
    for part in y.astype(np.float64).reshape(n, 64, 64):
        q = x.astype(np.float64) @ part
        new = np.maximum(top, q.max(1))
        if form == "softmax":
            total = total * np.exp2(top - new) + np.exp2(q - new[:, None]).sum(1)
        elif form == "scaled":
            total = total * q.max(1) + q.sum(1)
        else:
            total = total + (q if form == "plain" else q * total[:, None]).sum(1)
        top = new
    return [x, y, np.zeros(64, np.float32), n], total


@pytest.mark.parametrize("form", ["plain", "softmax"])
def test_sums_in_parts(form):
    """Shuffles add the parts behind the loop: as many as before, each once."""
    artifact, other = compiled(form), compiled(form, disable=(NAME,))
    before, after = (a.asm["ptx"].count("shfl.sync.bfly") for a in (other, artifact))
    assert before == after and artifact.asm["ptx"] != other.asm["ptx"]
    for n in (0, 1, 4):
        arguments, wanted = case(n, form)
        out = run_ptx(artifact, arguments, (1, 1, 1))[2]
        np.testing.assert_allclose(np.asarray(out), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", ["scaled", "read"])
def test_sums_of_all_lanes(form):
    """A factor may be infinite, which parts of zero do not survive; or the sum so far is needed."""
    artifact, other = compiled(form), compiled(form, disable=(NAME,))
    assert artifact.asm["ptx"] == other.asm["ptx"]
    arguments, wanted = case(3, form)
    out = run_ptx(artifact, arguments, (1, 1, 1))[2]
    np.testing.assert_allclose(np.asarray(out), wanted, rtol=1e-3, atol=1e-3)


def test_both_loops_of_attention():
    """The second begins with what the first has summed."""
    arguments, wanted = attention_case(1, 200, 64, True)
    options = Options(num_warps=4, num_stages=2)
    artifact = backend.compile(attention_ir(64, 64, 64, True, True), options, target_info("sm_90a"))
    check(run_ptx(artifact, arguments, (4, 1, 1)), wanted)
