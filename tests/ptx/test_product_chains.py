"""Products one after another outside of loops, whose operands take turns in shared memory."""

import random

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

N = 64
TILE_BYTES = 2 * N * N


def chain(a, b, out):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x, y = tl.load(a + places), tl.load(b + places)
    for _ in tl.static_range(3):
        s = tl.dot(x, tl.trans(y)).to(tl.float16)
        t = tl.dot(tl.trans(s), x).to(tl.float16)
        x = tl.dot(t, y).to(tl.float16)
    tl.store(out + places, x)


@pytest.fixture(scope="module")
def artifact():
    half = pointer_type(dtypes.float16)
    module = build(
        KernelFunction(chain),
        dict.fromkeys(("a", "b", "out"), half),
        dict.fromkeys(("a", "b", "out"), 16),
    )
    return backend.compile(module.module, Options(num_warps=4), target_info("sm_90a"))


def test_buffers_take_turns(artifact):
    """Nine products of two operands each; the tile that all read, two of a product and what is exchanged are there
    at a time."""
    assert artifact.plan.shared_bytes <= 6 * TILE_BYTES


def test_descriptors_are_made_for_each_product(artifact):
    """Kept from product to product they took registers."""
    made = artifact.asm["llvm"].count('"mov.b32 $0, $1;"')
    assert made >= 9  # and one more where the left operand is not in registers


def test_results(artifact):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(N, N)).astype(np.float16) / 8 for _ in range(2))
    x = a.astype(np.float64)
    for _ in range(3):
        s = (x @ b.T.astype(np.float64)).astype(np.float16).astype(np.float64)
        t = (s.T @ x).astype(np.float16).astype(np.float64)
        x = (t @ b.astype(np.float64)).astype(np.float16).astype(np.float64)
    arguments = [a, b, np.zeros((N, N), np.float16)]
    found = run_ptx(artifact, arguments, (1, 1, 1), random.Random(1))
    np.testing.assert_allclose(np.asarray(found[2], np.float64), x, atol=2e-3 * np.abs(x).max())


def two_products(a, b, c, d, out, n):
    rows, inner = tl.arange(0, 16), tl.arange(0, 64)
    wide = rows[:, None] * 64 + inner[None, :]
    total = tl.zeros((16, 16), tl.float32)
    for i in range(n):
        x = tl.dot(tl.load(a + i * 1024 + wide), tl.trans(tl.load(b + i * 1024 + wide)))
        y = tl.dot(tl.load(c + i * 1024 + wide), tl.trans(tl.load(d + i * 1024 + wide)))
        total += x * y
    tl.store(out + rows[:, None] * 16 + rows[None, :], total)


@pytest.mark.parametrize("loop", [False, True])
def test_copies_of_all_products_are_in_flight(loop):
    """Outside of pipelined loops, too: a product does not take a latency of memory of its own."""
    names, half = ("a", "b", "c", "d"), pointer_type(dtypes.float16)
    types = {**dict.fromkeys(names, half), "out": pointer_type(dtypes.float32)}
    types["n"] = dtypes.int32 if loop else dtypes.constexpr(1)
    module = build(KernelFunction(two_products), types, dict.fromkeys((*names, "out"), 16)).module
    off = ("schedule-loops", "pipeline-loads")
    artifact = backend.compile(module, Options(num_warps=1, disable=off), target_info("sm_90a"))
    rng = np.random.default_rng(0)
    count = 3 if loop else 1
    arrays = [rng.integers(-2, 3, (count, 16, 64)).astype(np.float16) for _ in names]
    arguments = [*(x.ravel() for x in arrays), np.zeros(256, np.float32), *([3] if loop else [])]
    a, b, c, d = (x.astype(np.float32) for x in arrays)
    wanted = ((a @ b.transpose(0, 2, 1)) * (c @ d.transpose(0, 2, 1))).sum(0)
    np.testing.assert_array_equal(run_ptx(artifact, arguments, (1,))[4].reshape(16, 16), wanted)
    ptx = artifact.asm["ptx"]
    assert ptx.rindex("cp.async.commit_group") < ptx.index("cp.async.wait_group")
