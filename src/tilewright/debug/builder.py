"""`EagerBuilder`: evaluate operations requested by semantics immediately, on NumPy values.

Implements `semantics.builder.EagerBuilder`. Each operation is evaluated by the interpreter's
function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.debug.context import EagerContext
from tilewright.interpreter import registry
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.memory import Checks
from tilewright.interpreter.nonfinite import NonfiniteLanes
from tilewright.interpreter.numeric_checks import WrappedOffsets
from tilewright.interpreter.undefined import UndefinedLanes


class EagerBuilder:
    """Handles are NumPy scalars and arrays, and `PointerValue`s.

    It performs the numeric ones of `checks`. `run_function` calls a kernel's helper functions
    (for `KernelFunction.__call__`).
    """

    def __init__(
        self,
        context: EagerContext,
        checks: Checks | None = None,
        run_function: Callable[..., Any] | None = None,
    ) -> None:
        self.context = context
        self.run_function = run_function
        checks = checks or Checks()
        self.wrapped = WrappedOffsets(context) if checks.overflow else None
        self.nonfinite = NonfiniteLanes(context) if checks.nonfinite else None
        self.undefined = UndefinedLanes(context) if checks.undefined else None

    def new_program(self) -> None:
        """Reset the checks' state from the preceding program."""
        for followed in (self.wrapped, self.nonfinite, self.undefined):
            if followed is not None:
                followed.new_program()

    def concrete(self, handle: Any) -> Any:
        """The handle itself, because NumPy values are concrete."""
        return handle

    def decides(self, handle: Any) -> None:
        """Python is about to branch on a value."""
        if self.undefined is not None:
            self.undefined.need(handle, "a branch")

    def constant(self, value: Any, result_type: dtypes.dtype) -> Any:
        """A scalar; integers wrap to the type's width, floats round to nearest even."""
        kind = numpy_dtype(result_type)
        if result_type.is_floating():
            with np.errstate(all="ignore"):
                return np.float64(value).astype(kind)
        bits = result_type.primitive_bitwidth
        wrapped = int(value) & ((1 << bits) - 1)
        if bits == 1:
            return np.bool_(wrapped)
        return kind.type(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)

    def op(
        self, name: str, operands: Sequence[Any], result_type: Any = None, **attributes: Any
    ) -> Any:
        """Compute one operation."""
        several = isinstance(result_type, tuple | list)
        kinds = result_type if several else () if result_type is None else (result_type,)
        given = {key: value for key, value in attributes.items() if value is not None}
        with np.errstate(all="ignore"):
            results = registry.call(name, self.context, given, tuple(kinds), operands)
        if self.undefined is not None:
            self.undefined.look(name, given, kinds, operands, results)
        if self.nonfinite is not None:
            self.nonfinite.look(name, given, kinds, operands, results)
        if self.wrapped is not None:
            signed = not any(k.is_int() and k.scalar.is_int_unsigned() for k in kinds)
            self.wrapped.look(name, operands, kinds, results, signed)
        return results if several else results[0] if results else None

    def region_op(
        self,
        name: str,
        operands: Sequence[Any],
        result_types: Sequence[Any],
        argument_types: Sequence[Any],
        combine: Callable[..., Sequence[Any]],
        **attributes: Any,
    ) -> tuple[Any, ...]:
        """`tile.reduce` and `tile.scan`: `combine` runs on whole slices at a time.

        The scalars it is given then hold arrays; if it looks at one (`if a > b:`), it runs lane by
        lane instead.
        """
        results = self._region_op(name, operands, combine, attributes)
        if self.undefined is not None:
            reverse = bool(attributes.get("reverse"))
            self.undefined.look_along(
                operands, results, attributes["axis"], name == "tile.scan", reverse
            )
        if self.nonfinite is not None:
            self.nonfinite.look_along(name, operands, results)
        return results

    def _region_op(
        self,
        name: str,
        operands: Sequence[Any],
        combine: Callable[..., Sequence[Any]],
        attributes: dict[str, Any],
    ) -> tuple[Any, ...]:
        axis = attributes["axis"]
        arrays = [np.moveaxis(np.asarray(v), axis, 0) for v in operands]
        step = reduce_axis if name == "tile.reduce" else scan_axis
        if attributes.get("reverse"):
            arrays = [a[::-1] for a in arrays]
        try:
            results = step(arrays, combine)
        except ValueError:  # the truth of an array
            results = _lane_by_lane(step, arrays, combine)
        if name == "tile.reduce":
            return tuple(a[()] for a in results)
        if attributes.get("reverse"):
            results = [a[::-1] for a in results]
        return tuple(np.moveaxis(a, 0, axis) for a in results)


def reduce_axis(arrays: list[np.ndarray], combine: Callable[..., Any]) -> list[np.ndarray]:
    """Fold axis 0 of `arrays` with `combine`, neighbours first, keeping their order."""
    while arrays[0].shape[0] > 1:
        count = arrays[0].shape[0]
        left = [a[0 : count - 1 : 2] for a in arrays]
        right = [a[1:count:2] for a in arrays]
        joined = _combined(combine, left, right)
        if count % 2:
            joined = [np.concatenate([j, a[-1:]]) for j, a in zip(joined, arrays, strict=True)]
        arrays = joined
    return [a[0] for a in arrays]


def scan_axis(arrays: list[np.ndarray], combine: Callable[..., Any]) -> list[np.ndarray]:
    """Inclusive scan along axis 0 of `arrays`, in steps of 1, 2, 4, …"""
    arrays = [a.copy() for a in arrays]
    count, distance = arrays[0].shape[0], 1
    while distance < count:
        left = [a[:-distance] for a in arrays]
        right = [a[distance:] for a in arrays]
        joined = _combined(combine, left, right)
        arrays = [np.concatenate([a[:distance], j]) for a, j in zip(arrays, joined, strict=True)]
        distance *= 2
    return arrays


def _combined(
    combine: Callable[..., Any], left: list[np.ndarray], right: list[np.ndarray]
) -> list[np.ndarray]:
    results = combine(*left, *right)
    return [np.broadcast_to(np.asarray(r), a.shape) for r, a in zip(results, left, strict=True)]


def _lane_by_lane(
    step: Callable[..., Any], arrays: list[np.ndarray], combine: Callable[..., Any]
) -> list[np.ndarray]:
    """`step` with a `combine` that gets true scalars."""

    def each(*values: np.ndarray) -> list[np.ndarray]:
        shape = values[0].shape
        half = len(values) // 2
        outs = [np.empty(shape, v.dtype) for v in values[:half]]
        for at in np.ndindex(*shape):
            for out, value in zip(outs, combine(*(v[at] for v in values)), strict=True):
                out[at] = value
        return outs

    return step(arrays, each)
