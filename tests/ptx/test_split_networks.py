"""Networks of splits and joins executed as PTX: few exchanges, and the right elements."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def hadamard(x_ptr, out_ptr, ROWS: tl.constexpr, N: tl.constexpr, LOG_N: tl.constexpr):
    """Sums and differences of elements whose indices differ in one bit, from the highest bit to the lowest."""
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    for stage in tl.static_range(LOG_N):
        stride: tl.constexpr = N >> (stage + 1)
        pairs = tl.trans(tl.reshape(x, (ROWS, N // (2 * stride), 2, stride)), (0, 1, 3, 2))
        a, b = tl.split(pairs)
        x = tl.reshape(tl.trans(tl.join(a + b, a - b), (0, 1, 3, 2)), (ROWS, N))
    tl.store(out_ptr + at, x.to(out_ptr.dtype.element_ty))


def transformed(x):
    for bit in reversed(range(x.shape[1].bit_length() - 1)):
        pairs = x.reshape(len(x), -1, 2, 1 << bit)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([a + b, a - b], axis=2).reshape(len(x), -1)
    return x


@pytest.mark.parametrize(("rows", "n", "barriers"), [(1, 2048, 3), (2, 512, 3), (4, 64, 2)])
def test_stages_of_a_transform_exchange_several_bits_at_once(rows, n, barriers):
    constants = {"ROWS": rows, "N": n, "LOG_N": n.bit_length() - 1}
    types = {"x_ptr": "*bf16:16", "out_ptr": "*fp32:16"}
    kernel = hadamard.compile(types, constants, target="sm_90a", num_warps=4)
    chance = np.random.default_rng(2)
    x = chance.integers(-8, 8, (rows, n)).astype(ml_dtypes.bfloat16)
    _, out = run_ptx(kernel, [x, np.zeros((rows, n), np.float32)], (1,))
    np.testing.assert_array_equal(out, transformed(x.astype(np.float32)))
    text = kernel.asm["ptx"]
    assert text.count("bar.sync") + text.count("barrier.cta.sync") <= 2 * barriers
