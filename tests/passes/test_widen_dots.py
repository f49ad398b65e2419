"""Loops with narrow dots compute two iterations at once: the same results, for even and for odd numbers of iterations."""

import numpy as np
import pytest
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes, tile_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline
from tilewright.passes.registry import parse_pipeline

TARGET = target_info("sm_90a")
WIDEN = parse_pipeline("widen-dots{widest=32}")


def kernel(q, k, v, row, out, n, stride, start, N: tl.constexpr, KIND: tl.constexpr):
    """The sums of attention's gradient of queries, of blocks of N keys."""
    i, j, d = tl.arange(0, 64), tl.arange(0, N), tl.arange(0, 32)
    x = tl.load(q + i[:, None] * 32 + d[None, :])
    m = tl.load(row + i)
    total = tl.zeros((64, 32), tl.float32)
    keys = k + (start + j)[None, :] * stride + d[:, None]
    values = v + (start + j)[None, :] * stride + d[:, None]
    for b in range(n):
        key = tl.load(keys)
        score = tl.exp2(tl.dot(x, key) - m[:, None])
        if KIND == "column":
            score += tl.load(row + b * N + j)[None, :]
        elif KIND == "masked":
            score = tl.where(i[:, None] >= (b * N + j)[None, :], score, 0.0)
        elif KIND == "reduced":
            score -= tl.max(score, 1)[:, None]
        score *= tl.dot(x, tl.load(values)) * 0.5
        total += tl.dot(score.to(tl.float16), tl.trans(key))
        keys += (N + 8 if KIND == "gaps" else N) * stride
        values += N * stride
    tl.store(out + i[:, None] * 32 + d[None, :], total)


def module_of(kind="", n=32, trips=None):
    half, single = dtypes.pointer_type(dtypes.float16), dtypes.pointer_type(dtypes.float32)
    signature = {
        "q": half, "k": half, "v": half, "row": single, "out": single,
        "n": dtypes.int32 if trips is None else constexpr(trips), "stride": dtypes.int32, "start": dtypes.int32,
        "N": constexpr(n), "KIND": constexpr(kind),
    }  # fmt: skip
    module = build(KernelFunction(kernel), signature, dict.fromkeys("qkv", 16)).module
    for name, value in backend.facts(Options(num_warps=4), TARGET).items():
        module.body.block.first_op.attributes[name] = value
    return module


def columns(module):
    """Of the results of the dots, in order."""
    return [op.results[0].type.get_shape()[1] for op in module.walk() if op.name == "tile.dot"]


@pytest.mark.parametrize("kind", ["", "column"])
@pytest.mark.parametrize("n", [16, 32])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 6, 7])
def test_the_same_sums(kind, n, trips):
    before, after = module_of(kind, n), module_of(kind, n)
    run_pipeline(before, tile_passes(), TARGET)
    run_pipeline(after, tile_passes(), TARGET)
    run_pipeline(after, WIDEN, TARGET, verify="each")
    assert columns(before) == [n, n, 32]
    assert columns(after) == [2 * n, 2 * n, 32, n, n, 32]
    rng = np.random.default_rng(trips)
    q, k, v = (rng.standard_normal(64 * 32 + 9 * n * 48).astype(np.float16) / 4 for _ in range(3))
    row, out = rng.standard_normal(512).astype(np.float32) / 4, np.zeros(64 * 32, np.float32)
    arguments = [q, k, v, row, out, trips, 48, 1]
    expected, found = (run_on_copies(m, arguments, (1,))[-1] for m in (before, after))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("trips", "dots"), [(6, 3), (7, 6)])
def test_an_even_number_leaves_no_iteration(trips, dots):
    module = module_of(trips=trips)
    run_pipeline(module, (*tile_passes(), *WIDEN), TARGET, verify="each")
    assert len(columns(module)) == dots


@pytest.mark.parametrize(("kind", "n"), [("masked", 32), ("reduced", 32), ("gaps", 32), ("", 64)])
def test_loops_that_stay(kind, n):
    """Values that depend on the iteration, reductions over columns, keys that do not follow, and wide dots."""
    module = module_of(kind, n)
    run_pipeline(module, (*tile_passes(), *WIDEN), TARGET)
    assert columns(module) == [n, n, 32]


def test_off_unless_asked_for():
    module = module_of()
    run_pipeline(module, nvidia_passes(), TARGET)
    dots = [op for op in module.walk() if op.name == "gpu.wgmma"]
    assert [op.results[0].type.get_shape()[1] for op in dots] == [32, 32, 32]
