"""PTX of single-precision products, tile by tile: what passes through registers arrives where it belongs."""

import random
import re
from itertools import pairwise

import numpy as np
import pytest
from tests.generator.gpu_level import prepared, specialised
from tests.mn_major_dots import as_tf32, case, check, grid, module, normalised, zeros
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.errors import TilewrightError
from tilewright.frontend import build
from tilewright.runtime.matmul.kernels import kernels

pytestmark = pytest.mark.sampled(6, full=6)

ORDERS = ("row row", "row column", "column row", "column column")
HOPPER = target_info("sm_90a")
TILES = [((64, 64, 32), 4), ((64, 128, 16), 4), ((128, 64, 16), 8)]
LARGE_TILES = [
    ((64, 256, 8), 4), ((128, 128, 32), 8), ((256, 64, 16), 8), ((256, 128, 32), 8), ((128, 256, 32), 8),
]  # fmt: skip


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(("blocks", "warps"), TILES)
def test_tiles(orders, blocks, warps):
    """More than one tile along m, none of them full, the last step of k neither."""
    of_one_tile(orders, blocks, warps)


@pytest.mark.long
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(("blocks", "warps"), LARGE_TILES)
def test_large_tiles(orders, blocks, warps):
    of_one_tile(orders, blocks, warps)


def of_one_tile(orders, blocks, warps):
    extents = (blocks[0] + 16, blocks[1] - 16, 3 * blocks[2] + 16)
    if orders == "row row" and blocks[1] == 128:  # copied by threads
        extents = (blocks[0], blocks[1] - 3, 2 * blocks[2] + 5)
    arguments, wanted = case(orders, extents, tf32=True)
    made = backend.compile(
        module(orders, extents, blocks), Options(num_warps=warps, num_stages=3), HOPPER
    )
    found = run_ptx(made, arguments, grid(extents, blocks))
    check(found[2], wanted)
    assert "wgmma.mma_async" in made.asm["ptx"]


def generated(config, orders, extents, out_kind=np.float32):
    """A described matmul's kernels in the machine; the PTX of the first."""
    rng, (m, n, k) = np.random.default_rng(5), extents
    a, b = zeros((m, k)), zeros((k, n))
    first, second = orders.split()
    a = zeros((k, m)).T if first == "column" else a
    b = zeros((n, k)).T if second == "column" else b
    for x in (a, b):
        x[...] = rng.standard_normal(x.shape)
    out = zeros((m, n)).astype(out_kind) if out_kind != np.float32 else zeros((m, n))
    found = prepared(HOPPER, a, b, out, config=config, precision="tf32")
    (kernel,) = kernels(found.contraction, found.config)
    signature, divisibility, arguments = specialised(
        kernel.program, found, {"a": a, "b": b, "out": out}, []
    )
    options = kernel.launch_options()
    made = backend.compile(
        kernel.program.build(signature, divisibility),
        Options(num_warps=options["num_warps"], num_stages=options["num_stages"]),
        HOPPER,
    )
    index = next(i for i, x in enumerate(arguments) if x is out)
    assert all(isinstance(x, np.ndarray) for x in arguments[: index + 1])
    in_memory = [
        x if not isinstance(x, np.ndarray) or x.flags.c_contiguous else x.T for x in arguments
    ]

    def again(made):
        return run_ptx(made, in_memory, kernel.program.grid(m, n, 1, 2))[index].reshape(m, n)

    return again(made), as_tf32(a) @ as_tf32(b), made, again


@pytest.mark.long
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(
    "config",
    [
        tw.MatmulConfig(192, 192, 16, num_warps=12, num_stages=2),
        tw.MatmulConfig(192, 128, 32, num_warps=12, num_stages=2),
        tw.MatmulConfig(128, 192, 32, num_warps=8, num_stages=2),
        tw.MatmulConfig(256, 192, 16, num_warps=12, num_stages=2),
        tw.MatmulConfig(128, 128, 16, num_warps=8, num_stages=3, persistent=True),
    ],
    ids=lambda c: c.text,
)
def test_generated_tiles(orders, config):
    extents = (config.block_m + 24, config.block_n + 8, 3 * config.block_k + 4)
    found, wanted, made, _ = generated(config, orders, extents)
    check(found, wanted)
    assert "wgmma.mma_async" in made.asm["ptx"]


