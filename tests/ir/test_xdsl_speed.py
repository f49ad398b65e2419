"""The faster methods that replace xDSL's do the same."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult

from tilewright.ir import xdsl_speed
from tilewright.ir.text import parse_ir

TEXT = """
func.func @f(%n: i32) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %one step %one {
    %c = arith.constant true
    scf.if %c {
      %a = arith.addi %n, %n : i32
      scf.yield
    } else {
      %b = arith.muli %n, %n : i32
    }
  }
  func.return
}
"""


@pytest.fixture
def module() -> ModuleOp:
    return parse_ir(TEXT)


def in_order(op: Operation) -> list[Operation]:
    found = [op]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                found += in_order(inner)
    return found


def test_walks_visit_all_operations_in_order(module):
    assert [*module.walk()] == in_order(module)
    block = module.body.block
    assert [*block.walk()] == in_order(module)[1:]
    assert [*module.walk(reverse=True, region_first=True)] == in_order(module)[::-1]
    assert [op.name for op in module.walk(reverse=True)][:2] == ["builtin.module", "func.func"]


def test_operations_may_be_erased_while_one_walks(module):
    seen = []
    for op in module.walk():
        seen.append(op.name)
        if isinstance(op, arith.AddiOp | arith.MuliOp):
            op.detach()
            op.erase()
    assert "arith.addi" in seen and "arith.muli" in seen and seen[-1] == "func.return"
    assert not any(isinstance(op, arith.MuliOp) for op in module.walk())


def test_classes_are_compared_by_their_bases(module):
    names = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert len(names) == 1 and type(scf.ForOp) is xdsl_speed.PlainMeta
    loop = names[0]
    assert isinstance(loop, Operation) and not isinstance(loop, scf.IfOp)
    assert isinstance(loop.results, tuple) and isinstance(loop.lb, OpResult)
    assert isinstance(loop.body.block.args[0], BlockArgument) and not isinstance(loop, Block)
    with pytest.raises(TypeError, match="abstract"):
        Operation.__mro__[1]()  # pyright: ignore[reportAbstractUsage]


def test_values_and_operations_are_hashed_by_identity(module):
    ops = [*module.walk()]
    other = parse_ir(TEXT)
    assert len({*ops, *other.walk()}) == 2 * len(ops)
    one = next(op for op in ops if isinstance(op, arith.AddiOp))
    assert one.lhs == one.rhs and one.lhs is one.operands[0] and one.result != one.lhs
    assert {one.lhs: 1}[one.rhs] == 1
    assert type(one.results[:1]) is type(one.results)


def test_operands_are_a_tuple_whose_elements_can_be_assigned(module):
    product = next(op for op in module.walk() if isinstance(op, arith.MuliOp))
    before = product.operands
    assert isinstance(before, tuple) and product.operands is before
    total = next(op for op in module.walk() if isinstance(op, arith.AddiOp))
    product.operands[1] = total.result
    assert [*product.operands] == [before[0], total.result] and before[1] is before[0]
    assert [(use.operation, use.index) for use in total.result.uses] == [(product, 1)]
    assert (product, 1) not in [(use.operation, use.index) for use in before[0].uses]
    assert product.operands[1:].types == (total.result.type,)
    product.operands = [total.result, total.result]
    assert product.lhs is total.result and before[0].first_use.operation is total
    assert {use.index for use in total.result.uses if use.operation is product} == {0, 1}


def test_new_operations_have_the_defaults_of_their_class(module):
    total = next(op for op in module.walk() if isinstance(op, arith.AddiOp))
    made = arith.AddiOp.create(operands=total.operands, result_types=[total.result.type])
    assert made.properties == {"overflowFlags": arith.IntegerOverflowAttr("none")}
    assert not made.successors and made.parent is None and made.result.owner is made
    made.erase()
    assert len([*total.lhs.uses]) == 4


def test_another_xdsl_is_left_alone(monkeypatch):
    assert xdsl_speed._is_known()
    monkeypatch.delattr("xdsl.ir.core._unknown_loc")
    assert not xdsl_speed._is_known()
