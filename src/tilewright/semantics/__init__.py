"""The meaning of the kernel language over an abstract builder: promotion, shapes, errors.

`Semantics(builder)` has one method per operation, which takes and returns `TensorValue`s. The stub of the same name in
`tilewright.language` documents the method's arguments.
"""

from tilewright.semantics.builder import Builder, EagerBuilder
from tilewright.semantics.core import PYTHON_BUILTINS, TENSOR_METHODS, Semantics
from tilewright.semantics.memory import BlockPointer, TensorDescriptor
from tilewright.semantics.values import TensorValue, describe, type_text

__all__ = [
    "PYTHON_BUILTINS", "TENSOR_METHODS", "BlockPointer", "Builder", "EagerBuilder", "Semantics",
    "TensorDescriptor", "TensorValue", "describe", "type_text",
]  # fmt: skip
