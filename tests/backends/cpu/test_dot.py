"""Dot micro-kernels against NumPy, and what their assembly must not do."""

import numpy as np
import pytest
from benchmarks.dot_probe import (
    NUMPY,
    TARGETS,
    CompiledDot,
    assembly,
    runs_here,
    vector_spills,
)

from tilewright.passes.cpu.dot_plan import plan_dot

pytestmark = pytest.mark.sampled(3, full=2)

SHAPES = [(1, 1, 1), (1, 128, 64), (3, 5, 7), (16, 16, 16), (17, 33, 65), (24, 48, 5), (96, 96, 32)]
TYPES = [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("i8", "i8", "i32"), ("i16", "i16", "i32"),
         ("i32", "i32", "i32"), ("i64", "i64", "i64")]  # fmt: skip
LEVELS = ["sse2", "avx2", "avx512", "avx512vnni"]


def _matrix(rng, shape, name, wanted):
    kind = NUMPY[name]
    if name[0] == "f":
        return rng.standard_normal(shape).astype(kind)
    limits = np.iinfo(NUMPY[wanted])
    return rng.integers(limits.min, limits.max, shape, NUMPY[wanted], endpoint=True).astype(kind)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("types", TYPES, ids=lambda t: "-".join(t))
def test_matches_numpy(level, types):
    target = TARGETS[level]
    if not runs_here(target):
        pytest.skip(f"this machine lacks {level}")
    rng = np.random.default_rng(7)
    for shape in SHAPES:
        m, n, k = shape
        plan = plan_dot(m, n, k, *types, target)
        a = _matrix(rng, (m, k), plan.a_type, types[0])
        b = _matrix(rng, (k, n), plan.b_type, types[1])
        acc = _matrix(rng, (m, n), plan.acc_type, types[2])
        dot = CompiledDot(plan, target)
        for fetch in (False, True):
            result = dot(a, b, acc, fetch)
            if plan.acc_type[0] == "i":
                wide = NUMPY[plan.acc_type]
                with np.errstate(over="ignore"):
                    np.testing.assert_array_equal(result, acc + a.astype(wide) @ b.astype(wide))
            else:
                exact = acc.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
                bound = np.abs(acc) + np.abs(a).astype(np.float64) @ np.abs(b)
                assert (np.abs(result - exact) <= (k + 1) * np.finfo(acc.dtype).eps * bound).all()


@pytest.mark.parametrize("level", [*LEVELS, "neon"])
@pytest.mark.parametrize("types", TYPES, ids=lambda t: "-".join(t))
def test_nothing_spills(level, types):
    # AVX2 and SSE have no 64-bit multiply: what replaces it needs more registers than there are
    if types[0] == "i64" and level in ("sse2", "neon"):
        pytest.skip("no 64-bit vector multiply")
    for shape in [(128, 128, 32), (64, 64, 64), (17, 33, 65), (192, 192, 64), (64, 16, 128)]:
        plan = plan_dot(*shape, *types, TARGETS[level])
        assert vector_spills(assembly(plan, TARGETS[level])) == 0, str(plan)


@pytest.mark.parametrize(
    ("level", "types", "instruction"),
    [
        ("sse2", ("f32", "f32", "f32"), "mulps"),
        ("sse2", ("i8", "i8", "i32"), "pmaddwd"),
        ("avx2", ("f32", "f32", "f32"), "vfmadd231ps"),
        ("avx512", ("f32", "f32", "f32"), "vfmadd231ps"),
        ("avx512", ("i8", "i8", "i32"), "vpmaddwd"),
        ("avx512vnni", ("i16", "i8", "i32"), "vpdpwssd"),
        ("avx512vnni", ("i8", "i8", "i32"), "vpdpbusd"),
        ("avx512bf16", ("bf16", "bf16", "f32"), "vdpbf16ps"),
        ("neon", ("f32", "f32", "f32"), "fmla"),
        ("neon", ("i8", "i8", "i32"), "smlal"),
    ],
)
def test_instructions(level, types, instruction):
    asm = assembly(plan_dot(64, 64, 32, *types, TARGETS[level]), TARGETS[level])
    assert instruction in asm
    assert "fmaf" not in asm  # the library function, once a lane
    assert ("prefetcht1" in asm) == (level != "neon")


def test_padding_and_neighbours_stay_out_of_the_result():
    """Buffers are filled with NaN around the matrices; a narrow result must not see it."""
    target = TARGETS["sse2"]
    if not runs_here(target):
        pytest.skip("not x86-64")
    plan = plan_dot(5, 3, 9, "f32", "f32", "f32", target)
    ones = CompiledDot(plan, target)(
        np.ones((5, 9), np.float32), np.ones((9, 3), np.float32), np.zeros((5, 3), np.float32)
    )
    np.testing.assert_array_equal(ones, np.full((5, 3), 9, np.float32))


def test_bf16_pairs():
    target = TARGETS["avx512bf16"]
    if not runs_here(target):
        pytest.skip("no AVX512-BF16")
    rng = np.random.default_rng(8)
    for m, n, k in [*SHAPES, (128, 128, 32)]:
        plan = plan_dot(m, n, k, "bf16", "bf16", "f32", target)
        assert plan.kind == "bf16_pairs" and vector_spills(assembly(plan, target)) == 0
        # bf16 numbers: fp32 with the low half cut off
        a, b = (
            rng.standard_normal(s).astype(np.float32).view(np.uint32) >> 16
            for s in ((m, k), (k, n))
        )
        wide_a, wide_b = ((x << 16).view(np.float32).astype(np.float64) for x in (a, b))
        acc = rng.standard_normal((m, n)).astype(np.float32)
        result = CompiledDot(plan, target)(a.astype(np.uint16), b.astype(np.uint16), acc)
        bound = np.abs(acc) + np.abs(wide_a) @ np.abs(wide_b)
        assert (np.abs(result - acc - wide_a @ wide_b) <= (k + 1) * 2.0**-23 * bound).all()


def test_bf16_pairs_with_an_odd_depth_keep_infinities_apart():
    target = TARGETS["avx512bf16"]
    if not runs_here(target):
        pytest.skip("no AVX512-BF16")
    plan = plan_dot(4, 16, 3, "bf16", "bf16", "f32", target)
    a, b = np.full((4, 3), 0x3F80, np.uint16), np.full((3, 16), 0x7F80, np.uint16)
    result = CompiledDot(plan, target)(a, b, np.zeros((4, 16), np.float32))
    np.testing.assert_array_equal(result, np.full((4, 16), np.inf, np.float32))
