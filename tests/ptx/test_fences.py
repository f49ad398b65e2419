"""Fences between writes of threads and asynchronous reads: one for all that a barrier publishes."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr, pointer_type
from tilewright.frontend import build

M, N, K = 64, 64, 32


@tw.jit
def dequantized(A, B, Scales, Out, rows, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A is copied to shared memory, B goes there through registers."""
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    acc = tl.zeros([M, N], tl.float32)
    for start in range(0, depth, K):
        a = tl.load(A + (i % rows) * depth + start + k[None, :])
        b = tl.load(B + (start + k[:, None]) * N + j)
        scale = tl.load(Scales + start // K)
        acc = tl.dot(a, (b * scale).to(tl.float16), acc)
    tl.store(Out + i * N + j, acc)


@pytest.mark.parametrize("depth", [K, 5 * K])
def test_one_fence_of_what_is_copied_and_what_is_stored(depth):
    half, single = pointer_type(dtypes.float16), pointer_type(dtypes.float32)
    types = {"A": half, "B": pointer_type(dtypes.int8), "Scales": single, "Out": single}
    types |= dict.fromkeys(("rows", "depth"), dtypes.int32)
    signature = types | {n: constexpr(v) for n, v in {"M": M, "N": N, "K": K}.items()}
    module = build(dequantized, signature, {n: 16 for n in types if n != "rows"}).module
    artifact = backend.compile(module, Options(num_warps=4, num_stages=3), target_info("sm_90a"))
    lines = artifact.asm["ptx"].splitlines()
    product = next(i for i, line in enumerate(lines) if "wgmma.mma_async" in line)
    begin = max(i for i in range(product) if lines[i].startswith("$L__BB"))
    loop = "\n".join(lines[begin:product])
    assert "cp.async.wait_group" in loop and loop.count("fence.proxy.async") == 1

    rng = np.random.default_rng(depth)
    a = rng.normal(size=(48, depth)).astype(np.float16)
    b = rng.integers(-8, 8, (depth, N), dtype=np.int8)
    scales = rng.integers(1, 4, depth // K).astype(np.float32)
    arguments = [a.ravel(), b.ravel(), scales, np.zeros(M * N, np.float32), 48, depth]
    after = run_ptx(artifact, arguments, (1,))
    wanted = a[np.arange(M) % 48].astype(float) @ (b * np.repeat(scales, K)[:, None])
    np.testing.assert_allclose(after[3].reshape(M, N), wanted, rtol=1e-3, atol=1e-2)
