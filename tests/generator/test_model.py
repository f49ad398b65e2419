"""The analytical model's choices, against what was measured and what must hold for any."""

import time

import pytest

from tilewright.backends import registry
from tilewright.errors import LaunchError
from tilewright.generator.model import (
    Tiling,
    Workload,
    choose,
    gpu_estimate,
    gpu_tilings,
)

HOPPER = registry.machine("sm_90a")
#: tiles within 2 % of the fastest that were measured on an H200 (fp16 and bf16, squares)
MEASURED = {
    1024: {(128, 64), (64, 128)},
    1536: {(192, 96)},
    2048: {(128, 256), (256, 128), (128, 128)},
    3072: {(192, 192), (128, 192)},
    4096: {(128, 256)},
    8192: {(128, 256)},
    16384: {(128, 256)},
}


@pytest.mark.parametrize("n", MEASURED)
@pytest.mark.parametrize("element", ["fp16", "bf16"])
def test_the_choice_is_among_the_fastest_measured(n, element):
    tiling = choose(Workload(n, n, n, element=element, out=element), HOPPER).tiling
    assert (tiling.block_m, tiling.block_n) in MEASURED[n]
    assert tiling.split_k == 1


@pytest.mark.parametrize(
    ("n", "tiling", "microseconds"),
    [(1536, (192, 96, 12), 15.6), (2048, (128, 256, 8), 27.2), (3072, (192, 192, 12), 76), (4096, (128, 256, 8), 176)],
)  # fmt: skip
def test_times_are_near_what_was_measured(n, tiling, microseconds):
    found = next(
        t for t in gpu_tilings(Workload(n, n, n), HOPPER)
        if (t.block_m, t.block_n, t.warps) == tiling and t.split_k == 1
    )  # fmt: skip
    nanoseconds = gpu_estimate(Workload(n, n, n), found, HOPPER).nanoseconds
    assert nanoseconds == pytest.approx(1e3 * microseconds, rel=0.15)


def test_half_accumulators_take_larger_tiles():
    tiling = choose(Workload(4096, 4096, 4096, accumulator="fp16"), HOPPER).tiling
    assert (tiling.block_m, tiling.block_n) == (256, 256)


def test_long_sums_of_few_tiles_are_split():
    choice = choose(Workload(256, 256, 16384), HOPPER)
    assert choice.tiling.split_k > 1
    assert choice.best.programs <= HOPPER.cores
    assert f"K in {choice.tiling.split_k} parts: whole, there would be" in choice.explain()


def test_what_does_not_fit_is_no_candidate():
    for name in ("sm_80", "sm_86", "sm_89", "sm_90a"):
        target = registry.machine(name)
        for element in ("fp16", "tf32", "fp8e4nv", "i8", "fp32", "fp64"):
            work = Workload(777, 1000, 333, element=element, out="fp32")
            tilings = gpu_tilings(work, target)
            assert tilings
            for t in tilings:
                assert gpu_estimate(work, t, target).shared_bytes <= target.shared_bytes
                assert t.stages >= 2


@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 4096, 4096), (16, 50, 3), (4096, 16, 4096), (1 << 20, 8, 8), (3, 5, 99999)]
)  # fmt: skip
def test_any_shape_has_a_choice_at_once_and_always_the_same(target, shape):
    machine = registry.machine(target)
    work = Workload(*shape, element="fp32" if target == "cpu" else "fp16")
    start = time.perf_counter()
    choice = choose(work, machine)
    assert time.perf_counter() - start < 0.05
    assert choose(work, machine) == choice
    assert choice.best.nanoseconds > 0
    assert 0 < choice.best.filled <= 1
    assert choice.explain().startswith(f"{shape[0]} x {shape[1]} x {shape[2]} ")


def test_candidates_can_be_left_out():
    work = Workload(4096, 4096, 4096)

    def powers(t: Tiling) -> bool:
        return t.block_m & (t.block_m - 1) == 0 and t.block_n & (t.block_n - 1) == 0

    for n in (1536, 3072):
        tiling = choose(Workload(n, n, n), HOPPER, powers).tiling
        assert powers(tiling)
    with pytest.raises(LaunchError, match="no tiles for"):
        choose(work, HOPPER, lambda t: False)


def test_the_explanation():
    assert choose(Workload(1536, 1536, 1536), HOPPER).explain(2).splitlines()[:6] == [
        "1536 x 1536 x 1536 fp16 -> fp16 on sm_90a: 192x96x64, 12 warps, 6 stages, groups of 8",
        "  128 programs in 1 waves, 97% of their places taken",
        "  a step reaches 85% of the multiply-add rate; limit: shared memory",
        "  14.2 MB through memory, about 15.4 µs (471 TFLOP/s)",
        "  6 stages in 216 KB of shared memory, 1 program on a multiprocessor",
        "  not the larger 128x192: 1 waves are filled to 73%",
    ]
