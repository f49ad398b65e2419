"""Small products on `mma.sync`: chains, whose tiles go from sums to either operand, as they are and transposed, and
batches."""

import random
import re

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
from tilewright.language.kernel_function import KernelFunction
from tilewright.layouts.layout import parse_layout


def chain(a, b, out, M: tl.constexpr, K: tl.constexpr):
    """((a b) (a b)^T a)^T ((a b) b^T), with tiles as right, left, and transposed operands."""
    kind = a.dtype.element_ty
    rows, columns = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + rows[:, None] * K + columns[None, :])
    y = tl.load(b + columns[:, None] * K + columns[None, :])
    s = tl.dot(x, y, input_precision="tf32").to(kind)
    t = tl.dot(s, tl.trans(s), input_precision="tf32").to(kind)
    u = tl.dot(t, x, input_precision="tf32").to(kind)
    v = tl.dot(s, tl.trans(y), input_precision="tf32").to(kind)
    w = tl.dot(tl.trans(u), v, input_precision="tf32")
    tl.store(out + columns[:, None] * K + columns[None, :], w)


def compiled(kind, m, k, warps, target):
    types = {"a": pointer_type(kind), "b": pointer_type(kind), "out": pointer_type(dtypes.float32)}
    types |= {"M": constexpr(m), "K": constexpr(k)}
    module = build(KernelFunction(chain), types, dict.fromkeys(("a", "b", "out"), 16)).module
    return backend.compile(module, Options(num_warps=warps), target_info(target))


HALF, SINGLE = dtypes.float16, dtypes.float32
CASES = [
    (HALF, 16, 16, 1, "sm_90a"), (HALF, 32, 16, 2, "sm_80"), (HALF, 16, 32, 4, "sm_90a"), (HALF, 32, 32, 2, "sm_90a"),
    (SINGLE, 16, 16, 1, "sm_90a"), (SINGLE, 32, 16, 2, "sm_80"), (SINGLE, 32, 32, 4, "sm_90a"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "m", "k", "warps", "target"), CASES)
def test_chains(kind, m, k, warps, target):
    rng = np.random.default_rng(m + k)
    real = np.float16 if kind is HALF else np.float32
    a, b = (rng.normal(size=s).astype(np.float16).astype(real) / 4 for s in ((m, k), (k, k)))
    x, y = a.astype(np.float64), b.astype(np.float64)
    s = x @ y
    expected = (s @ s.T @ x).T @ (s @ y.T)
    arguments = [a, b, np.zeros((k, k), np.float32)]
    artifact = compiled(kind, m, k, warps, target)
    found = run_ptx(artifact, arguments, (1, 1, 1), random.Random(warps))[2]
    np.testing.assert_allclose(found, expected, atol=8e-3 * np.abs(expected).max())


def test_sums_reach_operands_by_matrices():
    """Neither 16-bit nor 32-bit operands are read element by element where matrices do."""
    ptx = compiled(HALF, 32, 32, 1, "sm_90a").asm["ptx"]
    assert "ldmatrix" in ptx and "ld.shared.b16" not in ptx and "ld.shared.u16" not in ptx
    assert "bar.warp.sync" in ptx and "bar.sync" not in ptx and "barrier.sync" not in ptx


