"""Tensor descriptors made on the host and passed to kernels."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

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


@tw.jit
def summed(d, pair, out_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    rows = tl.sum(d.load([0, 0]), 1) + tl.load(pair[0] + i) + tl.load(pair[1][0] + i)
    tl.store(out_ptr + i, rows, mask=i < n)


def test_compiled_kernels_take_descriptors_and_tuples():
    x, p, q = np.ones((8, 16), np.float32), np.arange(8.0), 10 * np.arange(8.0)
    out, given = np.zeros(8), TensorDescriptor.from_tensor(x, [8, 16])
    compiled = summed[(1,)](given, (p, (q, 1)), out, 5, B=8)
    for args in ((given, (q, (p, 1)), out, 7, 8), (given, (q, (p, 1)), out, 7)):
        out[:] = 0
        compiled[(1,)](*args)
        np.testing.assert_array_equal(out, np.where(np.arange(8) < 7, 16 + p + q, 0))
    with pytest.raises(tw.errors.LaunchError, match="expected a tuple of 2 items, got 1"):
        compiled[(1,)](given, (p,), out, 7, 8)


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


@pytest.mark.parametrize("columns", [72, 70, 1])
def test_lines_that_end_within_16_bytes_are_stored_by_threads(columns):
    """Boxes are stored 16 bytes at a time: the code differs with what the last extent is a multiple of."""
    from tilewright.backends.base import Options
    from tilewright.runtime.compiler import compile_kernel

    a, b, space = arrays()
    c = TensorDescriptor(space, [100, columns], [72, 1], [64, 32])
    given = [TensorDescriptor.from_tensor(x, [rows, 32]) for x, rows in ((a, 64), (b, 32))]
    product[2, 3](*given, c, 80, BLOCK_K=32)
    wanted = a.astype(np.float64) @ b.T
    np.testing.assert_allclose(space[:, :columns], wanted[:, :columns], rtol=1e-4, atol=1e-4)
    assert not space[:, columns:].any()
    signature = list(product.launcher.compiled.values())[-1].signature
    assert signature["c"].whole_lines == (columns == 72)
    ptx = compile_kernel(product, signature, Options(), "sm_90a").asm["ptx"]
    assert ("cp.async.bulk.tensor.2d.global.shared" in ptx) == (columns == 72)
    assert "cp.async.bulk.tensor.2d.shared" in ptx


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(block_shape=[4]), "do not have the same 1 to 5 dimensions"),
        (dict(strides=[8, 2]), "the last stride is 2, and must be 1"),
        (dict(strides=[7, 1]), "a stride of 7 elements of 4 bytes is not a multiple of 16 bytes"),
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


# ---- launches after the first -----------------------------------------------------------------------


@tw.jit
def doubled(x, out, n, EXTRA: tl.constexpr):
    row = tl.program_id(0) * x.block_shape[0]
    out.store([row, 0], x.load([row, 0]) * 2 + n + EXTRA)


def pair(rows=8, columns=16, block=(4, 16), out=None):
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    out = np.zeros_like(x) if out is None else out
    return [TensorDescriptor.from_tensor(v, list(block)) for v in (x, out)]


def run(x, out, n=1, extra=0):
    doubled[2,](x, out, n, EXTRA=extra)
    expected = x.base[:, : x.block_shape[1]] * 2 + n + extra
    np.testing.assert_array_equal(out.base[:, : x.block_shape[1]], expected)


@pytest.fixture
def only_fast(monkeypatch):
    """A call that forbids the slow path."""

    def opened(self):
        raise AssertionError("the slow path")

    def forbid():
        monkeypatch.setattr(TensorDescriptor, "opened", opened)

    yield forbid
    monkeypatch.undo()


def test_known_descriptors_go_the_fast_way(only_fast):
    for shape in ((8, 16), (8, 32), (1, 16), (8, 1)):
        if shape[1] == 1:
            continue
        run(*pair(*shape))
    run(*pair(), n=5)
    only_fast()
    for _ in range(2):
        run(*pair())
        run(*pair(8, 32))
        run(*pair(1, 16))
        run(*pair(), n=7)
    x, out = pair()
    x.base = x.base + 3  # another array in the same descriptor
    run(x, out)


def test_other_descriptors_are_looked_at_again(only_fast):
    x, out = pair()
    run(x, out)
    run(*pair(16, 16, (8, 16)))
    for change in ({"block_shape": [8, 16]}, {"block_shape": (4, 8)}, {"padding": "nan"}):
        x, out = pair()
        for name, value in change.items():
            setattr(x, name, value)
            setattr(out, name, value)
        run(x, out) if "block_shape" not in change else doubled[1,](x, out, 1, EXTRA=0)
    x, out = pair()
    for wrong in (
        {"strides": [16, 2]}, {"strides": [15, 1]}, {"shape": [8]}, {"strides": [16]},
        {"shape": [-8, 16]}, {"base": np.zeros(129, np.float32)[1:].reshape(8, 16)},
        {"strides": None}, {"shape": [8, 16, 1]},
    ):  # fmt: skip
        kept = {name: getattr(x, name) for name in wrong}
        for name, value in wrong.items():
            setattr(x, name, value)
        with pytest.raises((LaunchError, TypeError)):
            doubled[2,](x, out, 1, EXTRA=0)
        for name, value in kept.items():
            setattr(x, name, value)
    only_fast()
    run(x, out)


def test_descriptors_of_several_ranks(only_fast):
    @tw.jit
    def copy(source, target):
        zeros = [0] * len(source.block_shape)
        target.store(zeros, source.load(zeros))

    def launch(shape):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        out = np.zeros_like(x)
        copy[1,](*[TensorDescriptor.from_tensor(v, list(shape)) for v in (x, out)])
        np.testing.assert_array_equal(out, x)

    shapes = [(16,), (4, 16), (2, 4, 16), (1, 2, 1, 16)]
    for shape in shapes:
        launch(shape)
    only_fast()
    for shape in shapes:
        launch(shape)


def test_a_descriptor_or_a_pointer(only_fast):
    @tw.jit
    def first(source, target, DESCRIBED: tl.constexpr):
        if DESCRIBED:
            tl.store(target + tl.arange(0, 8), source.load([0]))
        else:
            tl.store(target + tl.arange(0, 8), tl.load(source + tl.arange(0, 8)))

    def launch(described):
        x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        source = TensorDescriptor.from_tensor(x, [8]) if described else x
        first[1,](source, out, described)
        np.testing.assert_array_equal(out, x)

    for described in (True, False, True, False):
        launch(described)
    only_fast()
    for described in (True, False, True):
        launch(described)


@tw.jit
def block_copy(source, target_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = source.load([n, 0])
    tl.store(target_ptr + i[:, None] * BLOCK + i[None, :], x)


@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_90a"])
@pytest.mark.parametrize("text", ["tensordesc<fp16[64,64]>", "tensordesc<fp16[64, 64]>"])
def test_signatures_name_descriptors(target, text):
    signature = {"source": text, "target_ptr": "*fp16:16", "n": "i32"}
    found = block_copy.compile(signature, {"BLOCK": 64}, target)
    if target == "cpu":
        return
    x, out = np.arange(100 * 64).astype(np.float16).reshape(100, 64), np.ones((64, 64), np.float16)
    rows, columns, stride, n = 100, 64, 64, 70
    out = run_ptx(found.artifact, [x, rows, columns, stride, out, n], (1, 1, 1))[1]
    np.testing.assert_array_equal(out[:30], x[70:])
    assert not out[30:].any()


@pytest.mark.parametrize(
    "text", ["tensordesc<fp16>", "tensordesc<half[64]>", "tensordesc<fp16[64]"]
)
def test_texts_that_name_no_descriptor(text):
    with pytest.raises(LaunchError, match="is an unknown type"):
        block_copy.compile({"source": text, "target_ptr": "*fp16", "n": "i32"}, {"BLOCK": 64})
