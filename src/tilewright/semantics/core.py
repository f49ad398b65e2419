"""`Semantics`: all operations of the language over one builder."""

from __future__ import annotations

import builtins
import difflib
import functools
from typing import Any

from tilewright.errors import KernelNameError, KernelTypeError
from tilewright.semantics.lanes import Lanes
from tilewright.semantics.memory import BlockPointer, TensorDescriptor
from tilewright.semantics.values import OPERATOR_METHODS, TensorValue, describe

#: `x.name(...)` is `tl.name(x, ...)` for these
TENSOR_METHODS = frozenset({
    "abs", "advance", "argmax", "argmin", "associative_scan", "atomic_add", "atomic_and",
    "atomic_cas", "atomic_load", "atomic_max", "atomic_min", "atomic_or", "atomic_store", "atomic_xchg", "atomic_xor",
    "broadcast_to", "cast", "cdiv", "ceil", "cos", "cumprod", "cumsum", "erf", "exp", "exp2",
    "expand_dims", "flip", "floor", "gather", "histogram", "item", "load", "log", "log2",
    "logical_and", "logical_or", "max", "min", "permute", "ravel", "reduce", "reshape", "rsqrt",
    "sigmoid", "sin", "softmax", "split", "sqrt", "sqrt_rn", "squeeze", "store", "sum", "tanh",
    "to", "trans", "unsqueeze", "view", "xor_sum", "reduce_or",
})  # fmt: skip
#: attributes of arrays on the host that programs look for in a kernel
_OF_ARRAYS = ("stride", "strides", "size", "ndim", "dim", "numel", "is_contiguous", "device")
_PROPERTIES = ("dtype", "type", "shape", "numel", "ndim", "T")
_DESCRIPTOR_ATOMICS = ("add", "min", "max", "and", "or", "xor")

#: Python's functions that mean something else on tensors
PYTHON_BUILTINS = {
    builtins.min: "python_min", builtins.max: "python_max", builtins.abs: "python_abs",
    builtins.int: "python_int", builtins.float: "python_float", builtins.bool: "python_bool",
    builtins.print: "python_print",
}  # fmt: skip


class Semantics(Lanes):
    """Every `tl` name with `__tl_builtin__ = "<name>"` is the method `<name>` here."""

    def has_attributes(self, value: Any) -> bool:
        """Whether `attribute` is to be asked about `value`."""
        return isinstance(value, TensorValue | BlockPointer | TensorDescriptor)

    def attribute(self, value: Any, name: str) -> Any:
        """`value.name` of a tensor, block pointer or descriptor: a value or a function.

        Raises KernelNameError with the closest name.
        """
        if isinstance(value, TensorValue):
            if name in _PROPERTIES:
                return self.trans(value) if name == "T" else getattr(value, name)
            if name in TENSOR_METHODS:
                return functools.partial(getattr(self, name), value)
            if name in OPERATOR_METHODS:
                return getattr(TensorValue(value.handle, value.type, self), name)
            known = [*_PROPERTIES, *TENSOR_METHODS]
        elif isinstance(value, TensorDescriptor):
            found = self._descriptor_attribute(value, name)
            if found is not None:
                return found
            known = [
                "load", "store", "gather", "scatter", "shape", "strides", "block_shape", "dtype",
                "type",
            ]  # fmt: skip
            known += [f"atomic_{kind}" for kind in _DESCRIPTOR_ATOMICS]
        elif isinstance(value, BlockPointer):
            known = ["advance", "dtype", "type"]
            if name in known:
                return getattr(value, name)
        else:
            raise KernelTypeError(f"{describe(value)} has no attribute '{name}'")
        close = difflib.get_close_matches(name, known, 1)
        help = f"did you mean '{close[0]}'?" if close else ""
        if name in _OF_ARRAYS and isinstance(value, TensorValue) and not value.shape:
            help = "a kernel gets the address of an array: pass sizes and strides as arguments"
        raise KernelNameError(
            f"{describe(value) if isinstance(value, TensorValue) else type(value).__name__} has no"
            f" attribute '{name}'",
            help=help,
        )

    def _descriptor_attribute(self, desc: TensorDescriptor, name: str) -> Any:
        if name in ("gather", "scatter"):
            return functools.partial(getattr(self, f"descriptor_{name}"), desc)
        if name in ("load", "store"):
            return functools.partial(getattr(self, f"{name}_tensor_descriptor"), desc)
        if name.startswith("atomic_") and name[7:] in _DESCRIPTOR_ATOMICS:
            return functools.partial(self.descriptor_atomic, name[7:], desc)
        if name in ("base", "shape", "strides", "block_shape", "dtype", "type"):
            return getattr(desc, name)
        return None

    def loop_condition(self, cond: Any, disable_licm: Any = False) -> Any:
        return cond

    def gdc_wait(self) -> None:
        """Nothing to wait for."""

    def gdc_launch_dependents(self) -> None:
        """Nothing depends on this kernel early."""
