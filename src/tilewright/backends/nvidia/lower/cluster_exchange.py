"""Exchange the partial results of reductions between the CTAs of a cluster with `st.async` and mbarriers.

A cluster barrier with release semantics costs a full memory fence (`MEMBAR.ALL.GPU`, which waits for every access in
flight) and an L1 invalidation (`CCTL.IVALL`) per exchange. `st.async` needs neither: it writes a value to the shared
memory of another CTA and completes its bytes at an mbarrier there (PTX ISA, "st.async", "mbarrier"). Each reduction
has its own mbarrier and slots in every CTA. A reduction in a loop is double-buffered. This is safe: a warp sends for
iteration i + 2 after it has received the values of all warps for iteration i + 1, and each warp sent those after it had
read the slots of iteration i. A CTA that has waited for all its exchanges receives no more writes, so it may exit. One
relaxed cluster barrier ensures that all CTAs have started and initialized their mbarriers.

Requires: reductions are the only exchanges between threads of the program. Other exchanges synchronize with cluster
barriers (`cluster`), which release and acquire all memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir
from xdsl.dialects import arith, func, scf
from xdsl.ir import Attribute, Operation

from tilewright.backends.llvm.inline_ptx import inline_ptx, names
from tilewright.backends.llvm.types import (
    I8,
    I32,
    Builder,
    Value,
    as_vector,
    elements,
    load_elements,
)
from tilewright.backends.nvidia.lower import KernelCodegen, cluster
from tilewright.backends.nvidia.lower.tma import wait_for_phase
from tilewright.backends.nvidia.lower.vector_access import register, storage
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.gpu.analysis.shared_allocation import BARRIER

_WORD = 4
_MAX_VECTOR = 4
"""Maximum number of 32-bit words per `st.async`."""
_NO_EXCHANGE = (
    tile.LoadViewOp, tile.StoreViewOp, tile.LoadOp, tile.StoreOp, tile.YieldOp, tile.ProgramIdOp, tile.NumProgramsOp,
    tile.ArangeOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.AddPtrOp, tile.AssumeOp, tile.ClaimOp,
    arith.ConstantOp, scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, func.ReturnOp,
    gpu.PrefetchOp,
)  # fmt: skip
"""Operations that do not use shared memory, in addition to element-wise operations."""


def is_for_all(layout: Layout, axis: int) -> bool:
    """Return whether all warps contribute to each result along `axis` and all lanes of a warp hold each result."""
    target = layout.drop(axis)
    return (
        layout.groups == 1
        and all(vector[axis] for vector in layout.warps)
        and not any(any(v) for v in target.lanes)
    )


@dataclass(frozen=True)
class Exchange:
    """Offsets of the mbarriers and slots of one reduction in the shared memory of each CTA."""

    barrier: int
    start: int
    parts: int
    """Warps of the cluster; each sends one partial result."""
    places: int
    """Result elements per thread."""
    words: tuple[int, ...]
    """32-bit words per operand."""
    turns: int
    """Number of mbarriers and slot sets: 2 if the exchange is in a loop, else 1."""

    @property
    def pitch(self) -> int:
        """Bytes per slot: its words, padded for vector accesses."""
        return _WORD * _padded(sum(self.words))

    def slot(self, place: int) -> int:
        """Offset of the slots of one result element in the first slot set."""
        return self.start + place * self.parts * self.pitch

    @property
    def turn_bytes(self) -> int:
        """Bytes per slot set."""
        return self.slot(self.places) - self.start

    @property
    def end(self) -> int:
        """Offset of the first byte after all slots."""
        return self.start + self.turns * self.turn_bytes

    @property
    def received_bytes(self) -> int:
        """Bytes that each CTA receives per exchange."""
        return self.places * self.parts * _WORD * sum(self.words)


class ClusterExchanges:
    """The exchanges of a kernel; empty if its CTAs synchronize with cluster barriers."""

    def __init__(self, gen: KernelCodegen) -> None:
        self._gen = gen
        self._exchanges: dict[Operation, Exchange] = {}
        self._started = False
        self._counts: dict[Operation, Value] = {}
        """Per-thread counters of the executions of exchanges in loops (promoted to registers)."""
        self.bytes = 0
        reductions = [op for op in gen.source.walk() if isinstance(op, tile.ReduceOp)]
        if (
            gen.blocks == 1
            or not gen.ordered
            or not all(map(_exchanges_nothing, gen.source.walk()))
        ):
            return
        across = [op for op in reductions if _is_across_warps(op)]
        if all(map(_is_for_all, across)):
            for op in across:
                self._plan(op)

    def _plan(self, op: tile.ReduceOp) -> None:
        layout, axis = self._gen.layout(op.inputs[0]), op.axis.value.data
        sizes = (tile.element_bytes(v) for v in op.inputs)
        words = tuple(-(-size // _WORD) for size in sizes)
        alignment = _WORD * min(_MAX_VECTOR, _padded(sum(words)))
        turns = 2 if _is_repeated(op) else 1
        start = -(-(self.bytes + turns * BARRIER) // alignment) * alignment
        places = len({o[:axis] + o[axis + 1 :] for o in layout.register_offsets})
        found = Exchange(self.bytes, start, 1 << len(layout.warps), places, words, turns)
        self._exchanges[op] = found
        self.bytes = -(-found.end // BARRIER) * BARRIER

    def __contains__(self, op: Operation) -> bool:
        return op in self._exchanges

    def exchange(
        self, op: tile.ReduceOp, part: Value, groups: list[list[Value]]
    ) -> list[list[list[Value]]]:
        """Send the partial results of this warp, number `part`, to all CTAs.

        Returns, per result element, the partial results that the lane reads. Together the lanes of a warp read
        all partial results, each equally often.
        """
        gen, exchange = self._gen, self._exchanges[op]
        elements = [tile.element_of(v) for v in op.inputs]
        self._start()
        turn, phase = self._next_turn(op, exchange)
        barrier = self._at(exchange.barrier, turn, BARRIER)
        slots = self._at(exchange.start, turn, exchange.turn_bytes)
        for place, group in enumerate(groups):
            words = [w for v, e in zip(group, elements, strict=True) for w in _words(gen, v, e)]
            at = gen.builder.add(slots, exchange.slot(place) - exchange.start)
            self._send(exchange, at, barrier, part, words)
        wait_for_phase(gen, barrier, phase)
        if exchange.turns > 1:
            self._expect_again(exchange, barrier)
        step = min(exchange.parts, 32)
        own = gen.builder.and_(gen.threads.lane, step - 1)
        start = gen.builder.mul(turn, exchange.turn_bytes)
        return [
            [
                self._receive(exchange, start, place, first, own, elements)
                for first in range(0, exchange.parts, step)
            ]
            for place in range(len(groups))
        ]

    def _next_turn(self, op: Operation, exchange: Exchange) -> tuple[Value, Value]:
        """Return the index of the slot set and mbarrier of an exchange, and the parity of the mbarrier's phase."""
        b = self._gen.builder
        if exchange.turns == 1:
            return ir.Constant(I32, 0), ir.Constant(I32, 0)
        count = b.load(self._counts[op], typ=I32)
        b.store(b.add(count, 1), self._counts[op])
        return b.and_(count, 1), b.and_(b.lshr(count, 1), 1)

    def _expect_again(self, exchange: Exchange, barrier: Value) -> None:
        """Arrive at the mbarrier's next phase and expect its bytes, some of which may have arrived already."""
        gen = self._gen
        first = gen.builder.icmp_unsigned("==", gen.threads.special("tid.x"), 0)
        text = f"@$1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {exchange.received_bytes};"
        gen.emit_convergent_asm(text, [barrier, first])

    def enter(self, op: Operation) -> None:
        """Wait for the other CTAs before a top-level operation that synchronizes in one of its regions."""
        if not self._exchanges or self._started:
            return
        inside = [inner for inner in op.walk() if inner is not op]
        if isinstance(op, gpu.BarrierOp) or any(
            isinstance(inner, gpu.BarrierOp) or inner in self for inner in inside
        ):
            self._start()

    def _start(self) -> None:
        """Wait until all CTAs have initialized their mbarriers. Each CTA arrives as soon as its own are initialized."""
        if self._started:
            return
        self._started = True
        gen = self._gen
        gen.reserve(self.bytes)
        self._initialize()
        cluster.wait_for_start(gen)

    def _initialize(self) -> None:
        """Initialize the CTA's mbarriers and expect the bytes of their first phase, in the first thread."""
        threads = self._gen.threads
        barriers = [
            (x.barrier + BARRIER * turn, x.received_bytes)
            for x in self._exchanges.values()
            for turn in range(x.turns)
        ]
        lines = [f"@$1 mbarrier.init.shared::cta.b64 [$0+{at}], 1;" for at, _ in barriers]
        lines.append("@$1 fence.mbarrier_init.release.cluster;")
        lines += [
            f"@$1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0+{at}], {count};"
            for at, count in barriers
        ]
        base, tid = self._base(), threads.special("tid.x")

        def emit(b: Builder) -> Value:
            first = b.icmp_unsigned("==", tid, 0)
            operands = [base, first]
            return inline_ptx(
                b, " ".join(lines), operands, side_effect=True, memory=True, convergent=True
            )

        threads.at_start("mbarriers of the cluster", emit)
        for op, exchange in self._exchanges.items():
            if exchange.turns > 1:
                count = self._counts[op] = threads.local(I32)
                threads.at_start(
                    ("exchanges", op), lambda b, to=count: b.store(ir.Constant(I32, 0), to)
                )

    def _base(self) -> Value:
        space = self._gen.space()
        return self._gen.threads.at_start("shared", lambda b: b.ptrtoint(space, I32))

    def _at(self, offset: int, turn: Value, pitch: int) -> Value:
        """Shared address at `offset` in slot set `turn`, with `pitch` bytes per slot set."""
        b = self._gen.builder
        return b.add(b.add(self._base(), offset), b.mul(turn, pitch))

    def _send(
        self, exchange: Exchange, slots: Value, barrier: Value, part: Value, words: list[Value]
    ) -> None:
        """Send the words of this warp to all CTAs, one lane per destination CTA."""
        gen, b = self._gen, self._gen.builder
        rank = b.and_(gen.threads.lane, gen.blocks - 1)
        some = b.icmp_unsigned("<", gen.threads.lane, gen.blocks)
        at = b.add(slots, b.mul(part, exchange.pitch))
        for first, count in _vectors(len(words)):
            kind = "b32" if count == 1 else f"v{count}.b32"
            text = (
                "{ .reg .b32 there, counter; mapa.shared::cluster.u32 there, $0, $2; "
                "mapa.shared::cluster.u32 counter, $1, $2; "
                f"@$3 st.async.shared::cluster.mbarrier::complete_tx::bytes.{kind} "
                f"[there+{_WORD * first}], {names(count, 4)}, [counter]; }}"
            )
            operands = [at, barrier, rank, some, *words[first : first + count]]
            gen.emit_convergent_asm(text, operands)

    def _receive(
        self,
        exchange: Exchange,
        turn: Value,
        place: int,
        first: int,
        own: Value,
        elements: list[Attribute],
    ) -> list[Value]:
        """Load partial result `first + own` from this CTA's shared memory. `turn`: byte offset of the slot set
        from the first one."""
        gen, b = self._gen, self._gen.builder
        part = b.add(own, first)
        at = b.add(b.mul(part, exchange.pitch), b.add(turn, exchange.slot(place)))
        words: list[Value] = []
        for begin, count in _vectors(sum(exchange.words)):
            byte = b.add(at, _WORD * begin)
            pointer = b.gep(gen.space(), [byte], source_etype=I8)
            words += load_elements(b, pointer, I32, count, _WORD * count)
        values: list[Value] = []
        for count, element in zip(exchange.words, elements, strict=True):
            values.append(_from_words(gen, words[:count], element))
            words = words[count:]
        return values


