"""Single-precision products in every order of their operands: results after each pass, and with passes off."""

import random

import pytest
from tests.mn_major_dots import case, check, grid, module
from tests.run_on_copies import run_on_copies

from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(4, full=4)

ORDERS = ("row row", "row column", "column row", "column column")
HOPPER = target_info("sm_90a")
EXTENTS = ((128, 128, 96), (72, 136, 80), (67, 65, 33))
BLOCKS = ((64, 64, 32), (64, 128, 16), (128, 64, 8))
CASES = [
    (orders, EXTENTS[i % 3], BLOCKS[(i + j) % 3], 8 if (i + j) % 3 else 4)
    for i, orders in enumerate(ORDERS)
    for j in range(3)
]


@pytest.mark.parametrize(("orders", "extents", "blocks", "warps"), CASES)
def test_results_after_each_pass(orders, extents, blocks, warps):
    found = module(orders, extents, blocks, warps)
    arguments, wanted = case(orders, extents)
    for step in nvidia_passes():
        before = str(found)
        step.apply(found, HOPPER)
        found.verify()
        if str(found) != before and step.name not in ("cse", "licm", "simplify"):
            after = run_on_copies(found, arguments, grid(extents, blocks))
            check(after[2], wanted, f"after {step.name}")
    emit_module(found, HOPPER)


@pytest.mark.parametrize(
    ("orders", "through", "turns"),
    [("row row", ".rs.swap_ab", 0), ("row column", "", 0), ("column column", ".rs", 0), ("column row", ".rs", 1)],
)  # fmt: skip
def test_as_few_tiles_as_possible_are_turned_in_memory(orders, through, turns):
    extents, blocks = (128, 128, 128), (64, 64, 32)
    found = module(orders, extents, blocks)
    run_pipeline(found, nvidia_passes(), HOPPER)
    assert f'gpu.wgmma "wgmma.k8.tf32{through}"' in str(found)
    assert str(found).count("gpu.local_transpose ") == turns
    assert "gpu.tma_load" in str(found)
    without = module(orders, extents, blocks)
    run_pipeline(without, nvidia_passes(), HOPPER, disabled=("select-wgmma-rs",))
    assert str(without).count("gpu.local_transpose ") == len([o for o in zip(orders.split(), ("column", "row"), strict=True) if o[0] == o[1]])  # fmt: skip


OFF = (
    "select-mma", "select-wgmma-rs", "promote-shared", "promote-shared{register-operands=false}", "swizzle-shared",
    'swizzle-shared{mode="pad"}', "pipeline-loads", "pipeline-loads{tma=false}", "pipeline-loads{mma-in-flight=0}",
    "lower-stores-to-tma", "insert-barriers", "vectorize-accesses", "raise-access", "fold-transpose", "licm",
)  # fmt: skip


@pytest.mark.parametrize("orders", ORDERS)
def test_results_without_passes(orders):
    chance = random.Random(orders)
    subsets = [(name,) for name in OFF] + [tuple(chance.sample(OFF, 3)) for _ in range(6)]
    for disabled in subsets:
        at = chance.randrange(3)
        extents, blocks = chance.choice(EXTENTS), BLOCKS[at]
        found = module(orders, extents, blocks, chance.choice((4, 8)), chance.randint(1, 4))
        run_pipeline(found, nvidia_passes(), HOPPER, disabled=disabled)
        arguments, wanted = case(orders, extents)
        after = run_on_copies(found, arguments, grid(extents, blocks))
        check(after[2], wanted, f"{orders} {extents} {blocks} without {disabled}")
        emit_module(found, HOPPER)


def test_other_targets_know_nothing_of_it():
    found = module("row row", EXTENTS[0], BLOCKS[0])
    run_pipeline(found, nvidia_passes(), target_info("sm_80"))
    assert "wgmma" not in str(found)
