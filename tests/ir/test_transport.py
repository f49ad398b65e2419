"""Modules as bytes: nothing of their text, names and locations is lost."""

import random

import pytest
from tests.random.programs import generate

from tilewright.frontend import build
from tilewright.ir.text import module_from_bytes, module_to_bytes, parse_ir, print_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(3)

TEXT = """
func.func @k(%x: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "x_ptr"}, %n: i32) {
  %pid = tile.program_id 0 : i32 : i32 loc("a.py":3:5)
  %lanes = tile.arange 0 : i32, 4 : i32 : tensor<4xi32> loc(callsite("b.py":1:2 at "a.py":4:1))
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %sum = scf.for %i = %zero to %n step %one iter_args(%all = %lanes) -> (tensor<4xi32>) : i32 {
    %next = arith.addi %all, %lanes : tensor<4xi32>
    scf.yield %next : tensor<4xi32>
  }
  func.return
}
"""


def same(module):
    text = print_ir(module, locations=True)
    back = module_from_bytes(module_to_bytes(module))
    back.verify()
    assert print_ir(back, locations=True) == text
    assert print_ir(module, locations=True) == text


def test_regions_names_and_locations():
    same(parse_ir(TEXT))


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed):
    program = generate(random.Random(seed))
    same(build(KernelFunction(program.function()), program.signature()).module)


def test_only_modules():
    with pytest.raises(TypeError, match="a module expected"):
        module_from_bytes(_bytes_of_first_operation())


def _bytes_of_first_operation():
    module = parse_ir(TEXT)
    return module_to_bytes(module.body.block.first_op)  # type: ignore[arg-type]
