"""Serialize modules for another process of the same compiler.

Parsing textual IR takes longer than compiling a small kernel, so text is for readers and for files that outlive a
version. Here operations are flat records, and attributes are pickled, equal attributes once. Deserialize trusted
bytes only: unpickling can execute arbitrary code.
"""

from __future__ import annotations

import pickle
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.ir.context import op_class


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
