"""`Semantics`: all operations of the language over one builder."""

from __future__ import annotations

import builtins
import difflib
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import KernelNameError, KernelTypeError
from tilewright.semantics.foreign import Foreign
from tilewright.semantics.memory import BlockPointer, TensorDescriptor
from tilewright.semantics.values import OPERATOR_METHODS, TensorValue, describe, type_text

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


_WHAT = "tl.map_elementwise"


class Semantics(Foreign):
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

    # ---- functions of scalars on tiles -------------------------------------------------------

    def map_elementwise(self, scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
        count = self.known_int(pack, f"{_WHAT}: pack")
        if not args:
            raise KernelTypeError(f"{_WHAT} needs a tile to work on")
        values = [self.to_tensor(a) for a in args]
        shape = self.common_shape(values, _WHAT)
        if not shape:
            return self.call_function(scalar_fn, values)
        tiles = [self.broadcast_shape(v, shape) if v.shape else v for v in values]
        size = math.prod(shape)
        if count < 1 or shape[-1] % count or count & (count - 1):
            raise KernelTypeError(
                f"{_WHAT}: pack is {count}, which must be a power of two that divides the last extent of"
                f" {list(shape)}"
            )
        if count == 1:
            results = self._on_lanes(scalar_fn, tiles, shape)
            return results[0] if len(results) == 1 else results
        lanes = (size // count,)
        parts = [part for tile in tiles for part in self._neighbors(tile, count)]
        results = self._on_lanes(scalar_fn, parts, lanes)
        if len(results) % count:
            raise KernelTypeError(
                f"{_WHAT}: with pack={count} the function must give {count} values of each result, not"
                f" {len(results)} values"
            )
        joined = [
            self.reshaped(self._side_by_side(results[i : i + count]), shape, _WHAT)
            for i in range(0, len(results), count)
        ]
        return joined[0] if len(joined) == 1 else tuple(joined)

    def _neighbors(self, x: TensorValue, count: int) -> list[TensorValue]:
        """Elements 0, 1 … of each group of `count`, as flat tiles."""
        if not x.shape:
            return [x] * count
        rows = self.reshaped(x, (x.numel // count, count), _WHAT)
        return [self.subscript(rows, (slice(None), i)) for i in range(count)]

    def _side_by_side(self, parts: Sequence[TensorValue]) -> TensorValue:
        """Flat tiles as the columns of a matrix."""
        kinds = {part.dtype for part in parts}
        if len(kinds) > 1:
            raise KernelTypeError(
                f"{_WHAT}: type mismatch in packed results, {describe(list(parts))}"
            )
        columns = [self.expand_dims(part, 1) for part in parts]
        while len(columns) > 1:
            columns = [
                self.cat(a, b, dim=1) for a, b in zip(columns[::2], columns[1::2], strict=True)
            ]
        return columns[0]

    def _on_lanes(
        self, function: Any, args: Sequence[TensorValue], shape: tuple[int, ...]
    ) -> tuple[Any, ...]:
        if self._call_on_lanes is not None:
            return self._call_on_lanes(function, args, shape)
        found: list[list[TensorValue]] = []
        for at in np.ndindex(*shape):
            scalars = [self.tensor(a.handle[at], a.type.scalar) if a.shape else a for a in args]
            result = self.call_function(function, scalars)
            values = result if isinstance(result, tuple) else (result,)
            found.append([self.to_tensor(value) for value in values])
        tiles = []
        for values in zip(*found, strict=True):
            kind = values[0].type
            if any(v.type != kind for v in values):
                kinds = " and ".join(sorted({type_text(v.type) for v in values}))
                raise KernelTypeError(f"{_WHAT}: the function gives {kinds} for different elements")
            handle = np.array([v.handle for v in values]).reshape(shape)
            tiles.append(self.tensor(handle, kind.with_shape(shape)))
        return tuple(tiles)