def batch_of_products(
    q, k, v, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    """(q k^T) v of each matrix of a batch."""
    batch, rows = tl.arange(0, B)[:, None, None], tl.arange(0, M)[None, :, None]
    lines, columns = tl.arange(0, N)[None, :, None], tl.arange(0, D)[None, None, :]
    x = tl.load(q + (batch * M + rows) * D + columns)
    y = tl.load(k + (batch * N + lines) * D + columns)
    z = tl.load(v + (batch * N + lines) * D + columns)
    s = tl.dot(x, tl.permute(y, (0, 2, 1)), input_precision="tf32").to(x.dtype)
    tl.store(out + (batch * M + rows) * D + columns, tl.dot(s, z, input_precision="tf32"))


def compiled_batch(kind, sizes, warps, target):
    names = ("q", "k", "v", "out")
    types = dict(zip(names, map(pointer_type, (kind, kind, kind, SINGLE)), strict=True))
    types |= dict(zip("BMND", map(constexpr, sizes), strict=True))
    module = build(KernelFunction(batch_of_products), types, dict.fromkeys(names, 16)).module
    return backend.compile(module, Options(num_warps=warps), target_info(target))


@pytest.mark.parametrize(
    ("kind", "sizes", "warps", "target"),
    [
        (HALF, (4, 16, 16, 32), 4, "sm_90a"), (HALF, (8, 16, 16, 16), 4, "sm_80"), (HALF, (2, 32, 16, 16), 4, "sm_90a"),
        (HALF, (2, 16, 32, 16), 8, "sm_90a"), (SINGLE, (4, 16, 16, 16), 2, "sm_90a"), (HALF, (1, 16, 16, 16), 2, "sm_90a"),
    ],
)  # fmt: skip
def test_batches(kind, sizes, warps, target):
    count, m, n, d = sizes
    rng = np.random.default_rng(m + d)
    real = np.float16 if kind is HALF else np.float32
    shapes = ((count, m, d), (count, n, d), (count, n, d))
    q, k, v = (rng.normal(size=s).astype(np.float16).astype(real) / 4 for s in shapes)
    expected = (q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)) @ v
    arguments = [q, k, v, np.zeros((count, m, d), np.float32)]
    artifact = compiled_batch(kind, sizes, warps, target)
    found = run_ptx(artifact, arguments, (1, 1, 1), random.Random(warps))[3]
    np.testing.assert_allclose(found, expected, atol=4e-3 * np.abs(expected).max())


def test_matrices_of_a_batch_reach_operands_by_matrices():
    """A warp computes each product alone, and reads neither operand element by element."""
    ptx = compiled_batch(HALF, (4, 16, 16, 32), 4, "sm_90a").asm["ptx"]
    assert ptx.count("mma.sync") == 4 + 4  # of 16x8x16: 2 of columns and of k, and 4 of columns
    assert "ldmatrix" in ptx and "ldmatrix.sync.aligned.m8n8.x4.trans" in ptx
    assert not [line for line in ptx.splitlines() if "ld.shared" in line and "b16" in line]


