"""TMA stores of different iterations are in flight together only where their tiles are provably disjoint."""

from dataclasses import replace

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region, SSAValue

from tilewright.passes.analysis.polynomial import Leaf, Polynomial
from tilewright.passes.gpu.analysis.tma_stores import _advance


@pytest.fixture
def loop() -> scf.ForOp:
    bounds: list[SSAValue] = [arith.ConstantOp.from_int_and_width(n, 64).result for n in (0, 8, 1)]
    body = Block([scf.YieldOp()], arg_types=[i64])
    return scf.ForOp(*bounds, [], Region(body))


def test_coordinate_advances_by_its_coefficient_of_the_counter(loop: scf.ForOp) -> None:
    counter = Leaf(0, loop.body.block.args[0], True)
    other = Leaf(1, arith.ConstantOp.from_int_and_width(0, 64).result, True)
    place = Polynomial.of({(counter,): 64, (other,): 5, (): 3})
    assert _advance(place, loop) == 64


@pytest.mark.parametrize("change", [{"floored": True}, {"signed": False}])
def test_functions_of_the_counter_do_not_advance_by_the_step(
    loop: scf.ForOp, change: dict[str, bool]
) -> None:
    counter = Leaf(0, loop.body.block.args[0], True)
    assert _advance(Polynomial.leaf(replace(counter, **change)), loop) is None
    assert _advance(Polynomial.of({(counter, counter): 64}), loop) is None