def _exchanges_nothing(op: Operation) -> bool:
    """Return whether an operation does not exchange data through shared memory, or is a reduction."""
    if isinstance(op, (func.FuncOp, tile.ReduceOp, gpu.BarrierOp, *_NO_EXCHANGE)):
        return True
    return is_pure_elementwise(op)


def _is_across_warps(op: tile.ReduceOp) -> bool:
    layout, axis = gpu.layout_of(op.inputs[0]), op.axis.value.data
    return layout is None or layout.group_dim == axis or any(v[axis] for v in layout.warps)


def _is_for_all(op: tile.ReduceOp) -> bool:
    layout = gpu.layout_of(op.inputs[0])
    return layout is not None and is_for_all(layout, op.axis.value.data)


def _is_repeated(op: Operation) -> bool:
    """Return whether an operation may be executed more than once, i.e. is in a loop."""
    above = op.parent_op()
    while isinstance(above, scf.IfOp):
        above = above.parent_op()
    return not isinstance(above, func.FuncOp)


def _padded(words: int) -> int:
    """Words of a slot: a power of two, or a multiple of the longest vector."""
    return 1 << (words - 1).bit_length() if words <= _MAX_VECTOR else -(-words // 4) * 4


def _vectors(words: int) -> list[tuple[int, int]]:
    """Split a slot into vector accesses: (first word, number of words) per access."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < words:
        count = next(c for c in (4, 2, 1) if at + c <= words and at % c == 0)
        found.append((at, count))
        at += count
    return found


def _words(gen: KernelCodegen, value: Value, element: Attribute) -> list[Value]:
    """Split a value into 32-bit words."""
    b, bits = gen.builder, storage(gen, value, element)
    if bits.type.width <= 32:
        return [b.zext(bits, I32) if bits.type.width < 32 else bits]
    return [*elements(b, b.bitcast(bits, ir.VectorType(I32, 2)))]


def _from_words(gen: KernelCodegen, words: list[Value], element: Attribute) -> Value:
    b, width = gen.builder, 8 * tile.element_bytes(element)
    if len(words) == 1:
        bits = b.trunc(words[0], ir.IntType(width)) if width < 32 else words[0]
        return register(gen, bits, element)
    return register(gen, b.bitcast(as_vector(b, words), ir.IntType(64)), element)
