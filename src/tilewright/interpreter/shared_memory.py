"""Shared memory and asynchronous operations of GPU programs, each completing as late as it legally may.

Threads of a program are not distinguished, so the model is conservative: a value that one thread writes or waits
for is visible to the others only after the next barrier. A stage of a buffer is poison until it is written. A copy
completes when a wait covers it, not before, and may read memory at any time until then, so its source must not
change. The accumulator of an MMA is defined once a wait covers it; until then its operands must not be
written. A violation raises InterpreterError, which names the operation and the missing synchronization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.dialects import gpu, tile
from tilewright.errors import InterpreterError, SourceLocation
from tilewright.interpreter import Executor
from tilewright.interpreter.accesses import view_lanes
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.pointers import PointerValue
from tilewright.interpreter.registry import kind_of, plain
from tilewright.interpreter.tiles import dot
from tilewright.layouts.shared import SWIZZLE_ATOM_BYTES

_POISON, _FLYING, _UNSEEN, _READY, _RELEASED = "poison", "flying", "unseen", "ready", "released"
_WHY_NOT = {
    _POISON: "nothing has been written there",
    _RELEASED: "it has been released",
    _FLYING: "an async copy to it is in flight (missing gpu.async_wait)",
    _UNSEEN: "other threads' parts of it are not seen yet: a gpu.barrier is missing",
}


@dataclass(eq=False)
class Stage:
    """The memory of one tile, and the operations that access it."""

    name: str
    state: str = _POISON
    value: Any = None
    readers: int = 0
    """MMAs in flight that read it."""
    stored: int = 0
    """TMA stores in flight that read it."""
    read: bool = False
    """Whether it has been read since the last barrier (other threads may not have ended)."""


@dataclass(eq=False)
class _Copy:
    """A copy in flight: source, values at issue, and destination."""

    stage: Stage
    pointers: PointerValue
    mask: np.ndarray | None
    kind: np.dtype
    shape: tuple[int, ...]
    program: tuple[int, int, int]
    location: SourceLocation | None
    nbytes: int
    early: Any = None
    """The source's values when the copy was issued."""

    def read(self, run: Executor) -> np.ndarray:
        """The source's current values."""
        value = run.memory.load(self.pointers, self.mask, self.kind.type(0), self.kind, self)
        return np.array(np.broadcast_to(value, self.shape))

    def land(self, run: Executor, state: str) -> None:
        """Complete the copy. Requires that the source has not changed since it was issued."""
        value = self.read(run)
        if value.tobytes() != self.early.tobytes():
            raise fault(
                run, f"ends a copy to {self.stage.name}, but what it copies was written meanwhile"
            )
        self.stage.value, self.stage.state = value, state


@dataclass(eq=False)
class _Phases:
    """One mbarrier: the number of completed phases, and the arrivals and bytes pending in the current one."""

    ended: int = 0
    expected: int | None = None
    copies: list[_Copy] = field(default_factory=list)
    of_warps: bool = False
    """Whether warps end its phases, saying that they are done (`gpu.mbarrier_arrive`)."""
    done: list[Stage] = field(default_factory=list)
    """Stages that they had read when they said so."""


class InFlightAccumulator:
    """An accumulator in flight: any use other than a wait or a further MMA is a fault."""

    def __init__(self, run: Executor, value: np.ndarray, stages: tuple[Stage, ...]) -> None:
        self._run, self._value, self._stages = run, value, stages

    def _fault(self) -> InterpreterError:
        return fault(self._run, "uses the accumulator of an MMA in flight: missing gpu.wgmma_wait")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._fault()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._fault()


