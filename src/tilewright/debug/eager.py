"""Kernels as plain Python: one program after the other, every operation on NumPy values.

The kernel's own code object runs, so `breakpoint()`, pdb, coverage and profilers see the user's
lines. Tiles print as arrays; every access to memory is checked.

`EagerBuilder`: evaluate operations requested by semantics immediately, on NumPy values.

Implements `semantics.builder.EagerBuilder`. Each operation is evaluated by the interpreter's
function of the same name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.debug.context import EagerContext, active_checks
from tilewright.debug.python_names import constant, python_names
from tilewright.debug.rewrite import HELPERS, kernel_code
from tilewright.debug.stepping import hide_own_frames
from tilewright.dtypes import constexpr, like
from tilewright.errors import KernelTypeError, TilewrightError
from tilewright.interpreter import registry
from tilewright.interpreter.memory import Checks, Memory
from tilewright.interpreter.offsets import WrappedOffsets
from tilewright.interpreter.reductions import FollowedLanes, along_axis
from tilewright.interpreter.undefined import Performed, unwritten_flags
from tilewright.language.builtin import active_semantics
from tilewright.language.kernel_function import KernelFunction, check_specialization
from tilewright.semantics import Semantics
from tilewright.semantics.memory import TensorDescriptor
from tilewright.semantics.values import TensorValue


class EagerRun:
    """One launch of a kernel as Python."""

    def __init__(self, kernel: KernelFunction, grid: Sequence[int]) -> None:
        x, y, z = (*map(int, grid), 1, 1, 1)[:3]
        checks = active_checks()
        self.kernel = kernel
        self.memory = Memory(checks)
        self.context = EagerContext((x, y, z), self.memory)
        self.builder = EagerBuilder(self.context, checks, self.call)
        self.semantics = Semantics(self.builder, debug=True, any_extents=kernel.any_extents)
        self._functions: dict[KernelFunction, FunctionType] = {}
        self._names = {**python_names(), **HELPERS}

    # ---- functions -----------------------------------------------------------------------------

    def call(
        self, function: KernelFunction, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """Run a kernel function on values of this launch."""
        try:
            bound = function.signature_of_fn.bind(*args, **keywords)
        except TypeError as error:
            raise KernelTypeError(f"{function.fn.__name__}: {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            bound.arguments[name] = constant(value)
        return self._python(function)(*bound.args, **bound.kwargs)

    def _python(self, function: KernelFunction) -> FunctionType:
        """The function with the globals of now, Python's names as kernels mean them."""
        found = self._functions.get(function)
        if found is None:
            fn = function.fn
            code = kernel_code(function)
            scope = dict(fn.__globals__)
            for name in code.co_names:
                if isinstance(scope.get(name), constexpr):
                    scope[name] = constant(scope[name])
            scope["__builtins__"] = self._names
            closure = _cells(fn, code)
            found = FunctionType(code, scope, fn.__name__, fn.__defaults__, closure)
            found.__kwdefaults__ = fn.__kwdefaults__
            self._functions[function] = found
            self.context.codes[code] = fn.__name__
        return found

    # ---- arguments -----------------------------------------------------------------------------

    def argument(self, name: str, kind: Any, value: Any) -> Any:
        """The kernel's value for an argument of type `kind`."""
        if isinstance(kind, constexpr):
            return constant(kind.value)
        if isinstance(kind, tuple):
            items = [
                self.argument(f"{name}[{i}]", k, v)
                for i, (k, v) in enumerate(zip(kind, value, strict=True))
            ]
            if isinstance(value, TensorDescriptor):
                return self.semantics.make_tensor_descriptor(*items)
            return like(value, items)
        self.semantics.check_supported(kind, f"parameter '{name}': the type")
        if kind.is_ptr():
            written = unwritten_flags(value) if self.memory.checks.unwritten else None
            return TensorValue(self.memory.register(name, value, written), kind, self.semantics)
        value = value.item() if isinstance(value, np.generic) else value
        return self.semantics.constant(value, kind)

    # ---- programs ------------------------------------------------------------------------------

    def run(self, arguments: Mapping[str, tuple[Any, Any]]) -> None:
        """Run all programs, x fastest."""
        hide_own_frames()
        token = active_semantics.set(self.semantics)
        try:
            for param in self.kernel.params:
                check_specialization(self.kernel, param)
            values = {n: self.argument(n, kind, v) for n, (kind, v) in arguments.items()}
            body = self._python(self.kernel)
            x, y, z = self.context.grid
            for k, j, i in itertools.product(range(z), range(y), range(x)):
                self.context.program = (i, j, k)
                self.builder.new_program()
                body(**values)
        except TilewrightError as error:
            if error.location is None:
                error.location = self.context.location_of_error(error)
            raise
        finally:
            active_semantics.reset(token)


def _cells(fn: Any, code: Any) -> tuple[Any, ...] | None:
    """The closure that `code` wants, from `fn`'s."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    return tuple(cells[name] for name in code.co_freevars) or None


def run_eager(
    kernel: KernelFunction, grid: Sequence[int], arguments: Mapping[str, tuple[Any, Any]]
) -> None:
    """Run `kernel` for every program of `grid` as Python, on the caller's arrays.

    Args:
        arguments: parameter name → (its language type as specialization found it, the value). The
            type is a `dtype`, a `pointer_type`, a `constexpr` (its value is what the kernel gets)
            or a tuple of these.

    Raises whatever the kernel raises; OutOfBoundsError and the other `KernelFault`s for memory.
    """
    EagerRun(kernel, grid).run(arguments)


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
