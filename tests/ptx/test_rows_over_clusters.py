"""Rows that the CTAs of a cluster hold together, as PTX executed thread by thread."""

import random
import re
from types import SimpleNamespace

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

PASS = "distribute-rows-over-cluster"
KINDS = {"f": dtypes.float32, "e": dtypes.float16, "i": dtypes.int32}


def softmax(x, out, n, B: tl.constexpr):
    at, columns = tl.program_id(0) * n, tl.arange(0, B)
    v = tl.load(x + at + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at + columns, e / tl.sum(e, 0), mask=columns < n)


def softmax_of_rows(x, out, rows, n, B: tl.constexpr):
    """A loop over rows: exchanges of one iteration wait for those of the one before."""
    columns = tl.arange(0, B)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + columns, mask=columns < n, other=float("-inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + row * n + columns, e / tl.sum(e, 0), mask=columns < n)


def layer_norm_backward(x, w, dy, dx, mean, rstd, n, B: tl.constexpr):
    """As a matrix of one row; two values a reduction in the second."""
    row, columns = tl.program_id(0), tl.arange(0, B)[None, :]
    at = row * n + columns
    v = tl.load(x + at, mask=columns < n, other=0.0)
    slope = tl.load(dy + at, mask=columns < n, other=0.0)
    slope *= tl.load(w + columns, mask=columns < n, other=0.0)
    m, r = tl.load(mean + row), tl.load(rstd + row)
    hat = tl.where(columns < n, (v - m) * r, 0.0)
    along, shift = tl.sum(hat * slope, 1) / n, tl.sum(slope, 1) / n
    tl.store(dx + at, (slope - hat * along[:, None] - shift[:, None]) * r, mask=columns < n)


def rms_norm(x, w, out, n, B: tl.constexpr):
    """Types and alignments of other widths, in one layout all the same."""
    row, columns = tl.program_id(0), tl.arange(0, B)
    w = tl.load(w + columns, mask=columns < n, other=0.0)
    v = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(v * v, 0) / n + 1e-5)
    tl.store(out + row * n + columns, v * rstd * w, mask=columns < n)


def cross_entropy(x, labels, loss, n, B: tl.constexpr):
    """The gradient in place of the scores, of which one is read by all; rows that are left out."""
    row, columns = tl.program_id(0), tl.arange(0, B)
    label = tl.load(labels + row)
    if label >= 0:
        wanted = tl.load(x + row * n + label)
        v = tl.load(x + row * n + columns, mask=columns < n, other=float("-inf"))
        most, at = tl.max(v, 0, return_indices=True)
        e = tl.exp(v - most)
        total = tl.sum(e, 0)
        slope = tl.where(columns == label, e / total - 1, e / total) + at
        tl.store(x + row * n + columns, slope, mask=columns < n)
        tl.store(loss + row, most + tl.log(total) - wanted)


def matrix(rows, n, kind=np.float32):
    return np.random.default_rng(n).standard_normal((rows, n)).astype(kind)


CASES = {
    "softmax": (softmax, {"x": matrix(2, 1000), "out": matrix(2, 1000), "n": 1000}, 2),
    "rows after one another": (
        softmax_of_rows, {"x": matrix(5, 1000), "out": matrix(5, 1000), "rows": 5, "n": 1000}, 2,
    ),
    "softmax in half precision": (
        softmax, {"x": matrix(2, 1024, np.float16), "out": matrix(2, 1024, np.float16), "n": 1024}, 2,
    ),
    "layer norm, backward": (
        layer_norm_backward,
        {"x": matrix(2, 960), "w": matrix(1, 960)[0], "dy": matrix(3, 960)[:2], "dx": matrix(2, 960),
         "mean": matrix(1, 2)[0], "rstd": matrix(1, 2)[0] + 3, "n": 960}, 2,
    ),
    "RMS norm of mixed types": (
        rms_norm,
        {"x": matrix(2, 992, np.float16), "w": matrix(1, 992)[0], "out": matrix(2, 992), "n": 992}, 2,
    ),
    "cross entropy": (
        cross_entropy,
        {"x": matrix(3, 1000), "labels": np.array([7, -1, 999], np.int32), "loss": matrix(1, 3)[0],
         "n": 1000}, 3,
    ),
}  # fmt: skip


