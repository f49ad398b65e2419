"""Lanes with distinct addresses, and lanes that nothing observes."""

from __future__ import annotations

import pytest

from tilewright.dialects import tile
from tilewright.ir.text import parse_ir
from tilewright.passes.analysis.forms import LANE, Form, Wrapped, have_distinct_lanes
from tilewright.passes.analysis.polynomial import ZERO, Polynomial
from tilewright.passes.analysis.unobserved_lanes import are_unobserved

number = Polynomial.constant


@pytest.mark.parametrize(
    ("strides", "shape", "distinct"),
    [
        ([1], [64], True), ([-2], [64], True), ([0], [64], False), ([0], [1], True),
        ([64, 1], [8, 64], True), ([63, 1], [8, 64], False), ([1, 8], [8, 64], True), ([0, 1], [1, 64], True),
        ([0, 1], [2, 64], False), ([512, 64, 1], [2, 8, 64], True), ([1, 1], [2, 2], False),
    ],
)  # fmt: skip
def test_lanes_are_distinct_where_strides_exceed_the_span_of_smaller_ones(strides, shape, distinct):
    terms = {d: {LANE: number(s)} for d, s in enumerate(strides) if s}
    assert have_distinct_lanes(Form(None, ZERO, terms), shape) == distinct


def test_lanes_of_wrapped_dimensions_are_not_known_to_be_distinct():
    terms = {0: {Wrapped(ZERO, number(8)): number(1)}}
    assert not have_distinct_lanes(Form(None, ZERO, terms), [64])


USES = {
    "tile.store %q, %x mask %m : tensor<8xi1> : tensor<8x!tile.ptr<i64>>, tensor<8xi64>": True,
    "tile.store %q, %x mask %both : tensor<8xi1> : tensor<8x!tile.ptr<i64>>, tensor<8xi64>": True,
    "tile.store %q, %x mask %other : tensor<8xi1> : tensor<8x!tile.ptr<i64>>, tensor<8xi64>": False,
    "tile.store %q, %x : tensor<8x!tile.ptr<i64>>, tensor<8xi64>": False,
    """%y = arith.addi %x, %x : tensor<8xi64>
    tile.store %q, %y mask %m : tensor<8xi1> : tensor<8x!tile.ptr<i64>>, tensor<8xi64>""": True,
    """%y = tile.select %m, %x, %z : tensor<8xi1>, tensor<8xi64>, tensor<8xi64> to tensor<8xi64>
    tile.store %q, %y : tensor<8x!tile.ptr<i64>>, tensor<8xi64>""": True,
    """%y = tile.select %m, %z, %x : tensor<8xi1>, tensor<8xi64>, tensor<8xi64> to tensor<8xi64>
    tile.store %q, %y : tensor<8x!tile.ptr<i64>>, tensor<8xi64>""": False,
    """%a = tile.addptr %q, %x : tensor<8x!tile.ptr<i64>>, tensor<8xi64> to tensor<8x!tile.ptr<i64>>
    %y = tile.load %a mask %m : tensor<8xi1> : tensor<8x!tile.ptr<i64>> to tensor<8xi64>
    tile.store %q, %y : tensor<8x!tile.ptr<i64>>, tensor<8xi64>""": True,
    """%c = tile.cmpi "slt", %x, %z : tensor<8xi64>, tensor<8xi64> to tensor<8xi1>
    %y = arith.ori %c, %not : tensor<8xi1>
    tile.store %b, %y : tensor<8x!tile.ptr<i1>>, tensor<8xi1>""": True,
    """%c = tile.cmpi "slt", %x, %z : tensor<8xi64>, tensor<8xi64> to tensor<8xi1>
    %y = arith.ori %c, %other : tensor<8xi1>
    tile.store %b, %y : tensor<8x!tile.ptr<i1>>, tensor<8xi1>""": False,
}  # fmt: skip


@pytest.mark.parametrize(("use", "unobserved"), USES.items())
def test_masked_lanes_are_unobserved_where_uses_leave_them_out(use, unobserved):
    module = parse_ir(f"""
    func.func @k(%p: tensor<8x!tile.ptr<i64>>, %q: tensor<8x!tile.ptr<i64>>, %b: tensor<8x!tile.ptr<i1>>,
                 %m: tensor<8xi1>, %other: tensor<8xi1>, %z: tensor<8xi64>) {{
      %true = arith.constant true
      %trues = tile.splat %true : i1 to tensor<8xi1>
      %not = arith.xori %m, %trues : tensor<8xi1>
      %both = arith.andi %other, %m : tensor<8xi1>
      %x = tile.load %p mask %m : tensor<8xi1> : tensor<8x!tile.ptr<i64>> to tensor<8xi64>
      {use}
      func.return
    }}""")
    load = next(op for op in module.walk() if isinstance(op, tile.LoadOp))
    assert load.mask is not None
    assert are_unobserved(load.result, load.mask) == unobserved
