"""Dot plans: layouts, choices per target, text round trips."""

import itertools

import pytest
from benchmarks.dot_probe import TARGETS

from tilewright.errors import PassError
from tilewright.passes.cpu.dot_plan import ELEMENT_BITS, BufferLayout, DotPlan, plan_dot


@pytest.mark.parametrize(
    "layout",
    [BufferLayout.row(3, 5), BufferLayout.row(3, 5, 8), BufferLayout.panel(7, 20, 8),
     BufferLayout.panel(4, 64, 32, 100)],
)  # fmt: skip
def test_layouts_are_injective_and_within_their_size(layout):
    offsets = [layout.offset(i, j) for i in range(layout.rows) for j in range(layout.columns)]
    assert len(set(offsets)) == len(offsets)
    assert max(offsets) < layout.matrix_size <= layout.size
    assert BufferLayout.parse(str(layout)) == layout


def test_rows_of_a_panel_are_contiguous():
    layout = BufferLayout.panel(6, 48, 16)
    for i, j in itertools.product(range(6), range(48)):
        assert layout.offset(i, j) == layout.offset(i, j - j % layout.run) + j % layout.run


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 5, 7), (16, 16, 16), (192, 96, 40), (128, 128, 32)]
)
@pytest.mark.parametrize(
    "types", [("f32", "f32", "f32"), ("f16", "f16", "f32"), ("i8", "i8", "i32")]
)
def test_plans_survive_text(target, shape, types):
    plan = plan_dot(*shape, *types, TARGETS[target])
    assert DotPlan.parse(str(plan)) == plan
    assert (plan.a_layout.rows, plan.a_layout.columns) == (shape[0], shape[2])
    assert (plan.b_layout.rows, plan.b_layout.columns) == (shape[2], shape[1])
    assert (plan.acc_layout.rows, plan.acc_layout.columns) == (shape[0], shape[1])
    for layout, name in ((plan.a_layout, plan.a_type), (plan.b_layout, plan.b_type)):
        # the next matrix of a batch stays aligned for the copies
        assert not layout.extra or layout.size * ELEMENT_BITS[name] % 512 == 0


@pytest.mark.parametrize(
    ("target", "types", "kind", "packed"),
    [
        ("avx512", ("f16", "f16", "f32"), "fma", "f32"),
        ("avx512", ("bf16", "bf16", "f32"), "fma", "f32"),
        ("avx512", ("f8E5M2", "f8E4M3FN", "f32"), "fma", "f32"),
        ("avx512", ("f32", "f32", "f64"), "fma", "f64"),
        ("avx512", ("f64", "f64", "f64"), "fma", "f64"),
        ("avx512", ("i8", "i8", "i32"), "int_pairs", "i16"),
        ("avx512", ("i32", "i8", "i32"), "int", "i32"),
        ("avx512", ("i8", "i8", "i64"), "int", "i64"),
        ("avx512vnni", ("i8", "i8", "i32"), "int_quads", "i8"),
        ("avx512vnni", ("bf16", "bf16", "f32"), "fma", "f32"),
        ("avx512bf16", ("bf16", "f8E5M2", "f32"), "bf16_pairs", "bf16"),
        ("avx512bf16", ("f16", "f16", "f32"), "fma", "f32"),
        ("neon", ("i8", "i8", "i32"), "int", "i16"),
        ("amx", ("bf16", "bf16", "f32"), "amx_bf16", "bf16"),
        ("amx", ("f8E5M2", "bf16", "f32"), "amx_bf16", "bf16"),
        ("amx", ("f16", "f16", "f32"), "amx_fp16", "f16"),
        ("amx", ("f16", "bf16", "f32"), "fma", "f32"),
        ("amx", ("i8", "i8", "i32"), "amx_int8", "i8"),
        ("amx", ("f32", "f32", "f32"), "fma", "f32"),
    ],
)
def test_kernel_and_packed_type(target, types, kind, packed):
    plan = plan_dot(64, 64, 64, *types, TARGETS[target])
    assert (plan.kind, plan.a_type, plan.b_type) == (kind, packed, packed)


def test_small_or_odd_extents_stay_off_amx():
    assert plan_dot(7, 16, 32, "bf16", "bf16", "f32", TARGETS["amx"]).kind == "fma"
    assert plan_dot(16, 16, 33, "bf16", "bf16", "f32", TARGETS["amx"]).kind == "fma"
    assert plan_dot(16, 13, 32, "bf16", "bf16", "f32", TARGETS["amx"]).kind == "fma"


def test_faults():
    with pytest.raises(PassError, match="extents"):
        plan_dot(0, 1, 1, "f32", "f32", "f32", TARGETS["sse2"])
    with pytest.raises(PassError, match="i8 and f32"):
        plan_dot(1, 1, 1, "i8", "f32", "f32", TARGETS["sse2"])
    with pytest.raises(PassError, match="not a buffer layout"):
        BufferLayout.parse("spiral:3[1x1]")
    with pytest.raises(PassError, match="not a dot plan"):
        DotPlan.parse("fma")
