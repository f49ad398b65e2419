"""Pipelined loops in `while` loops and branches, which carry the stage and the phase of their barriers."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

TARGET = target_info("sm_90a")
HALF = dtypes.pointer_type(dtypes.float16)


def persistent(a, b, c, m, n, k):
    """Tiles of C = A @ Bᵀ in turn; every third one is left out."""
    x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
    y = tl.make_tensor_descriptor(b, [n, k], [k, 1], [64, 32])
    z = tl.make_tensor_descriptor(c, [m, n], [n, 1], [64, 64])
    across = tl.cdiv(n, 64)
    tile = tl.program_id(0)
    while tile < tl.cdiv(m, 64) * across:
        row, column = tile // across * 64, tile % across * 64
        if tile % 3 != 2:
            total = tl.zeros((64, 64), tl.float32)
            for start in range(0, k, 32):
                total = tl.dot(x.load([row, start]), y.load([column, start]).T, total)
            z.store([row, column], total.to(tl.float16))
        tile += 1


def tiles_of_each_row(a, b, c, m, n, k):
    """A `while` loop in a counted one, and a branch around the inner loop without an `else`."""
    x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
    y = tl.make_tensor_descriptor(b, [n, k], [k, 1], [64, 32])
    z = tl.make_tensor_descriptor(c, [m, n], [n, 1], [64, 64])
    for row in range(0, m, 64):
        column = 0
        while column < n:
            if (row + column) % 192 != 128:
                total = tl.zeros((64, 64), tl.float32)
                for start in range(0, k, 32):
                    total = tl.dot(x.load([row, start]), y.load([column, start]).T, total)
                z.store([row, column], total.to(tl.float16))
            column += 64


def built(kernel):
    signature = dict.fromkeys("abc", HALF) | dict.fromkeys("mnk", dtypes.int32)
    return build(
        KernelFunction(kernel), signature, dict.fromkeys("abc", 16) | dict.fromkeys("mnk", 8)
    ).module


def arguments():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((s, 104)).astype(np.float16) for s in (136, 136))
    return [a, b, np.full((136, 136), -3, np.float16), 136, 136, 104]


def agrees(found, kernel):
    a, b, c, m, n, _ = arguments()
    expected = c.astype(np.float64)
    product = a.astype(np.float64) @ b.T.astype(np.float64)
    for i in range(0, m, 64):
        for j in range(0, n, 64):
            skipped = (
                (i // 64 * 3 + j // 64) % 3 == 2 if kernel is persistent else (i + j) % 192 == 128
            )
            if not skipped:
                expected[i : i + 64, j : j + 64] = product[i : i + 64, j : j + 64]
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("kernel", [persistent, tiles_of_each_row])
def test_the_interpreter_agrees(kernel):
    module = built(kernel)
    run_pipeline(module, nvidia_passes(), TARGET)
    text = str(module)
    assert "gpu.tma_load" in text and "gpu.async_copy" not in text
    agrees(run_on_copies(module, arguments(), (1, 1, 1))[2], kernel)


@pytest.mark.parametrize("kernel", [persistent, tiles_of_each_row])
def test_the_machine_agrees(kernel):
    made = backend.compile(built(kernel), Options(num_warps=4), TARGET)
    agrees(run_ptx(made, arguments(), (1, 1, 1))[2], kernel)


def beside(a, b, c, m, n, k, up, left):
    """Tiles of descriptors that may begin before their arrays: A is read, and C written, `up` rows further up,
    and C `left` columns further to the left."""
    x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
    y = tl.make_tensor_descriptor(b, [n, k], [k, 1], [64, 32])
    z = tl.make_tensor_descriptor(c, [m, n], [n, 1], [64, 64])
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, k, 32):
        total = tl.dot(x.load([-up, start]), y.load([0, start]).T, total)
    z.store([-up, -left], total.to(tl.float16))


@pytest.mark.parametrize(("up", "left"), [(0, 0), (13, 8), (64, 0), (0, 64), (-72, -8), (70, 16)])
def test_tiles_that_begin_before_the_array(up, left):
    """They are still TMA tiles, which read zeros there and write nothing."""
    signature = dict.fromkeys("abc", HALF) | dict.fromkeys(
        ("m", "n", "k", "up", "left"), dtypes.int32
    )
    divisors = dict.fromkeys("abc", 16) | dict.fromkeys("mnk", 8) | {"left": 8}
    a, b, c, *sizes = arguments()
    k = sizes[-1]
    expected = c.astype(np.float64)
    rows = [r - up for r in range(64)]
    shifted = np.zeros((64, k))
    for i, row in enumerate(rows):
        if 0 <= row < 136:
            shifted[i] = a[row]
    product = shifted @ b[:64].astype(np.float64).T
    for i, row in enumerate(rows):
        for j in range(64):
            if 0 <= row < 136 and 0 <= j - left < 136:
                expected[row, j - left] = product[i, j]
    module = build(KernelFunction(beside), signature, divisors).module
    made = backend.compile(module, Options(num_warps=4), TARGET)
    assert (
        "cp.async.bulk.tensor.2d.global" in made.asm["ptx"] and "st.global" not in made.asm["ptx"]
    )
    assert (
        "cp.async.bulk.tensor.2d.shared" in made.asm["ptx"] and "cp.async.c" not in made.asm["ptx"]
    )
    given = [a, b, c, *sizes, up, left]
    lowered = build(KernelFunction(beside), signature, divisors).module
    run_pipeline(lowered, nvidia_passes(), TARGET)
    for found in (run_on_copies(lowered, given, (1, 1, 1))[2], run_ptx(made, given, (1, 1, 1))[2]):
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-1)