def test_a_warp_gives_a_stage_back_when_all_its_lanes_have_read():
    """Lanes of a warp are one to the machine: the barrier of the warp is looked for in the text."""
    config = tw.MatmulConfig(128, 128, 16, num_warps=8, num_stages=3, persistent=True)
    found, wanted, made, _ = generated(config, "row row", (136, 136, 64))
    check(found, wanted)
    ptx = made.asm["ptx"]
    arrivals = [m.start() for m in re.finditer(r"mbarrier\.arrive\.release", ptx)]
    between = [ptx[a:b] for a, b in pairwise([0, *arrivals])]
    assert arrivals and all("bar.warp.sync" in text for text in between)


def test_operands_of_products_under_way_stay_as_they_are():
    """Without the waits inside a product, the next portion is read over one that is still multiplied."""
    extents, blocks = (64, 64, 128), (64, 64, 32)
    arguments, _ = case("row row", extents)
    made = backend.compile(module("row row", extents, blocks), Options(num_warps=4), HOPPER)
    ptx, count = re.subn(r"wgmma\.wait_group\.sync\.aligned 1;", "", made.asm["ptx"])
    assert count == 2
    spoiled = type("Spoiled", (), {"plan": made.plan, "asm": {"ptx": ptx}})
    with pytest.raises(Fault, match="in flight"):
        run_ptx(spoiled, arguments, (1, 1, 1))


@pytest.mark.long
@pytest.mark.parametrize("number", range(60))
def test_random_tiles(number):
    chance = random.Random(number)
    config = tw.MatmulConfig(
        chance.choice((64, 128, 192, 256)), chance.choice((64, 96, 128, 192, 256)), chance.choice((8, 16, 32, 64)),
        chance.choice((1, 4)), chance.choice((4, 8, 12)), chance.randint(1, 4),
        persistent=chance.random() < 0.3, use_tma=chance.random() < 0.8,
    )  # fmt: skip
    extents = tuple(chance.choice((33, 64, 100, 136, 200)) for _ in range(3))
    try:
        found, wanted, made, _ = generated(config, chance.choice(ORDERS), extents)
    except TilewrightError as error:
        if "shared memory" not in str(error):
            raise
        return
    check(found, wanted, config.text, rounded="cvt.rna.tf32" in made.asm["ptx"])


@pytest.mark.parametrize(
    ("blocks", "warps"), [((64, 64, 16), 4), ((64, 128, 16), 4), ((128, 64, 16), 8)]
)
def test_what_follows_finds_its_elements(blocks, warps):
    """Broadcasts, reductions along both dimensions, conversions and stores of the permuted sums."""
    (m, n, _), k, rng = blocks, 48, np.random.default_rng(9)
    arrays = [zeros(s) for s in ((m, k), (k, n), (m,), (n,), (m, n))]
    for x in arrays:
        x[...] = rng.standard_normal(x.shape)
    a, b, x, y, r = arrays
    c, s = zeros((m, n // 2)).view(np.float16), zeros((n,))
    names = ("A", "B", "X", "Y", "R", "C", "S", "K", "N")
    kinds = [*[dtypes.pointer_type(dtypes.float32)] * 5, dtypes.pointer_type(dtypes.float16)]
    kinds += [dtypes.pointer_type(dtypes.float32), dtypes.int32, dtypes.int32]
    signature = dict(zip(names, kinds, strict=True))
    signature |= {name: constexpr(e) for name, e in zip(("BM", "BN", "BK"), blocks, strict=True)}
    found = build(normalised, signature, dict.fromkeys(names, 16)).module
    made = backend.compile(found, Options(num_warps=warps, num_stages=2), HOPPER)
    assert (
        "wgmma.mma_async" in made.asm["ptx"]
        and "wgmma.wait_group.sync.aligned 1" in made.asm["ptx"]
    )
    after = run_ptx(made, [*arrays, c, s, k, n], (1, 1, 1))
    logits = as_tf32(a) @ as_tf32(b) + x[:, None] + y[None, :] + r
    wanted = np.exp(logits - logits.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(after[5].reshape(m, n), wanted, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(after[6].ravel(), wanted.sum(0), rtol=1e-4)
