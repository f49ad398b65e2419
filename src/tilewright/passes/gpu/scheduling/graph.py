"""The dependence graph of a tile loop after `promote-shared`, without its synchronization.

`promote-shared` completes every MMA before the next: copies, their wait, a barrier, the MMA, its wait, a
barrier. Synchronization follows from the order of the other operations, so the graph omits it. The remaining
operations are *steps*: they compute, issue an MMA, or access memory. A value may cross iterations as an argument
of the loop (distance 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.effects import defined_inside, has_effect, is_pure
from tilewright.passes.gpu.analysis.accesses import may_clobber
from tilewright.passes.gpu.analysis.buffer_views import buffer_root, buffer_users
from tilewright.passes.gpu.select_mma import SHARED_FMA

_SYNCHRONIZATION = (
    gpu.AsyncCopyOp, gpu.AsyncCommitGroupOp, gpu.AsyncWaitOp, gpu.WgmmaWaitOp, scf.YieldOp,
)  # fmt: skip
_WRITES_SHARED = (gpu.LocalStoreOp, gpu.LocalTransposeOp)


@dataclass(eq=False)
class CopyGroup:
    """Copies of an iteration that the same operations read: they arrive on one barrier and are released together."""

    copies: list[gpu.AsyncCopyOp]
    readers: list[Operation]

    @property
    def buffers(self) -> list[SSAValue]:
        return [copy.buffer for copy in self.copies]

    @property
    def bytes_per_stage(self) -> int:
        return sum(gpu.shared_layout_of(buffer).bytes for buffer in self.buffers)


@dataclass(eq=False)
class LoopGraph:
    """A loop whose copies may be issued ahead, and whose MMAs may overlap other steps."""

    loop: scf.ForOp
    groups: list[CopyGroup]
    steps: list[Operation]
    """In the order of the source, without barriers unless threads write shared memory in the loop."""
    group_of: dict[SSAValue, CopyGroup] = field(default_factory=dict)
    """The group that fills a buffer."""

    @property
    def body(self) -> Block:
        return self.loop.body.block

    @property
    def dots(self) -> list[gpu.WgmmaOp]:
        return [op for op in self.steps if isinstance(op, gpu.WgmmaOp)]

    @property
    def writes_shared(self) -> bool:
        """Whether threads write shared memory in the loop, so that barriers separate its steps."""
        return any(isinstance(op, _WRITES_SHARED) for op in self.steps)

    def group_read(self, value: SSAValue) -> CopyGroup | None:
        """The group that fills the buffer of which a value is a view; None for other values."""
        return self.group_of.get(buffer_root(value))

    def through_waits(self, value: SSAValue) -> SSAValue:
        """The value itself, of a wait the MMA's."""
        while isinstance(value.owner, gpu.WgmmaWaitOp) and value.owner.parent is self.body:
            value = value.owner.acc
        return value

    def made_by(self, value: SSAValue) -> Operation | BlockArgument | None:
        """The step or body argument that defines a value, looking through waits for MMAs; None for
        loop-invariant values."""
        value = self.through_waits(value)
        if isinstance(value, BlockArgument):
            return value if value.block is self.body else None
        owner = value.owner
        return owner if isinstance(owner, Operation) and owner.parent is self.body else None

    def operands_of(self, op: Operation) -> list[SSAValue]:
        """Operands of a step and values that its regions take from around."""
        inner = [v for region in op.regions for o in region.walk() for v in o.operands]
        return [*op.operands, *(v for v in inner if not defined_inside(v, op))]

    def is_ordered(self, op: Operation) -> bool:
        """Whether a step must keep its order relative to other such steps: it writes memory, may read memory that
        the loop writes, may end the program, or prints."""
        if isinstance(op, gpu.WgmmaOp | gpu.LocalLoadOp) or is_pure(op):
            return False
        if isinstance(op, tile.Load) and not has_effect(op):
            return may_clobber(self.loop, [tile.pointer_of(op)])
        return has_effect(op)


def loop_graph(loop: scf.ForOp) -> LoopGraph | None:
    """The graph of a loop with MMAs whose operands are copied to separate buffers; None for other loops.

    Requires, as `promote-shared` ensures: one copy per buffer and iteration, and every wait leaves nothing in
    flight.
    """
    ops = list(loop.body.block.ops)
    copies = [op for op in ops if isinstance(op, gpu.AsyncCopyOp)]
    mmas = [op for op in ops if isinstance(op, gpu.WgmmaOp)]
    if not copies or not mmas or any(p.instruction.data == SHARED_FMA for p in mmas):
        return None
    if may_clobber(loop, [copy.base for copy in copies]) or not _is_synchronous(loop, ops):
        return None
    groups: dict[tuple[Operation, ...], CopyGroup] = {}
    for copy in copies:
        readers = _readers(copy, ops)
        if readers is None:
            return None
        groups.setdefault(tuple(readers), CopyGroup([], readers)).copies.append(copy)
    dropped = (*_SYNCHRONIZATION, gpu.BarrierOp)
    if any(isinstance(op, _WRITES_SHARED) for op in ops):
        dropped = _SYNCHRONIZATION
    graph = LoopGraph(
        loop, list(groups.values()), [op for op in ops if not isinstance(op, dropped)]
    )
    graph.group_of = {buffer: group for group in graph.groups for buffer in group.buffers}
    return graph if len(graph.group_of) == len(copies) else None


def _is_synchronous(loop: scf.ForOp, ops: list[Operation]) -> bool:
    """Whether everything that is issued in an iteration is over at its end, and nothing is issued in branches."""
    issued = (
        gpu.AsyncCopyOp,
        gpu.WgmmaOp,
        gpu.LocalTransposeOp,
        gpu.MbarrierWaitOp,
        tile.BarrierOp,
    )
    if any(isinstance(op, issued) and op.parent is not loop.body.block for op in loop.walk()):
        return False
    waits = [op for op in ops if isinstance(op, gpu.WgmmaWaitOp | gpu.AsyncWaitOp)]
    if any(op.pending.value.data for op in waits) or any(
        isinstance(op, tile.BarrierOp) for op in ops
    ):
        return False
    last = max(i for i, op in enumerate(ops) if isinstance(op, gpu.WgmmaOp))
    return any(isinstance(op, gpu.WgmmaWaitOp) for op in ops[last:])


def _readers(copy: gpu.AsyncCopyOp, ops: list[Operation]) -> list[Operation] | None:
    """The readers of a copy's buffer, in order; None unless all are MMAs and loads of this loop."""
    users = {*buffer_users(copy.buffer)}
    outside = [op for op in users if not isinstance(op, gpu.LocalDeallocOp) and op not in ops]
    readers = [op for op in ops if op in users and op is not copy]
    known = all(isinstance(op, gpu.WgmmaOp | gpu.LocalLoadOp) for op in readers)
    return readers if readers and known and not outside else None
