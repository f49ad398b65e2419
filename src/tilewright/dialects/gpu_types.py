"""Types of the `gpu` dialect: buffers in shared memory and mbarriers."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilewright.dialects import gpu_rules as rules


@irdl_attr_definition
class SharedType(ParametrizedAttribute, TypeAttribute):
    """`!gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 swizzle128", 3>`: a buffer with 3 stages of such a tile."""

    name = "gpu.shared"
    tile: TensorType
    layout: StringAttr
    stages: IntAttr

    def verify(self) -> None:
        rules.verify_shared(self.tile, self.layout.data, self.stages.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> tuple[Attribute, ...]:
        """Inside `<>`: tile, layout and a plain number of stages."""
        with parser.in_angle_brackets():
            tile = parser.parse_type()
            parser.parse_punctuation(",")
            layout = StringAttr(parser.parse_str_literal())
            parser.parse_punctuation(",")
            return tile, layout, IntAttr(parser.parse_integer())

    def print_parameters(self, printer: Printer) -> None:
        """Print in the syntax of `parse_parameters`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.tile)
            printer.print_string(f', "{self.layout.data}", {self.stages.data}')


@irdl_attr_definition
class MbarriersType(ParametrizedAttribute, TypeAttribute):
    """`!gpu.mbarriers<4>`: mbarriers, one per stage."""

    name = "gpu.mbarriers"
    stages: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> tuple[Attribute, ...]:
        """Inside `<>`: a plain number of stages."""
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)

    def print_parameters(self, printer: Printer) -> None:
        """Print in the syntax of `parse_parameters`."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.stages.data))
