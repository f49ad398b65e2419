"""Rows that a program prefetches are those that a later one loads, and lie in the array."""

from itertools import pairwise

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia import backend as nvidia
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

PASS = "prefetch-next-programs"
ROWS = "distribute-rows-over-cluster"


def softmax(x, n, B: tl.constexpr):
    """In place: programs prefetch what others overwrite."""
    at, columns = tl.program_id(0) * n, tl.arange(0, B)
    v = tl.load(x + at + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(x + at + columns, e / tl.sum(e, 0), mask=columns < n)


def matrix(rows, n):
    return np.random.default_rng(n).standard_normal((rows, n)).astype(np.float16)


def compiled(n, disable):
    signature = {"x": dtypes.pointer_type(dtypes.float16), "n": dtypes.int32, "B": constexpr(2048)}
    divisible = {"x": 16} | ({"n": 16} if n % 16 == 0 else {})
    text = str(build(KernelFunction(softmax), signature, divisible).module)
    options = Options(num_warps=2, disable=disable)
    return text, backend.compile(parse_ir(text), options, target_info("sm_90a"))


@pytest.mark.parametrize("ctas", [1, 4])
@pytest.mark.parametrize("n", [2048, 1990])
def test_rows_of_later_programs_are_prefetched(n, ctas):
    ahead, rows = 2, 5
    text, artifact = compiled(
        n,
        (
            f"{ROWS}{{words-per-cta={2048 // ctas} warps-per-cta=1}}",
            f"{PASS}{{programs-ahead={ahead} min-bytes=2048 l2-share=1.0}}",
            "reduce-num-warps",
            "rematerialize-across-reductions",
        ),
    )
    assert artifact.plan.cluster_size == ctas
    x, prefetched = matrix(rows, n), []
    (expected,) = run_on_copies(parse_ir(text), [x, n], (rows, 1, 1))
    (found,) = run_ptx(artifact, [x, n], (rows,), prefetched=prefetched)
    np.testing.assert_allclose(expected.astype(float), found.astype(float), rtol=2e-3, atol=1e-5)
    for program in range(rows):
        parts = sorted((start, size) for p, start, size in prefetched if p == program)
        if program + ahead >= rows:
            assert not parts
            continue
        first = (program + ahead) * n * x.itemsize
        assert parts[0][0] == first // 16 * 16
        assert all(a + size == b for (a, size), (b, _) in pairwise(parts))
        assert sum(parts[-1]) == -(-(first + n * x.itemsize) // 16) * 16
        assert len(parts) <= ctas


@pytest.mark.parametrize("prefetches", [False, True])
def test_no_cta_of_an_sm_is_given_up_for_loads_in_flight(monkeypatch, prefetches):
    """Prefetched rows have the latency of L2."""
    seen = []

    def note(made, loaded_bytes):
        seen.append(loaded_bytes)
        return made

    monkeypatch.setattr(nvidia, "limit_for_loads", note)
    options = "{min-bytes=2048 l2-share=1.0}" if prefetches else ""
    compiled(2048, (f"{ROWS}{{words-per-cta=512 warps-per-cta=1}}", f"{PASS}{options}"))
    assert [bool(count) for count in seen] == [not prefetches]


def test_it_can_be_switched_off():
    _, artifact = compiled(2048, (f"{ROWS}{{words-per-cta=512 warps-per-cta=1}}", PASS))
    assert artifact.plan.cluster_size == 4 and "prefetch" not in artifact.asm["ptx"]
