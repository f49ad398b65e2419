"""Loops that run backwards: the same results as forwards, from the other end of the row."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
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


def softmax(x, out, n, B: tl.constexpr):
    at, columns = tl.program_id(0).to(tl.int64) * n, tl.arange(0, B)
    most = tl.full((B,), float("-inf"), tl.float32)
    for i in range(0, n, B):
        row = tl.load(x + at + i + columns, mask=i + columns < n, other=float("-inf"))
        most = tl.maximum(most, row)
    highest = tl.max(most, 0)
    total = tl.zeros((B,), tl.float32)
    for i in range(0, n, B):
        row = tl.load(x + at + i + columns, mask=i + columns < n, other=float("-inf"))
        total += tl.exp(row - highest)
    whole = tl.sum(total, 0)
    for i in range(0, n, B):
        row = tl.load(x + at + i + columns, mask=i + columns < n, other=float("-inf"))
        tl.store(out + at + i + columns, tl.exp(row - highest) / whole, mask=i + columns < n)


def built(kernel):
    pointers = dict.fromkeys(("x", "out"), dtypes.pointer_type(dtypes.float32))
    signature = {**pointers, "n": dtypes.int32, "B": constexpr(128)}
    return str(build(KernelFunction(kernel), signature, {"x": 16, "out": 16}).module)


@pytest.mark.parametrize("n", [1, 700])
def test_results_are_the_same(n):
    text = built(softmax)
    random = np.random.default_rng(1)
    x = random.standard_normal(2 * n).astype(np.float32)
    arguments = [x, np.zeros_like(x), n]
    expected = run_on_copies(parse_ir(text), arguments, (2, 1, 1))
    results, texts = [], set[str]()
    for disable in ((), ("reverse-loops",)):
        module = parse_ir(text)
        artifact = backend.compile(
            module, Options(num_warps=1, disable=disable), target_info("sm_90a")
        )
        texts.add(artifact.asm["ptx"])
        results.append(run_ptx(artifact, arguments, (2,))[1])
    assert len(texts) == 2
    np.testing.assert_allclose(results[0], expected[1], rtol=1e-5)
    np.testing.assert_array_equal(*results)
