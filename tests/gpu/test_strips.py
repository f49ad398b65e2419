"""Tiles larger than the registers: chunks of them, kept in shared memory or loaded again, against float64."""

import pytest
from tests import large_tile_arguments as given
from tests import large_tiles

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")


@tw.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    x, out = x + tl.program_id(0) * n, out + tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=at < n)


@tw.jit
def layer_norm(x, weight, out, n, BLOCK: tl.constexpr):
    x, out = x + tl.program_id(0) * n, out + tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    away = tl.where(inside, v - tl.sum(v * w, 0) / n, 0.0)
    wide = tl.sqrt(tl.sum(away * away, 0) / n + 1e-5)
    tl.store(out + at, away / wide * w, mask=inside)


@tw.jit
def columns(x, C: tl.constexpr, B: tl.constexpr):
    at = x + tl.program_id(0) * B * C + tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(at)
    low = tl.min(v, 0)
    tl.store(at, (v - low[None, :]) / tl.max(v - low[None, :], 0)[None, :])


#: elements, warps: whole tiles fit into shared memory, or parts of them
SIZES = [(65536, 32), (60001, 32), (131072, 32), (100000, 16), (32768, 8), (20000, 4), (16384, 4)]
KINDS = ["float32", "float16"]
IN_CHUNKS = {"disable": "strip-mine-tiles{skip-if-fits=false},distribute-rows-over-cluster"}
"""Though they would fit into the registers, of one CTA or of a cluster."""


def error(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


def bound(kind):
    return {"float32": 1e-5, "float16": 1e-3}[kind]


def block(n):
    return 1 << (n - 1).bit_length()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "warps"), SIZES)
def test_softmax(n, warps, kind):
    x = (4 * torch.randn(200, n, device="cuda")).to(getattr(torch, kind))  # results that fp16 has
    out = torch.empty_like(x)
    compiled = softmax[(200,)](x, out, n, BLOCK=block(n), num_warps=warps, **IN_CHUNKS)
    expected = torch.softmax(x.double(), 1)
    assert error(out, expected) < bound(kind)
    first = out.clone()
    for _ in range(5):
        out.fill_(float("nan"))
        softmax[(200,)](x, out, n, BLOCK=block(n), num_warps=warps, **IN_CHUNKS)
        assert torch.equal(first, out)
    if kind == "float32":
        assert compiled.plan.shared_bytes > 32 << 10, "chunks are meant to be kept"


@pytest.mark.parametrize("weights", KINDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "warps"), SIZES)
def test_two_tiles(n, warps, kind, weights):
    x = torch.randn(200, n, device="cuda").to(getattr(torch, kind))
    weight = torch.randn(n, device="cuda").to(getattr(torch, weights))
    out = torch.empty_like(x)
    layer_norm[(200,)](x, weight, out, n, BLOCK=block(n), num_warps=warps, **IN_CHUNKS)
    v, w = x.double(), weight.double()
    away = v - (v * w).sum(1, keepdim=True) / n
    expected = away / ((away * away).sum(1, keepdim=True) / n + 1e-5).sqrt() * w
    assert error(out, expected) < bound(kind)


@pytest.mark.parametrize(
    ("rows", "length", "warps"), [(1024, 64, 16), (256, 64, 4), (2048, 32, 32)]
)
def test_columns_in_place(rows, length, warps):
    x = torch.randn(200, rows, length, device="cuda")
    away = x.double() - x.double().amin(1, keepdim=True)
    columns[(200,)](x, C=length, B=rows, num_warps=warps, **IN_CHUNKS)
    assert error(x, away / away.amax(1, keepdim=True)) < 1e-5


# ---- in loops and branches ----------------------------------------------------------------------------------

#: elements of a block (rows and columns of a tile), and warps
BLOCKS = [(65536, 32), (32768, 4)]
TILES = [(256, 4), (128, 1)]


def on_both(name, block, warps):
    """A kernel's arrays after it ran on the CPU and on the GPU, twice there."""
    arguments, constants, grid = given.arguments(name, block)
    kernel, results = getattr(large_tiles, name), []
    for device in ("cpu", "cuda", "cuda"):
        moved = [
            torch.from_numpy(v.copy()).to(device) if hasattr(v, "dtype") else v
            for v in arguments.values()
        ]
        kernel[grid](*moved, **constants, num_warps=warps)
        results.append([v.cpu() for v in moved if hasattr(v, "dtype")])
    return results


@pytest.mark.parametrize(
    ("name", "block", "warps"),
    [(name, *size) for name in given.OF_ROWS for size in BLOCKS]
    + [(name, *size) for name in given.OF_TILES for size in TILES],
)
def test_large_tiles(name, block, warps):
    expected, found, again = on_both(name, block, warps)
    for a, b, c in zip(expected, found, again, strict=True):
        if a.is_floating_point():
            scale = a.double().square().mean().sqrt()
            assert float((a.double() - b.double()).abs().max() / scale) < 2e-3
        else:
            assert torch.equal(a, b)
        assert torch.equal(b, c)