class ProgramMemory:
    """Shared memory of the program that runs: its buffers, copies and MMAs in flight."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.phases: list[_Phases] = []
        self.open: list[_Copy] = []
        """Copies of the group that no commit has closed yet."""
        self.groups: list[list[_Copy]] = []
        self.mmas: list[InFlightAccumulator] = []
        self.released = False
        """Whether buffers have been released since the last barrier."""
        self.role: Any = None
        """The producer warp, if there is one."""
        self.stores: list[Any] = []
        """TMA stores that have not completed."""

    def synchronize(self) -> None:
        """A CTA barrier: completed copies become visible to all threads, and all earlier reads are done."""
        self.released = False
        for stage in self.stages:
            stage.read = False
            if stage.state == _UNSEEN:
                stage.state = _READY

    def end(self, run: Executor) -> None:
        """End the program. Raises InterpreterError if TMA loads are still in flight."""
        if any(phase.copies for phase in self.phases):
            raise fault(run, "ends the program while TMA loads write its shared memory")


def fault(run: Executor, message: str) -> InterpreterError:
    op = run.current
    name = "the kernel" if op is None else op.name
    return InterpreterError(f"{name} {message}", location=run.location)


# ---- buffers ----------------------------------------------------------------------------------------


def _alloc(run: Executor, op: gpu.LocalAllocOp) -> list[Any]:
    kind: Any = op.result.type
    name = op.result.name_hint or "a buffer"
    stages = [Stage(f"stage {i} of {name}") for i in range(kind.stages.data)]
    run.shared.stages.extend(stages)
    return [stages]


def _at(run: Executor, buffer: Any, slot: Any) -> Any:
    """A stage of a buffer, or the barrier of a stage."""
    stages, index = run.value(buffer), int(run.decides(run.value(slot)))
    if not 0 <= index < len(stages):
        raise fault(run, f"asks for stage {index} of {len(stages)}")
    return stages[index]


def _written_stage(run: Executor, buffer: Any, slot: Any) -> Stage:
    """A stage that is about to be written: no access to it may be in flight or unordered."""
    stage: Stage = _at(run, buffer, slot)
    if stage.readers:
        raise fault(run, f"writes {stage.name}, which a product reads: a gpu.wgmma_wait is missing")
    if stage.state == _RELEASED:
        raise fault(run, f"writes {stage.name}, which has been released")
    if run.shared.released:
        raise fault(
            run, f"writes {stage.name}, perhaps in the place of a buffer that others may still read: "
                 "a gpu.barrier is missing"
        )  # fmt: skip
    if stage.stored:
        raise fault(
            run,
            f"writes {stage.name}, which is being stored to memory: a gpu.tma_store_wait is missing",
        )
    if stage.read:
        raise fault(run, f"writes {stage.name}, which others may still read: "
                          "a gpu.barrier is missing")  # fmt: skip
    if stage.state == _FLYING:
        raise fault(run, f"writes {stage.name}, to which a copy is in flight")
    if stage.state == _UNSEEN:
        raise fault(run, f"writes {stage.name} again without a gpu.barrier in between")
    return stage


def read_stage(run: Executor, buffer: Any, slot: Any) -> Stage:
    stage: Stage = _at(run, buffer, slot)
    if stage.state != _READY:
        raise fault(run, f"reads {stage.name}, but {_WHY_NOT[stage.state]}")
    return stage


def _release(run: Executor, op: gpu.LocalDeallocOp) -> list[Any]:
    written_again = not isinstance(op.parent_op(), FuncOp)  # by the next iteration
    for buffer in op.buffers:
        for stage in run.value(buffer):
            if stage.readers or stage.stored or stage.state == _FLYING:
                raise fault(run, f"gives back {stage.name}, at which something is in flight")
            stage.state, stage.value = _POISON if written_again else _RELEASED, None
    run.shared.released = True
    return []


def _local_store(run: Executor, op: gpu.LocalStoreOp) -> list[Any]:
    stage = _written_stage(run, op.buffer, op.stage)
    stage.value, stage.state = np.asarray(run.value(op.source)), _UNSEEN
    return []


def _local_transpose(run: Executor, op: gpu.LocalTransposeOp) -> list[Any]:
    source = read_stage(run, op.source, op.source_stage)
    stage = _written_stage(run, op.target, op.stage)
    stage.value, stage.state = np.array(source.value), _UNSEEN
    source.read = True
    return []


def _local_load(run: Executor, op: gpu.LocalLoadOp) -> list[Any]:
    stage = read_stage(run, op.buffer, op.stage)
    stage.read = True  # other threads may do so until the next barrier
    return [np.array(stage.value)]


def _barrier(run: Executor, op: Operation) -> list[Any]:
    run.shared.synchronize()
    run.claims.barrier()
    return []


def _convert(run: Executor, op: gpu.ConvertLayoutOp) -> list[Any]:
    value = run.value(op.source)
    if isinstance(value, InFlightAccumulator):
        np.asarray(value)
    return [value]


def _extract_slice(run: Executor, op: gpu.ExtractSliceOp) -> list[Any]:
    value = np.asarray(run.value(op.source))
    extents = tile.shape_of(op.result)
    inside = zip(tile.ints(op.start), extents, strict=True)
    return [value[tuple(slice(start, start + extent) for start, extent in inside)]]


# ---- copies by threads --------------------------------------------------------------------------------


def _copy(run: Executor, op: gpu.AsyncCopyOp) -> list[Any]:
    if not run.decides(run.value(op.pred)):
        return []
    stage = _written_stage(run, op.buffer, op.stage)
    base: Any = op.base.type
    held = kind_of(base).element_ty
    shape = tile.shape_of(gpu.buffer_type(op.buffer).tile)
    pointers, mask = view_lanes(run, op, shape)
    run.shared.open.append(_started(run, stage, pointers, mask, held, shape))
    return []


def _started(
    run: Executor,
    stage: Stage,
    pointers: PointerValue,
    mask: np.ndarray | None,
    held: Any,
    shape: tuple[int, ...],
) -> _Copy:
    stage.state, stage.value = _FLYING, None
    nbytes, kind = int(np.prod(shape)) * held.itemsize, numpy_dtype(held)
    copy = _Copy(stage, pointers, mask, kind, shape, run.program, run.location, nbytes)
    copy.early = copy.read(run)
    return copy


def _commit(run: Executor, op: gpu.AsyncCommitGroupOp) -> list[Any]:
    run.shared.groups.append(run.shared.open)
    run.shared.open = []
    return []


def _wait(run: Executor, op: gpu.AsyncWaitOp) -> list[Any]:
    groups = run.shared.groups
    while len(groups) > plain(op.pending):
        for copy in groups.pop(0):
            copy.land(run, _UNSEEN)
    return []


# ---- TMA loads ------------------------------------------------------------------------------------------


def _barriers(run: Executor, op: gpu.MbarrierInitOp) -> list[Any]:
    kind: Any = op.result.type
    of_warps = op.arrival_count is not None
    phases = [_Phases(of_warps=of_warps) for _ in range(kind.stages.data)]
    run.shared.phases.extend(phases)
    return [phases]


def _expect(run: Executor, op: gpu.MbarrierArriveExpectTxOp) -> list[Any]:
    phase: _Phases = _at(run, op.barriers, op.stage)
    if phase.expected is not None:
        raise fault(
            run, "expects bytes in a phase that has not ended: a gpu.mbarrier_wait is missing"
        )
    phase.expected = plain(op.bytes)
    return []


def tma_tile_elements(
    run: Executor, op: gpu.TmaLoadOp | gpu.TmaStoreOp, itemsize: int
) -> tuple[PointerValue, np.ndarray, tuple[int, ...]]:
    """Offsets of a tile's elements, which of them are in bounds, and the tile's shape."""
    shared = gpu.shared_layout_of(op.buffer)
    corner, extents, pitches = (
        [int(run.value(v)) for v in group]
        for group in (op.coords, op.global_dims, op.global_strides)
    )
    beyond = any(extent <= at for at, extent in _ends(corner, extents))
    for d in tile.ints(op.range_checked):
        if not 0 <= corner[d] < gpu.REACH and not beyond:
            raise fault(
                run, f"is at {corner[d]} along dimension {d}, which coordinates do not reach"
            )
    ends = [corner[0], extents[0]] if isinstance(op, gpu.TmaStoreOp) else [corner[0]]
    if any(end * itemsize % SWIZZLE_ATOM_BYTES for end in ends):
        raise fault(
            run,
            f"is at {corner[0]} of {extents[0]}: the hardware takes {SWIZZLE_ATOM_BYTES} bytes at a time",
        )
    order = (slice(None), None) if shared.major_dim == 0 else (None, slice(None))
    places = [
        (np.arange(shared.contiguous_extent) + corner[0])[order],
        (np.arange(shared.strided_extent) + corner[1])[order[::-1]],
        *corner[2:],
    ]
    mask, offset = np.bool_(True), np.asarray(places[0])
    for at, extent in zip(places, extents, strict=True):
        mask = mask & (at >= 0) & (at < extent)
    for at, pitch in zip(places[1:], pitches, strict=True):
        offset = offset + at * pitch
    shape = tile.shape_of(gpu.buffer_type(op.buffer).tile)
    return (
        run.value(op.base).offset_by(offset, itemsize),
        np.broadcast_to(mask, offset.shape),
        shape,
    )


def _ends(corner: list[int], extents: list[int]) -> list[tuple[int, int]]:
    """Coordinate and extent along the bounded dimensions."""
    return [(at, e) for at, e in zip(corner, extents, strict=True) if e != gpu.UNBOUNDED]


def _tma_copy(run: Executor, op: gpu.TmaLoadOp) -> list[Any]:
    phase: _Phases = _at(run, op.barriers, op.stage)
    if phase.expected is None:
        raise fault(
            run, "issues a TMA load before gpu.mbarrier_arrive_expect_tx has set the byte count"
        )
    stage = _written_stage(run, op.buffer, op.stage)
    base: Any = op.base.type
    held = kind_of(base).element_ty
    pointers, mask, shape = tma_tile_elements(run, op, held.itemsize)
    copy = _started(run, stage, pointers, mask, held, shape)
    copy.nbytes = gpu.shared_layout_of(op.buffer).bytes  # whole panels
    phase.copies.append(copy)
    return []


def _arrive(run: Executor, op: gpu.MbarrierArriveOp) -> list[Any]:
    if run.decides(run.value(op.pred)):
        phase: _Phases = _at(run, op.barriers, op.stage)
        phase.done = [s for s in run.shared.stages if s.read and not s.readers]
        phase.ended += 1
    return []


def _over(phase: _Phases) -> list[Any]:
    """A phase was observed to complete: stages released before are free."""
    for stage in phase.done:
        if not stage.readers:
            stage.read = False
    phase.done = []
    return []


def _tma_wait(run: Executor, op: gpu.MbarrierWaitOp) -> list[Any]:
    phase: _Phases = _at(run, op.barriers, op.stage)
    if phase.ended % 2 != int(run.value(op.phase)):
        return _over(phase)
    role = run.shared.role
    if phase.of_warps:
        if role is None or not role.inside:
            raise fault(run, "deadlock: waits for a stage that warps have not released")
        role.wait_until(lambda: phase.ended % 2 != int(run.value(op.phase)))
        return _over(phase)
    if role is not None:
        role.catch_up(lambda: phase.expected is not None)
    copied = sum(copy.nbytes for copy in phase.copies)
    if phase.expected != copied:
        expected = "nothing" if phase.expected is None else f"{phase.expected} bytes"
        raise fault(run, f"deadlock: {expected} bytes expected, {copied} in flight")
    for copy in phase.copies:
        copy.land(run, _READY)  # every thread waits itself, so none needs a barrier
    phase.copies, phase.expected, phase.ended = [], None, phase.ended + 1
    return []


# ---- MMAs -------------------------------------------------------------------------------------------


def _seen_through(buffer: Any, stage: Stage) -> np.ndarray:
    """The tile of a stage as a buffer has it that may be a view."""
    value = np.asarray(stage.value)
    while isinstance(buffer.owner, gpu.MemdescTransOp):
        buffer, value = buffer.owner.source, value.T
    return value


def _wgmma(run: Executor, op: gpu.WgmmaOp) -> list[Any]:
    stages = tuple(
        read_stage(run, buffer, slot)
        for buffer, slot in ((op.lhs, op.lhs_stage), (op.rhs, op.rhs_stage))
        if not tile.is_tile(buffer)
    )
    acc = run.value(op.acc)
    before = acc._value if isinstance(acc, InFlightAccumulator) else np.asarray(acc)
    a = run.value(op.lhs) if tile.is_tile(op.lhs) else _seen_through(op.lhs, stages[0])
    a, b = np.asarray(a), _seen_through(op.rhs, stages[-1])
    made = dot(a, b, before).astype(before.dtype)
    for stage in stages:
        stage.readers += 1
    result = InFlightAccumulator(run, made, stages)
    run.shared.mmas.append(result)
    return [result]


def _wgmma_wait(run: Executor, op: gpu.WgmmaWaitOp) -> list[Any]:
    mmas = run.shared.mmas
    while len(mmas) > plain(op.pending):
        for stage in mmas.pop(0)._stages:
            stage.readers -= 1
            stage.read = True
    value = run.value(op.acc)
    if isinstance(value, InFlightAccumulator) and not any(p is value for p in mmas):
        return [value._value]
    return [value]


HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {
    gpu.LocalAllocOp: _alloc,
    gpu.LocalDeallocOp: _release,
    gpu.MemdescTransOp: lambda run, op: [run.value(op.source)],
    gpu.LocalStoreOp: _local_store,
    gpu.LocalTransposeOp: _local_transpose,
    gpu.LocalLoadOp: _local_load,
    gpu.BarrierOp: _barrier,
    tile.BarrierOp: _barrier,
    gpu.ConvertLayoutOp: _convert,
    gpu.ExtractSliceOp: _extract_slice,
    gpu.AsyncCopyOp: _copy,
    gpu.AsyncCommitGroupOp: _commit,
    gpu.AsyncWaitOp: _wait,
    gpu.MbarrierInitOp: _barriers,
    gpu.ElectOp: lambda run, op: [np.bool_(True)],
    gpu.MbarrierArriveExpectTxOp: _expect,
    gpu.TmaLoadOp: _tma_copy,
    gpu.MbarrierArriveOp: _arrive,
    gpu.MbarrierWaitOp: _tma_wait,
    gpu.WgmmaOp: _wgmma,
    gpu.WgmmaWaitOp: _wgmma_wait,
}
