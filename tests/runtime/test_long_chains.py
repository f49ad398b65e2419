"""Long chains of operations each of which needs the one before twice: no pass may follow every path."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

ROUNDS = 12  # 2^36 paths


@tw.jit
def xorshift(out, n, BLOCK: tl.constexpr, R: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = at + 1
    for _ in tl.static_range(R):
        x = x ^ (x << 13)
        x = x ^ ((x >> 17) & 0x7FFF)
        x = x ^ (x << 5)
    tl.store(out + at, x, mask=at < n)


@tw.jit
def scattered(out, n, BLOCK: tl.constexpr, R: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, inside = at, at < n
    for i in tl.static_range(R):
        x = tl.where(x > 3, x + 1, x - 1) + (x >> 8)
        inside = (inside & (at < n - i)) | (inside & (at > i))
    tl.store(out + (x & (BLOCK - 1)), at, mask=inside)


@pytest.mark.parametrize("kernel", [xorshift, scattered], ids=lambda k: k.fn.__name__)
@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_compiles(kernel, target):
    types = {"out": "*i32:16", "n": "i32"}
    assert kernel.compile(types, {"BLOCK": 1024, "R": ROUNDS}, target=target).artifact.object_code


def test_results():
    out, n = np.zeros(1000, np.int32), 1000
    xorshift[(4,)](out, n, BLOCK=256, R=ROUNDS)
    x = np.arange(1, n + 1, dtype=np.uint32)
    for _ in range(ROUNDS):
        x ^= x << np.uint32(13)
        x ^= (x.view(np.int32) >> 17).view(np.uint32) & np.uint32(0x7FFF)
        x ^= x << np.uint32(5)
    np.testing.assert_array_equal(out, x.view(np.int32))
