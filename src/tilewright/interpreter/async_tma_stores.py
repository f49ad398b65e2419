"""TMA stores from shared memory; they read and write as late as they legally may.

A stage being stored must not be written until a wait for its read completes. Memory is written only at a wait for
completion or at the end of the program, the last store first, because stores in
flight are unordered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects import gpu
from tilewright.interpreter import Executor
from tilewright.interpreter.pointers import PointerValue
from tilewright.interpreter.registry import kind_of, plain
from tilewright.interpreter.shared_memory import Stage, fault, read_stage, tma_tile_elements


@dataclass(frozen=True)
class _Origin:
    """The program and source location that issued a store (an access context)."""

    program: tuple[int, int, int]
    location: Any


@dataclass(eq=False)
class BoxStore:
    """A store in flight: from where, and to where."""

    stage: Stage
    pointers: PointerValue
    mask: np.ndarray
    value: np.ndarray
    origin: _Origin
    reading: bool = True

    def has_been_read(self) -> None:
        """The stage may be written again."""
        if self.reading:
            self.stage.stored -= 1
            self.stage.read = True
            self.reading = False


def _tma_store(run: Executor, op: gpu.TmaStoreOp) -> list[Any]:
    stage = read_stage(run, op.buffer, op.stage)
    base: Any = op.base.type
    pointers, mask, _ = tma_tile_elements(run, op, kind_of(base).element_ty.itemsize)
    stage.stored += 1
    origin = _Origin(run.program, run.location)
    run.shared.stores.append(BoxStore(stage, pointers, mask, np.array(stage.value), origin))
    return []


def _tma_store_wait(run: Executor, op: gpu.TmaStoreWaitOp) -> list[Any]:
    pending = 0 if op.pending is None else plain(op.pending)
    stores = run.shared.stores
    over = stores[: max(0, len(stores) - pending)]
    for store in over:
        store.has_been_read()
    if op.complete is not None:
        _land(run, len(over))
    return []


def _land(run: Executor, count: int) -> None:
    """Complete the first `count` stores in flight: write their values to memory."""
    stores = run.shared.stores
    for store in reversed(stores[:count]):
        store.has_been_read()
        run.memory.store(store.pointers, store.value, store.mask, store.origin)
    del stores[:count]


def _encode_map(run: Executor, op: gpu.EncodeTensorMapOp) -> list[Any]:
    _land(run, len(run.shared.stores))
    return [run.value(op.base)]


def _proxy_fence(run: Executor, op: gpu.ProxyFenceOp) -> list[Any]:
    if run.decides(run.value(op.pred)):
        _land(run, len(run.shared.stores))
    return []


def finish(run: Executor) -> None:
    """Write all that is in flight. Raises InterpreterError where shared memory is still being read."""
    if any(store.reading for store in run.shared.stores):
        raise fault(
            run,
            "ends the program while TMA stores read its shared memory: missing gpu.tma_store_wait",
        )
    _land(run, len(run.shared.stores))


HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {
    gpu.TmaStoreOp: _tma_store,
    gpu.TmaStoreWaitOp: _tma_store_wait,
    gpu.EncodeTensorMapOp: _encode_map,
    gpu.ProxyFenceOp: _proxy_fence,
}
