"""Launches of kernels whose accesses are checked, and the reports of those that fail.

Native code records which access of which program lay outside its array, and ends. The report is the
interpreter's: that one program runs again there, on memory that is put back afterwards.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import KernelFault, OutOfBoundsError, SourceLocation, TilewrightError
from tilewright.runtime.grids import program_of

if TYPE_CHECKING:
    from tilewright.runtime.compiled import CompiledKernel
    from tilewright.runtime.specialize import ArgumentType

#: extent of an array that does not say its own
_UNBOUNDED = (0, (1 << 63) - 1)


def run_checked(
    compiled: CompiledKernel,
    types: Sequence[ArgumentType],
    values: Sequence[Any],
    grid: tuple[int, ...],
    slots: Sequence[tuple[str, Any]],
) -> None:
    """Launch a checked kernel. Raises OutOfBoundsError as the interpreter does.

    `slots` are the kinds and values that native code gets of `values`.
    """
    from tilewright.runtime.ir_arguments import ir_arguments

    arguments = ir_arguments(types, values)
    extents = extents_of(compiled, arguments)
    kinds = [kind for kind, _ in slots] + ["uint"] * len(extents)
    result = compiled.launcher(kinds)(grid, *(value for _, value in slots), *extents)
    if result is None:
        return
    if not isinstance(result, tuple) or result[1] < len(compiled.plan.asserts):
        compiled.raise_result(result, grid)
    raise _report(compiled, arguments, result[0], result[1], grid)


def extents_of(compiled: CompiledKernel, arguments: Sequence[Any]) -> list[int]:
    """Address of the first byte and number of bytes of each array among the runtime arguments."""
    from tilewright.interpreter.arrays import array_memory

    extents: list[int] = []
    for argument, value in zip(compiled.plan.arguments, arguments, strict=True):
        if argument.kind != "pointer":
            continue
        if not _has_extent(value):
            extents += _UNBOUNDED
            continue
        memory = array_memory(value)
        if "views" in compiled.options.check:
            extents += (memory.first, memory.last - memory.first)
        else:
            extents += (memory.base, memory.nbytes)
    return extents


def _has_extent(value: Any) -> bool:
    """Whether `value` is an array that says its shape, not a bare address."""
    base = value.base if type(value).__name__ == "TensorWrapper" else value
    return any(hasattr(base, name) for name in ("shape", "__array_interface__", "__dlpack__"))


def fault_of(compiled: CompiledKernel, program: int, site: int, grid: Any) -> OutOfBoundsError:
    """What the fault record alone tells of an access outside its array."""
    plan = compiled.plan
    access = plan.accesses[site - len(plan.asserts)]
    verb = {"tl.load": "reads", "tl.store": "writes"}.get(access.what, "updates")
    names = " and ".join(f"'{plan.arguments[i].name}'" for i in access.arguments)
    location = SourceLocation(access.file, access.line, access.column) if access.file else None
    return OutOfBoundsError(
        f"{access.what} {verb} outside {names} in program {program_of(program, grid)}",
        help="TILEWRIGHT_INTERPRET=1 names the lanes and the elements",
        location=location,
    )


def _report(
    compiled: CompiledKernel, arguments: Sequence[Any], program: int, site: int, grid: Any
) -> OutOfBoundsError:
    """The interpreter's report of the faulting program, or the record's where it does not fail again.

    Programs before it and its own first operations have changed memory: an address that depends on
    what they wrote may be another one now.
    """
    recorded = fault_of(compiled, program, site, grid)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _run_again(compiled, arguments, program_of(program, grid), grid)
    except OutOfBoundsError as error:
        here, there = error.location, recorded.location
        if here is None or there is None or (here.file, here.line) == (there.file, there.line):
            return error
    except (KernelFault, TilewrightError):
        pass
    return recorded


def _run_again(
    compiled: CompiledKernel, arguments: Sequence[Any], program: tuple[int, int, int], grid: Any
) -> None:
    from tilewright.interpreter.executor import run_module
    from tilewright.interpreter.memory import Checks
    from tilewright.runtime.compiler import build_ir

    module = build_ir(compiled.function, compiled.signature, compiled.options)
    checks = Checks(views="views" in compiled.options.check)
    run_module(module, arguments, grid, checks=checks, only=program)