@tw.jit
def few_rows(p, v, out, N, B: tl.constexpr, H: tl.constexpr, D: tl.constexpr, FIRST: tl.constexpr):
    """Sums over blocks of 16 of p v, with each of the H rows of p repeated: the products fill an instruction."""
    batch, heads = tl.arange(0, B)[:, None, None], tl.arange(0, H)[None, :, None]
    block, columns = tl.arange(0, 16), tl.arange(0, D)[None, None, :]
    acc = tl.zeros((B, H, D), tl.float32)
    for start in range(0, N, 16):
        x = tl.load(p + (batch * H + heads) * N + start + block[None, None, :])
        y = tl.load(v + (batch * N + start + block[None, :, None]) * D + columns)
        x = tl.broadcast_to(tl.expand_dims(x, 2), (B, H, 16 // H, 16)).reshape(B, 16, 16)
        rows = tl.sum(tl.dot(x, y).reshape(B, H, 16 // H, D), 2)
        acc = rows + acc * 0.5 if FIRST else acc * 0.5 + rows
    tl.store(out + (batch * H + heads) * D + columns, acc)


@pytest.mark.parametrize(
    ("heads", "warps", "d", "first"), [(2, 1, 64, True), (2, 2, 128, False), (4, 1, 32, False)]
)
def test_lanes_divide_sums_over_rows(heads, warps, d, first):
    """A loop carries sums of reductions across lanes once, not in each of these lanes, and needs no exchange for it."""
    b, n = 4, 48
    types = {"p": "*fp16:16", "v": "*fp16:16", "out": "*fp32:16", "N": "i32:16"}
    constants = {"B": b, "H": heads, "D": d, "FIRST": first}
    artifact = few_rows.compile(types, constants, target="sm_90a", num_warps=warps)
    rng = np.random.default_rng(heads)
    p = rng.normal(size=(b, heads, n)).astype(np.float16)
    v = rng.normal(size=(b, n, d)).astype(np.float16)
    expected = np.zeros((b, heads, d))
    for at in range(0, n, 16):
        product = p[..., at : at + 16].astype(np.float64) @ v[:, at : at + 16]
        expected = expected / 2 + 16 // heads * product
    arguments = [p, v, np.zeros((b, heads, d), np.float32), n]
    found = run_ptx(artifact, arguments, (1, 1, 1), random.Random(d))[2]
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    text = str(artifact.asm["gpu"])
    (carried,) = re.findall(rf'scf\.for [^\n]*tensor<{b}x{heads}x{d}xf32, "([^"]*)"', text)
    assert not parse_layout(carried).replicated("lanes")


def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    """The sum of a b over tiles of K columns, in a loop."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, 3 * K, K):
        x = tl.load(a + rows[:, None] * 3 * K + (k + inner)[None, :])
        y = tl.load(b + columns[:, None] * 3 * K + (k + inner)[None, :])
        total = tl.dot(x, tl.trans(y), total, input_precision=HOW)
    tl.store(out + rows[:, None] * N + columns[None, :], total)


def product_of(kind, shape, warps, how, target):
    types = {"a": pointer_type(kind), "b": pointer_type(kind), "out": pointer_type(dtypes.float32)}
    types |= {name: constexpr(v) for name, v in zip("MNK", shape, strict=True)}
    types["HOW"] = constexpr(how)
    module = build(KernelFunction(product), types, dict.fromkeys(("a", "b", "out"), 16)).module
    return backend.compile(module, Options(num_warps=warps), target_info(target))


PRODUCTS = [
    (SINGLE, (8, 32, 16), 2, "tf32", "sm_90a", "mma.sync"), (SINGLE, (8, 64, 32), 4, "tf32", "sm_80", "mma.sync"),
    (HALF, (8, 32, 16), 1, "tf32", "sm_90a", "mma.sync"), (SINGLE, (16, 16, 32), 4, "ieee", "sm_90a", "cp.async"),
    (SINGLE, (16, 32, 8), 4, "ieee", "sm_80", "cp.async"), (SINGLE, (4, 32, 16), 2, "ieee", "sm_90a", "st.shared"),
    (SINGLE, (16, 32, 16), 2, "tf32x3", "sm_90a", "ldmatrix"), (SINGLE, (8, 16, 32), 4, "ieee", "sm_80", "st.shared"), (SINGLE, (4, 64, 64), 1, "ieee", "sm_90a", "st.shared"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "shape", "warps", "how", "target", "uses"), PRODUCTS)
def test_products_of_few_rows(kind, shape, warps, how, target, uses):
    """8 rows are 8 columns of the transposed product; small tiles of single precision take elements of k at once."""
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    real = np.float16 if kind is HALF else np.float32
    a, b = (rng.normal(size=(e, 3 * k)).astype(np.float16).astype(real) for e in (m, n))
    artifact = product_of(kind, shape, warps, how, target)
    assert uses in artifact.asm["ptx"]
    found = run_ptx(artifact, [a, b, np.zeros((m, n), np.float32)], (1, 1, 1), random.Random(m))[2]
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


def test_large_parts_are_not_rounded():
    """The parts of tf32x3 whose other bits are masked away are tf32 already."""
    ptx = product_of(SINGLE, (16, 32, 16), 2, "tf32x3", "sm_90a").asm["ptx"]
    loads = (
        len(re.findall(r"ldmatrix\S*\.x4", ptx)) * 4 + len(re.findall(r"ldmatrix\S*\.x2", ptx)) * 2
    )
    assert ptx.count("cvt.rna.tf32") == loads
