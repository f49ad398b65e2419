"""Tensor descriptors made on the host and passed to kernels."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError
from tilewright.runtime.descriptors import TensorDescriptor


@tw.jit
def product(a, b, c, K, BLOCK_K: tl.constexpr):
    rows, columns = a.block_shape[0], b.block_shape[0]
    m, n = tl.program_id(0) * rows, tl.program_id(1) * columns
    total = tl.zeros((rows, columns), tl.float32)
    for k in range(0, K, BLOCK_K):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(c.dtype))


def arrays(m=100, n=72, k=80):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (n, k)))
    return a, b, np.zeros((m, n), np.float32)


def launch(a, b, c, block=(32, 16, 32)):
    m, n, k = block
    product[tw.cdiv(a.shape[0], m), tw.cdiv(b.shape[0], n)](
        TensorDescriptor.from_tensor(a, [m, k]),
        TensorDescriptor.from_tensor(b, [n, k]),
        TensorDescriptor.from_tensor(c, [m, n]),
        a.shape[1],
        BLOCK_K=k,
    )


@pytest.mark.parametrize("interpret", ["0", "1", "ir"])
def test_edges_and_block_shapes(interpret, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    for block in ((32, 16, 32), (64, 64, 16)):
        a, b, c = arrays()
        launch(a, b, c, block)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b.T, rtol=1e-4, atol=1e-4)


def test_a_part_of_an_array_in_a_tuple():
    @tw.jit
    def copy(pair, row):
        source, target = pair
        target.store([0, 0], source.load([row, -2]))

    x = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)
    out = np.zeros((4, 4), np.float32)
    source = TensorDescriptor(x, shape=[10, 8], strides=[8, 1], block_shape=[4, 4], padding="nan")
    copy[1,]((source, TensorDescriptor.from_tensor(out, [4, 4])), 8)
    expected = np.full((4, 4), np.nan)
    expected[:2, 2:] = x[8:10, :2]
    np.testing.assert_array_equal(out, expected)


def test_a_hook_chooses_the_block_shape():
    def blocks(arguments):
        m, n, k = arguments["BLOCK_M"], arguments["BLOCK_N"], arguments["BLOCK_K"]
        for name, shape in (("a", [m, k]), ("b", [n, k]), ("c", [m, n])):
            arguments[name].block_shape = shape

    @tw.autotune(
        [
            tw.Config({"BLOCK_M": m, "BLOCK_N": 16, "BLOCK_K": 16}, pre_hook=blocks)
            for m in (16, 64)
        ],
        key=["K"],
    )
    @tw.jit
    def tuned(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
        m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
        c.store([m, n], c.load([m, n]) + total)

    a, b, c = arrays()
    given = [TensorDescriptor.from_tensor(x, [1, 1]) for x in (a, b, c)]
    tuned[lambda meta: (tw.cdiv(100, meta["BLOCK_M"]), tw.cdiv(72, meta["BLOCK_N"]))](*given, 80)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T, rtol=1e-4, atol=1e-4)


def test_code_for_gpus_knows_the_alignment():
    a, b, c = arrays()
    launch(a, b, c)
    signature = next(iter(product.launcher.compiled.values())).signature
    from tilewright.runtime.compiler import build_ir
    from tilewright.runtime.options import Options

    text = str(build_ir(product, signature, Options()))
    assert 'tile.divisibility = 16 : i32, tile.name = "a.base"' in text
    assert 'tile.divisibility = 4 : i32, tile.name = "a.strides.0"' in text


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(block_shape=[4]), "do not have the same 1 to 5 dimensions"),
        (dict(strides=[8, 2]), "the last stride is 2, and must be 1"),
        (dict(strides=[7, 1]), "a stride of 7 elements of 4 bytes is no multiple of 16 bytes"),
        (dict(padding="one"), "padding is 'zero' or 'nan', not 'one'"),
        (dict(shape=[-1, 8]), r"shape \[-1, 8\] has a negative extent"),
        (dict(base=np.zeros(99, np.float32)[1:]), "does not begin at a multiple of 16 bytes"),
    ],
)
def test_wrong_descriptors(change, message):
    base = np.zeros((8, 8), np.float32)
    good = dict(base=base, shape=[8, 8], strides=[8, 1], block_shape=[4, 4])
    with pytest.raises(LaunchError, match=message):
        TensorDescriptor(**(good | change))
