"""Print, parse and verify IR; names of values in printed IR."""

from __future__ import annotations

import re
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.errors import PassError, SourceLocation
from tilewright.ir.context import new_context
from tilewright.ir.location import location_of


class _Printer(Printer):
    """xDSL's printer, with one location per operation.

    `scf.while` prints its type through `print_operation_type`, which would add the location there
    too, where no parser expects it.
    """

    def print_operation_type(self, op: Operation) -> None:
        if self.print_generic_format or type(op).print is Operation.print:
            super().print_operation_type(op)
        else:
            self.print_function_type(op.operand_types, op.result_types)


def print_ir(op: Operation, *, locations: bool = False, generic: bool = False) -> str:
    """Print `op` in MLIR's textual format, ending in a newline.

    With `locations` every operation is followed by its `loc(…)`; `generic` prints the form that
    needs no dialect-specific syntax.
    """
    stream = StringIO()
    printer = _Printer(stream, print_generic_format=generic, print_debuginfo=locations)
    printer.print_op(op)
    text = stream.getvalue()
    return text if text.endswith("\n") else text + "\n"


def parse_ir(text: str, name: str = "<ir>") -> ModuleOp:
    """Parse a module; `name` is the file name in messages. Raises `PassError` on invalid text."""
    try:
        return Parser(new_context(), text, name).parse_module()
    except ParseError as error:
        raise PassError(f"{name} is not IR:\n{error}") from None
    except VerifyException as error:
        raise PassError(f"{name} does not verify: {error}") from None


def verify_ir(op: Operation, after: str = "") -> None:
    """Verify every operation in `op`, and that definitions dominate uses. Raises `PassError` that names `after`, the
    last pass."""
    try:
        op.verify()
        _verify_order(op, set())
    except VerifyException as error:
        where = f" after {after}" if after else ""
        text = str(error).strip()
        raise PassError(f"the IR does not verify{where}: {text}", location=_place(op)) from None


def _place(op: Operation) -> SourceLocation | None:
    """Return the location of the innermost operation that fails verification."""
    for inner in op.walk():
        try:
            inner.verify(verify_nested_ops=False)
        except VerifyException:
            return location_of(inner)
    return None


def _verify_order(op: Operation, known: set[SSAValue]) -> None:
    """Check that definitions in and around `op` dominate the uses in `op` (xDSL does not verify dominance)."""
    for region in op.regions:
        for block in region.blocks:
            made: list[SSAValue] = list(block.args)
            known.update(made)
            for inner in block.ops:
                for value in inner.operands:
                    if value not in known:
                        raise VerifyException(
                            f"{inner.name} uses what is not made before it: {value}"
                        )
                _verify_order(inner, known)
                made += inner.results
                known.update(inner.results)
            known.difference_update(made)


#: what xDSL keeps of a hint: no number after an underscore at its end, which it adds itself
_KEPT = re.compile(r"([A-Za-z_]\w*?)(?:_\d+)?", re.ASCII)


def name_value(value: SSAValue, name: str) -> None:
    """Let printed IR show `value` under the identifier `name` as far as IR can spell it: `_0` it cannot."""
    found = _KEPT.fullmatch(name)
    if found is not None and not found[1].lstrip("_").isdigit():
        value.name_hint = found[1]
