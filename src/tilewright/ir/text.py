"""Print, parse and verify IR; names of values in printed IR.

Serialize modules for another process of the same compiler.

Parsing textual IR takes longer than compiling a small kernel, so text is for readers and for files that outlive a
version. Here operations are flat records, and attributes are pickled, equal attributes once. Deserialize trusted
bytes only: unpickling can execute arbitrary code.
"""

from __future__ import annotations

import pickle
import re
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.errors import PassError, SourceLocation
from tilewright.ir.context import new_context, op_class
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


def module_to_bytes(module: ModuleOp) -> bytes:
    """Serialize `module`, including locations and value names."""
    return pickle.dumps(_Writer().operation(module), pickle.HIGHEST_PROTOCOL)


def module_from_bytes(data: bytes) -> ModuleOp:
    """Deserialize a module written by `module_to_bytes`."""
    module = _Reader().operation(pickle.loads(data))
    if not isinstance(module, ModuleOp):
        raise TypeError(f"a module expected, not {module.name}")
    return module


class _Writer:
    def __init__(self) -> None:
        self._numbers: dict[SSAValue, int] = {}

    def operation(self, op: Operation) -> tuple[Any, ...]:
        operands = [self._numbers[value] for value in op.operands]
        regions = [[self._block(block) for block in region.blocks] for region in op.regions]
        results = self._values(op.results)
        return op.name, operands, results, op.properties, op.attributes, op.location, regions

    def _block(self, block: Block) -> tuple[Any, ...]:
        return self._values(block.args), [self.operation(op) for op in block.ops]

    def _values(self, values: Any) -> list[tuple[Any, ...]]:
        """Return types and names of new values, and assign them the next numbers."""
        for value in values:
            self._numbers[value] = len(self._numbers)
        return [(value.type, value.name_hint) for value in values]


class _Reader:
    def __init__(self) -> None:
        self._values: list[SSAValue] = []

    def operation(self, record: tuple[Any, ...]) -> Operation:
        name, operands, results, properties, attributes, location, regions = record
        values = [self._values[number] for number in operands]
        made = op_class(name).create(
            operands=values,
            result_types=[kind for kind, _ in results],
            properties=properties,
            attributes=attributes,
            location=location,
            regions=[Region([self._block(block) for block in blocks]) for blocks in regions],
        )
        self._named(made.results, results)
        return made

    def _block(self, record: tuple[Any, ...]) -> Block:
        arguments, operations = record
        block = Block(arg_types=[kind for kind, _ in arguments])
        self._named(block.args, arguments)
        for operation in operations:
            block.add_op(self.operation(operation))
        return block

    def _named(self, values: Any, records: list[tuple[Any, ...]]) -> None:
        for value, (_, name) in zip(values, records, strict=True):
            value.name_hint = name
            self._values.append(value)
