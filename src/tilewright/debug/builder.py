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
from tilewright.interpreter.memory import Checks
from tilewright.interpreter.offsets import WrappedOffsets
from tilewright.interpreter.reductions import FollowedLanes, along_axis
from tilewright.interpreter.undefined import Performed


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
        self.lanes = FollowedLanes(context, checks)

    def new_program(self) -> None:
        """Reset the checks' state from the preceding program."""
        self.lanes.new_program()
        if self.wrapped is not None:
            self.wrapped.new_program()

    def concrete(self, handle: Any) -> Any:
        """The handle itself, because NumPy values are concrete."""
        return handle

    def decides(self, handle: Any) -> None:
        """Python is about to branch on a value."""
        self.lanes.decides(handle)

    def constant(self, value: Any, result_type: dtypes.dtype) -> Any:
        """A scalar; integers wrap to the type's width, floats round to nearest even."""
        (made,) = registry.call("arith.constant", None, {"value": value}, (result_type,), ())
        return made

    def op(
        self, name: str, operands: Sequence[Any], result_type: Any = None, **attributes: Any
    ) -> Any:
        """Compute one operation."""
        several = isinstance(result_type, tuple | list)
        kinds = result_type if several else () if result_type is None else (result_type,)
        given = {key: value for key, value in attributes.items() if value is not None}
        with np.errstate(all="ignore"):
            results = registry.call(name, self.context, given, tuple(kinds), operands)
        done = Performed(name, given, kinds, operands, results)
        self.lanes.look(done)
        if self.wrapped is not None:
            self.wrapped.look(done)
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
        """`tile.reduce` and `tile.scan`, with Python's `combine`."""
        axis, reverse = attributes["axis"], bool(attributes.get("reverse"))
        results = along_axis(name, operands, axis, reverse, combine)
        self.lanes.look_along(name, operands, results, axis, reverse)
        return tuple(results)
