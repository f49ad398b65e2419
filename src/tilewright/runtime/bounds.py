"""Launch kernels with bounds checks and report accesses that fail them.

Native code records the program and the out-of-bounds access, and stops. The interpreter produces the
report: it re-runs that program on memory that is restored afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.errors import OutOfBoundsError, SourceLocation, TilewrightError
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.descriptors import opened
from tilewright.runtime.grids import program_of
from tilewright.runtime.specialize import (
    ArgumentType,
    ir_arguments,
    numpy_address_reader,
    typed_items,
)

#: extent of an array that does not say its own
_UNBOUNDED = (0, (1 << 63) - 1)


class CheckedLaunch:
    """Launches of a checked kernel for arguments of `types`, fetched as `kinds` say.

    It replaces the native call of generated functions (`launch`): calling it returns the words,
    and `run` launches.
    """

    def __init__(
        self, compiled: CompiledKernel, types: Sequence[ArgumentType], kinds: Sequence[str]
    ) -> None:
        self.compiled = compiled
        self.types = types
        pointers = sum(a.kind == "pointer" for a in compiled.plan.arguments)
        self._call = compiled.launcher([*kinds, *["uint"] * 2 * pointers])

    def __call__(self, grid: tuple[int, ...], *words: Any) -> tuple[Any, ...]:
        return words

    def run(self, grid: tuple[int, ...], words: Sequence[Any], values: Sequence[Any]) -> None:
        """Launch with `words` made of `values`. Raises OutOfBoundsError as the interpreter does."""
        compiled = self.compiled
        pairs = zip(self.types, values, strict=True)
        items = [item for kind, value in pairs for item in typed_items(kind.type, value)]
        arrays = [value for kind, value in items if kind.is_ptr()]
        result = self._call(grid, *words, *extents_of(compiled, arrays))
        if result is None:
            return
        if not isinstance(result, tuple) or result[1] < len(compiled.plan.asserts):
            compiled.raise_result(result, grid)
        raise _report(compiled, ir_arguments(self.types, values), result[0], result[1], grid)


def after_tuple(
    entry: tuple[Any, ...], result: Any, grid: tuple[int, ...], given: tuple[Any, ...]
) -> CompiledKernel:
    """Go on where a generated function's call gave a tuple: a failed assertion, or a checked kernel."""
    call, compiled, *_ = entry
    if type(call) is CheckedLaunch:
        call.run(grid, result, tuple(map(opened, given)))
    else:
        compiled.raise_result(result, grid)
    return compiled


def extents_of(compiled: CompiledKernel, arrays: Iterable[Any]) -> list[int]:
    """Address of the first byte and number of bytes of each array."""
    views = "views" in compiled.options.check
    return [word for array in arrays for word in _extent(array, views)]


@functools.cache
def _numpy_address() -> Callable[[Any], int]:
    return numpy_address_reader()


def _extent(array: Any, views: bool) -> tuple[int, int]:
    if views:
        flags = getattr(array, "flags", None)
        if getattr(flags, "c_contiguous", False) and type(array).__module__ == "numpy":
            return _numpy_address()(array), array.nbytes
        if hasattr(array, "is_contiguous") and array.is_contiguous():
            return array.data_ptr(), array.numel() * array.element_size()
    if not _has_extent(array):
        return _UNBOUNDED
    from tilewright.interpreter.arrays import array_memory

    memory = array_memory(array)
    return (memory.first, memory.last - memory.first) if views else (memory.base, memory.nbytes)


def _has_extent(value: Any) -> bool:
    """Whether `value` is an array with a shape, not a bare address."""
    base = value.base if type(value).__name__ == "TensorWrapper" else value
    return any(hasattr(base, name) for name in ("shape", "__array_interface__", "__dlpack__"))


def fault_of(compiled: CompiledKernel, program: int, site: int, grid: Any) -> OutOfBoundsError:
    """The error for an out-of-bounds access from the fault record alone."""
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
    """The interpreter's report of the faulting program, or the record's if the fault does not recur.

    Earlier programs and the program's own operations have changed memory, so an address that depends on
    their writes may differ.
    """
    recorded = fault_of(compiled, program, site, grid)
    place = program_of(program, grid)
    found = _run_again(compiled, arguments, place, grid, "views" in compiled.options.check)
    if found is None or not _is_same(found, recorded):
        return recorded
    if "views" in compiled.options.check and not _run_again(
        compiled, arguments, place, grid, False
    ):
        found.help += (
            ". The memory around this view is the same allocation's: if it is meant,"
            ' check="bounds,-views"'
        )
    return found


def _is_same(found: OutOfBoundsError, recorded: OutOfBoundsError) -> bool:
    """Whether two reports are about one line, or about an array that both name."""
    here, there = found.location, recorded.location
    if here is None or there is None or (here.file, here.line) == (there.file, there.line):
        return True
    return found.message.split("'")[:2] == recorded.message.split("'")[:2]


def _run_again(
    compiled: CompiledKernel,
    arguments: Sequence[Any],
    program: tuple[int, int, int],
    grid: Any,
    views: bool,
) -> OutOfBoundsError | None:
    """The interpreter's bounds error for one program, or None."""
    from tilewright.interpreter.executor import run_module
    from tilewright.interpreter.memory import Checks
    from tilewright.runtime.compiler import build_ir

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            module = build_ir(compiled.function, compiled.signature, compiled.options)
            run_module(module, arguments, grid, checks=Checks(views=views), only=program)
    except OutOfBoundsError as error:
        return error
    except TilewrightError:  # another fault, which native code did not reach
        pass
    return None
