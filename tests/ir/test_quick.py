"""What replaces functions of xDSL does what they do."""

import subprocess
import sys

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from tilewright.ir import quick
from tilewright.ir.text import parse_ir

TEXT = """
func.func @k(%p: !tile.ptr<i32>, %n: i64, %c: i1) {
  %s = arith.constant 1 : i64
  scf.for %i = %s to %n step %s : i64 {
    %a = arith.constant 3 : i32
    scf.if %c {
      tile.store %p, %a : !tile.ptr<i32>, i32
    } else {
      %b = arith.addi %a, %a : i32
    }
  }
  func.return
}
"""


@pytest.mark.parametrize("order", [{}, {"reverse": True}, {"region_first": True}])
def test_walks(order):
    module = parse_ir(TEXT)
    block = module.body.block
    for kind, thing in zip(quick._WALKS, (module, block, module.body), strict=True):
        assert list(thing.walk(**order)) == list(quick._WALKS[kind](thing, **order))


def test_an_operation_may_be_erased_while_it_is_walked_over():
    module = parse_ir(TEXT)
    seen = []
    for op in module.walk():
        seen.append(op.name)
        if op.name == "arith.addi":
            op.detach()
            op.erase()
    assert "arith.addi" in seen and seen[-1] == "func.return"
    assert all(op.name != "arith.addi" for op in module.walk())


def test_operations_know_their_operands_and_these_their_users():
    one = arith.ConstantOp.from_int_and_width(1, 32)
    two = arith.AddiOp.create(operands=[one.result, one.result], result_types=[i32])
    assert [(use.operation, use.index) for use in one.result.uses] == [(two, 1), (two, 0)]
    assert two.lhs is two.rhs is one.result and two.result.owner is two
    other = arith.AddiOp(one.result, one.result)
    assert two.properties.keys() == other.properties.keys()
    other.erase()
    with pytest.raises(ValueError, match="still has uses"):
        one.erase()
    two.operands = [two.result, two.result]
    assert not list(one.result.uses)


def test_operations_without_regions_end_implicitly():
    loop = next(op for op in parse_ir(TEXT).walk() if op.name == "scf.for")
    assert loop.body.block.last_op.name == "scf.yield"


def test_fewer_steps_are_for_everybody():
    program = "import tilewright.dialects.tile, xdsl.ir; print(xdsl.ir.Block.walk.__module__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == quick.__name__
