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