def compiled(name, disable):
    kernel, arguments, programs = CASES[name]
    signature = {
        key: dtypes.pointer_type(KINDS[v.dtype.kind if v.dtype != np.float16 else "e"])
        if isinstance(v, np.ndarray) else dtypes.int32 for key, v in arguments.items()
    }  # fmt: skip
    divisible = {
        key: 16 for key, v in arguments.items() if isinstance(v, np.ndarray) or v % 16 == 0
    }
    signature["B"] = constexpr(1024)
    text = str(build(KernelFunction(kernel), signature, divisible).module)
    expected = run_on_copies(parse_ir(text), list(arguments.values()), (programs, 1, 1))
    options = Options(num_warps=2, disable=disable)
    return backend.compile(parse_ir(text), options, target_info("sm_90a")), expected


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_held_by_several_ctas(name):
    _, arguments, programs = CASES[name]
    artifact, expected = compiled(
        name,
        (
            f"{PASS}{{words-per-cta=256 words-per-cta-in-loops=256 warps-per-cta=2}}",
            "rematerialize-across-reductions{words-per-cta=256}",
            "reduce-num-warps",
        ),
    )
    plan, values = artifact.plan, list(arguments.values())
    assert (plan.cluster_size > 1, plan.threads) == (True, 64)
    assert "ld.shared::cluster" not in artifact.asm["ptx"]
    is_repeated = "%ntid.z" in artifact.asm["ptx"]  # what waits in fp16 and is computed again
    assert is_repeated == (name == "softmax in half precision")
    found = run_ptx(artifact, values, (programs,), random.Random(1))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("disable", [(), ("order-instructions",)])
def test_what_is_computed_is_stored_at_once(disable):
    """64 threads store 1024 elements in fp16 twice each: exponentials of the second half follow the first store."""
    options = (
        f"{PASS}{{words-per-cta=256 warps-per-cta=1}}",
        "rematerialize-across-reductions{words-per-cta=256}",
        "reduce-num-warps",
    )
    artifact, expected = compiled("softmax in half precision", (*options, *disable))
    ptx = artifact.asm["ptx"]
    assert len(re.findall(r"st\.global", ptx)) > 1
    assert (ptx.index("st.global") < ptx.rindex("ex2.approx")) == (not disable)
    values = list(CASES["softmax in half precision"][1].values())
    found = run_ptx(artifact, values, (2,), random.Random(1))
    np.testing.assert_allclose(found[1], expected[1], rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize(("pattern", "message"), [
    (r"@%p\d+ mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%r\d+\],[^;]*;", "deadlock"),
    (r"mbarrier\.try_wait[^;]*; @!p bra \w+;", "more arrivals than|copy in flight|nothing was written"),
])  # fmt: skip
def test_exchanges_in_a_loop_take_turns(pattern, message):
    """The third one is counted where the first one was, which expects its bytes again."""
    off = (
        f"{PASS}{{words-per-cta-in-loops=256 warps-per-cta=2}}",
        "reduce-num-warps",
        "batch-loads",
    )
    artifact, _ = compiled("rows after one another", off)
    ptx, count = re.subn(pattern, "", artifact.asm["ptx"], count=1)
    assert count and "st.async" in ptx
    with pytest.raises(Fault, match=message):
        run_ptx(
            SimpleNamespace(plan=artifact.plan, asm={"ptx": ptx}),
            list(CASES["rows after one another"][1].values()), (2,),
        )  # fmt: skip


def test_it_can_be_switched_off():
    artifact, _ = compiled("softmax", (PASS,))
    assert artifact.plan.cluster_size == 1 and "cluster" not in artifact.asm["ptx"]
