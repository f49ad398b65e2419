"""Formats of operations are read when text is parsed or printed, and not before."""

import os
import subprocess
import sys

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, i32
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, PyRDLOpDefinitionError

from tilewright.ir.formats import LazyFormat, formats_read_when_used

PROGRAM = """
import sys
import tilewright as tw
import tilewright.language as tl

@tw.jit
def copy(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, N), tl.load(x_ptr + tl.arange(0, N)))

copy.compile({"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"N": 16}, target=sys.argv[1])
reader = "xdsl.irdl.declarative_assembly_format"
print(reader in sys.modules, f"{reader}_parser" in sys.modules)
"""


def test_a_format_is_read_once_when_it_is_used():
    with formats_read_when_used():

        @irdl_op_definition
        class PairOp(IRDLOperation):
            name = "tile.test_pair"
            left = operand_def(i32)
            result = result_def(i32)
            assembly_format = "$left attr-dict `:` type($result)"

    text = "%0 = tile.test_pair %0 {a = 1 : i32} : i32\n"
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Dialect("tile", [PairOp]))
    module = Parser(context, text).parse_module()
    assert isinstance(module, ModuleOp)
    assert text.strip() in str(module)
    module.verify()


def test_an_error_in_a_format_is_told_when_it_is_used():
    with formats_read_when_used():

        @irdl_op_definition
        class WrongOp(IRDLOperation):
            name = "tile.test_wrong"
            left = operand_def(i32)
            assembly_format = "$right"

    with pytest.raises(ParseError):
        WrongOp.create(operands=[]).print(None)


def test_operations_of_others_are_left_alone():
    """Neither those of other dialects, nor any that are defined when nothing is compiled."""
    reader = FormatProgram.__dict__["from_str"]

    def define(operation):
        @irdl_op_definition
        class WrongOp(IRDLOperation):
            name = operation
            left = operand_def(i32)
            assembly_format = "$right"

    with formats_read_when_used(), formats_read_when_used(), pytest.raises(PyRDLOpDefinitionError):
        define("others.wrong")
    assert FormatProgram.__dict__["from_str"] is reader
    with pytest.raises(PyRDLOpDefinitionError):
        define("tile.test_wrong_outside")


def test_reading_waits():
    made = []

    def read(text, definition):
        made.append(text)
        return text

    lazy = LazyFormat("$a", None, read)
    assert not made
    assert lazy.program == lazy.program == "$a"
    assert made == ["$a"]


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_compiling_reads_no_format(target, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), target],
        capture_output=True, text=True, check=False,
        env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False"], done.stderr
