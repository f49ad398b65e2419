"""PTX of single-precision products, tile by tile: what passes through registers arrives where it belongs."""

import random
import re

import numpy as np
import pytest
from tests.generator.gpu_level import prepared, specialised
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from tests.turned_products import case, check, grid, module, zeros

import tilewright as tw
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.errors import TilewrightError
from tilewright.runtime.generated import kernels

ORDERS = ("row row", "row column", "column row", "column column")
HOPPER = target_info("sm_90a")
TILES = [
    ((64, 64, 32), 4), ((64, 128, 32), 4), ((128, 64, 16), 4), ((128, 128, 32), 8), ((64, 256, 8), 4),
    ((256, 64, 16), 8), ((128, 64, 64), 8), ((256, 128, 32), 8), ((128, 256, 32), 8),
]  # fmt: skip


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(("blocks", "warps"), TILES)
def test_tiles(orders, blocks, warps):
    """More than one tile along m and n, none of them full, an odd number of steps."""
    extents = (blocks[0] + 40, blocks[1] // 2, 5 * blocks[2] - 4)
    arguments, wanted = case(orders, extents)
    made = backend.compile(
        module(orders, extents, blocks), Options(num_warps=warps, num_stages=3), HOPPER
    )
    found = run_ptx(made, arguments, grid(extents, blocks))
    check(found[2], wanted)
    assert ":" in orders or "wgmma.mma_async" in made.asm["ptx"]


def generated(config, orders, extents, out_kind=np.float32):
    """A described product's kernels in the machine; the PTX of the first."""
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

    return again(made), a.astype(np.float64) @ b.astype(np.float64), made, again


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
    config = tw.MatmulConfig(128, 128, 16, num_warps=8, num_stages=3, persistent=True)
    *_, made, again = generated(config, "row row", (136, 136, 100))
    ptx, count = re.subn(r"bar\.warp\.sync[^;]*;", "", made.asm["ptx"])
    assert count
    spoiled = type("Spoiled", (), {"plan": made.plan, "asm": {"ptx": ptx}})
    with pytest.raises(Fault, match="what another thread may still read"):
        again(spoiled)


@pytest.mark.long
@pytest.mark.parametrize("number", range(60))
def test_random_tiles(number):
    chance = random.Random(number)
    config = tw.MatmulConfig(
        chance.choice((64, 128, 192, 256)), chance.choice((64, 96, 128, 192, 256)), chance.choice((8, 16, 32, 64)),
        chance.choice((1, 4)), chance.choice((4, 8, 12)), chance.randint(1, 4),
        persistent=chance.random() < 0.3, boxes=chance.random() < 0.8,
    )  # fmt: skip
    extents = tuple(chance.choice((33, 64, 100, 136, 200)) for _ in range(3))
    try:
        found, wanted, made, _ = generated(config, chance.choice(ORDERS), extents)
    except TilewrightError as error:
        if "shared memory" not in str(error):
            raise
        return
    check(found, wanted, config.text, rounded="cvt.rna.tf32" in made.asm["ptx"])
