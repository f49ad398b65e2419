"""Prefetches into caches, which change no value: what they fetch must be in an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from tilewright.dialects import gpu
from tilewright.errors import OutOfBoundsError
from tilewright.interpreter.registry import kind_of

if TYPE_CHECKING:
    from tilewright.interpreter.executor import Executor


def _prefetch(run: Executor, op: gpu.PrefetchOp) -> list[Any]:
    count = int(run.value(op.count))
    if count <= 0 or not run.decides(run.value(op.pred)):
        return []
    base: Any = op.base.type
    first = int(run.value(op.base).addresses)
    end = first + count * kind_of(base).element_ty.itemsize
    found = run.memory.find(first)
    if count > op.extent.value.data or found is None or end > found.end:
        raise OutOfBoundsError(
            f"gpu.prefetch fetches outside every known array in program {run.program}:"
            f" {count} elements from {first:#x} on",
            location=run.location,
        )
    return []


HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {
    gpu.PrefetchOp: _prefetch,
}
