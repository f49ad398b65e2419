"""How many registers the tiles of a block take at once."""

import pytest

from tilewright.ir.text import parse_ir
from tilewright.passes.gpu.analysis.registers import peak_live_registers

SUM = """ = "tile.reduce"({}) <{{axis = 0 : i32}}> ({{
^bb0(%l: f32, %r: f32):
  %s = arith.addf %l, %r : f32
  tile.yield %s : f32
}}) : (tensor<2048xf32>) -> f32
"""
VIEW = '["strided"] strides(%one) {limited = array<i64>}'


def two_loads(between: str) -> str:
    """Each of two tiles of 64 registers is used after both have been loaded."""
    return f"""
func.func @f(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64) -> f32 {{
  %x = tile.load_view %p {VIEW} : !tile.ptr<f32> to tensor<2048xf32>
  %y = tile.load_view %q {VIEW} : !tile.ptr<f32> to tensor<2048xf32>
  %a = arith.mulf %x, %x : tensor<2048xf32>
  %b = arith.addf %a, %x : tensor<2048xf32>
  %first{SUM.format("%b")}
  {between}
  %c = arith.mulf %y, %y : tensor<2048xf32>
  %d = arith.addf %c, %y : tensor<2048xf32>
  %second{SUM.format("%d")}
  %both = arith.addf %first, %second : f32
  func.return %both : f32
}}
"""


@pytest.mark.parametrize(
    ("between", "registers"),
    [("", 64), ("tile.store %q, %first : !tile.ptr<f32>, f32", 128)],
    ids=["sunk", "memory may change"],
)
def test_loads_count_from_their_first_use(between, registers):
    function = parse_ir(two_loads(between)).body.block.first_op
    assert peak_live_registers(function.body.block.ops, 32) == registers
