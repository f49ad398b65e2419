"""The door to xDSL: types, locations, printing and parsing."""

import pytest

from tilewright import dtypes
from tilewright.errors import PassError, SourceLocation
from tilewright.ir.location import location_attribute, location_of, source_location
from tilewright.ir.text import parse_ir, print_ir, verify_ir
from tilewright.ir.types import ir_type, language_type

TEXT = """
func.func @k(%x: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "x_ptr"}, %n: i32) {
  %pid = tile.program_id 0 : i32 : i32 loc("a.py":3:5)
  %lanes = tile.arange 0 : i32, 4 : i32 : tensor<4xi32> loc(callsite("b.py":1:2 at "a.py":4:1))
  %all = tile.splat %pid : i32 to tensor<4xi32>
  %sum = arith.addi %lanes, %all : tensor<4xi32>
  func.return
}
"""


@pytest.mark.parametrize("element", dtypes.ALL_SCALARS, ids=str)
def test_types(element):
    pointer = dtypes.pointer_type(element)
    assert ir_type(element) is ir_type(element)
    assert str(ir_type(pointer)) == f"!tile.ptr<{ir_type(element)}>"
    tile = dtypes.block_type(pointer, (4, 8))
    assert str(ir_type(tile)) == f"tensor<4x8x!tile.ptr<{ir_type(element)}>>"
    back = language_type(ir_type(tile))
    assert back.shape == (4, 8)
    assert ir_type(back) == ir_type(tile)
    if not element.is_int_unsigned():
        assert back == tile


def test_type_without_ir_type():
    with pytest.raises(TypeError):
        ir_type(dtypes.void)


def test_text_round_trip():
    module = parse_ir(TEXT)
    verify_ir(module)
    for options in ({}, {"locations": True}, {"generic": True}):
        text = print_ir(module, **options)
        assert print_ir(parse_ir(text), **options) == text


def test_locations():
    outer = SourceLocation("c.py", 1, 1)
    location = SourceLocation("a.py", 3, 4, caller=SourceLocation("b.py", 5, 6, caller=outer))
    assert source_location(location_attribute(location)) == location
    ops = list(parse_ir(TEXT).walk())
    named = {op.name: location_of(op) for op in ops}
    assert named["tile.program_id"] == SourceLocation("a.py", 3, 4)
    assert named["tile.arange"].caller == SourceLocation("a.py", 4, 0)
    assert named["tile.splat"] is None


def test_bad_text_and_bad_ir():
    with pytest.raises(PassError, match="is not IR"):
        parse_ir("func.func @k() { %0 = tile.nothing }")
    wrong = TEXT.replace("tensor<4xi32> loc(callsite", "tensor<8xi32> loc(callsite")
    wrong = wrong.replace("%lanes, %all", "%all, %all")
    with pytest.raises(PassError, match="after fold") as caught:
        verify_ir(parse_ir(wrong), after="fold")
    assert caught.value.location.file == "b.py"
