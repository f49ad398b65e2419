"""`batch-loads`: unroll a loop and hoist the loads of all unrolled iterations to the front.

A load has a latency of hundreds of cycles, and a thread stalls at the first use of its value. A loop that loads,
computes and stores stalls in every iteration: ptxas cannot hoist the loads of the next iteration above the stores
of this one, since it cannot prove that they do not alias. This pass can: it unrolls by `iterations`, issues the loads
of all iterations, and then runs the rest of each.

    for k in 0 … n:                for j in 0 … n / 2:
      x = load k                     x = load 2j
      y = f(x)              ->       z = load 2j + 1
      store y at k                   store f(x) at 2j
                                     store f(z) at 2j + 1
                                   the last iteration of an odd number, as before

A load is hoisted if its address depends only on loop counters, carried scalars and other such loads, and if no
store of earlier iterations in the batch can clobber it. Two arguments either do not alias or are elementwise equal
(see `insert-barriers`): a load and a store through different arguments do not conflict if either of them advances
past its own tile in each iteration.

The unroll factor is the largest power of two whose loads fit into the register limits per thread and per CTA. A load
whose elements all lie in different sectors counts with the sectors: they keep memory busy, and registers for
more loads would cost CTAs.
Loops that contain loops, products, atomics, barriers or output are unchanged. Requires `assign-layouts`, which
decides registers, and `insert-barriers`, which checks conflicts in program order. Ensures: effects of iterations
keep their order, except for the hoisted loads.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.analysis.disjoint_accesses import are_disjoint
from tilewright.passes.analysis.edit import NO_UNROLL, Mapping, backward_slice, end_of, replace_op
from tilewright.passes.analysis.effects import erase_dead, is_pure, is_volatile
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.symbolic import Symbolic
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import SECTOR_BYTES, has_sector_per_element
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.registers import instructions, registers_of
from tilewright.targets import TargetInfo

_LOCAL = (gpu.LocalStoreOp, gpu.LocalLoadOp)
_FEW_THREADS = 128
_TOO_MANY_INSTRUCTIONS = 2048
"""Instructions of a thread in a batch, about: more do not stay in the instruction cache."""
_TOO_MANY_OPS = 160
"""Operations of a batch: longer bodies keep loads in flight by themselves, and take long to compile."""


@dataclass(frozen=True)
class BatchLoads(FunctionPass):
    relevant_ops = ("scf.for",)
    iterations: int = 4
    """The most iterations that are taken together; twice as many, in twice the registers, of loops without stores in
    CTAs of up to four warps, of which five fit into an SM then."""
    known_length_factor: int = 2
    """How many times as many registers the loads of such loops may take if their length is known, besides as many that the
    loop carries: it is the part of a tile that one CTA reduces, of which an SM may have just one."""
    registers_per_thread: int = 32
    """Registers of 4 bytes that the loads of a batch, and the tiles that the loop carries, may take in
    each thread."""
    free_registers: int = 8
    """Registers of a thread that the loads of a batch may take however many bytes are in flight: they cost no CTA, and a
    grid may have too few CTAs to keep memory busy."""
    registers_per_cta: int = 20480
    """Registers of the loads in all threads of a CTA: with the other values of a thread, two CTAs of 32 warps
    fit into an SM with 65536 registers."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        threads = 32 * warps_of(function) // num_ctas_of(function)
        words = min(self.registers_per_thread, self.registers_per_cta // threads)
        known = Facts(address_arithmetic(function))
        for number, op in enumerate(list(function.walk())):
            if isinstance(op, scf.ForOp) and is_simple(op):
                code = instructions(op.body.walk(), threads)
                self._batch(op, words, number, code, threads <= _FEW_THREADS, known)
        erase_dead(function.body.block)

    def _batch(
        self, loop: scf.ForOp, allowed: int, number: int, code: int, small: bool, known: Facts
    ) -> None:
        early = _Early(loop)
        if not early.loads:
            return
        trips = constant_int(loop.ub)
        more = 2 if small and not early.stores else 1
        most = more * self.iterations
        allowed *= more * (self.known_length_factor if more > 1 and trips is not None else 1)
        registers = sum(registers_of(load.results[0]) for load in early.loads)
        words = sum(_words_in_flight(load, loop, known) for load in early.loads)
        carried = sum(registers_of(arg) for arg in loop.body.block.args[1:])
        left = min(allowed, (more if trips is not None else 1) * allowed - carried)
        size = sum(1 for _ in loop.body.walk())
        count = 1
        while (
            2 * count <= most
            and (
                2 * count * words <= left or 2 * count * registers <= min(left, self.free_registers)
            )
            and 2 * count * size <= _TOO_MANY_OPS
            and 2 * count * code <= _TOO_MANY_INSTRUCTIONS
            and (trips is None or 2 * count <= trips)
        ):
            count *= 2
        if count > 1:
            _Batcher(loop, early, count, number).run()


def _words_in_flight(load: Operation, loop: scf.ForOp, known: Facts) -> int:
    """The 4-byte words of memory that a thread waits for: at least the registers that it loads.

    Iterations whose elements lie side by side read the same sectors.
    """
    registers = registers_of(load.results[0])
    layout = gpu.layout_of(load.results[0])
    if layout is None or not has_sector_per_element(load, known):
        return registers
    advance = Symbolic(known).advance_per_iteration(tile.pointer_of(load), loop)
    number = None if advance is None else advance.number
    if number is not None and abs(number) * tile.element_bytes(load.results[0]) < SECTOR_BYTES:
        return registers
    return layout.registers_per_thread * SECTOR_BYTES // 4


def is_simple(loop: scf.ForOp) -> bool:
    """Whether a loop counts from 0 in ones, and has nothing in it that is done together or outside."""
    if not is_normalized(loop) or NO_UNROLL in loop.attributes:
        return False
    return all(
        isinstance(
            op,
            (tile.Load, tile.Store, *_LOCAL, scf.IfOp, scf.YieldOp, tile.YieldOp, tile.AssumeOp),
        )
        or (is_pure(op) and not isinstance(op, tile.DotOp))
        for op in loop.body.walk()
    )


def is_clear_of(access: Operation, store: Operation, loop: scf.ForOp) -> bool:
    """Whether `access` of a later iteration touches nothing that `store` writes in this one."""
    roots = base_argument(tile.pointer_of(access)), base_argument(tile.pointer_of(store))
    if None in roots:
        return False
    if roots[0] is roots[1]:
        return are_disjoint(store, access, loop)
    return are_disjoint(access, access, loop) or are_disjoint(store, store, loop)


# ---- which loads -------------------------------------------------------------------------------------


class _Early:
    """The loads of a loop that may be done before earlier iterations have stored."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.loop, self.body = loop, loop.body.block
        self.stores = [op for op in loop.body.walk() if isinstance(op, tile.Store)]
        self.needed: set[Operation] = set()
        """The hoisted loads and the operations that compute their operands."""
        self.loads: list[Operation] = []
        for op in self.body.ops:
            if self._may_move(op):
                slice_ = self._slice(op)
                if slice_ is not None:
                    self.needed |= slice_
                    self.loads.append(op)

    @property
    def ops(self) -> list[Operation]:
        """The loads and their address computations, in program order."""
        return [op for op in self.body.ops if op in self.needed]

    def _may_move(self, op: Operation) -> bool:
        if not isinstance(op, tile.Load) or is_volatile(op):
            return False
        return all(is_clear_of(op, store, self.loop) for store in self.stores)

    def _slice(self, load: Operation) -> set[Operation] | None:
        """The backward slice of `load`'s operands across the previous iteration; None if it contains an operation
        that cannot move."""

        def may_move(op: Operation) -> bool:
            return not op.regions and (is_pure(op) or op in self.loads)

        found = backward_slice(self.body, load.operands, may_move, carried=True)
        return None if found is None else {load, *found[0]}


# ---- the loop -----------------------------------------------------------------------------------------


class _Batcher:
    def __init__(self, loop: scf.ForOp, early: _Early, count: int, number: int) -> None:
        self.loop, self.early, self.count = loop, early, count
        self.body = loop.body.block
        self.number, self.places = number, {op: i for i, op in enumerate(loop.body.walk())}
        self.ordered = False
        """Whether accesses are reordered with stores; if so, claim their order in the IR."""
        self.kind = loop.lb.type
        self.start: SSAValue | None = None

    def run(self) -> None:
        """Full batches, then batches of half the size each for the remaining iterations."""
        loop, trips = self.loop, constant_int(self.loop.ub)
        e = Emitter(loop)
        known = e.constant(trips, self.kind) if trips is not None else None
        if known is None:
            known = e.binary(arith.MaxSIOp, loop.ub, e.constant(0, self.kind))
        values, count = list(loop.iter_args), self.count
        while count:
            if trips is None or trips % (2 * count) >= count or count == self.count:
                values = self._loop(e, self._runs(e, known, trips, count), values, count)
            count //= 2
        replace_op(loop, values)

    def _runs(self, e: Emitter, known: SSAValue, trips: int | None, count: int) -> SSAValue:
        """How often the loop of batches of `count` runs; `self.start`: iterations before it."""
        first = count == self.count
        before = e.constant(-2 * count, self.kind)
        self.start = None if first else e.binary(arith.AndIOp, known, before)
        if trips is not None:
            self.start = None if first else e.constant(trips & -2 * count, self.kind)
            return e.constant(trips // count if first else 1, self.kind)
        shift = e.constant(count.bit_length() - 1, self.kind)
        runs = e.binary(arith.ShRUIOp, known, shift) if count > 1 else known
        return runs if first else e.binary(arith.AndIOp, runs, e.constant(1, self.kind))

    def _loop(
        self, e: Emitter, trips: SSAValue, carried: list[SSAValue], count: int
    ) -> list[SSAValue]:
        """A loop over batches of `count` iterations, from iteration `self.start` on."""
        old = self.loop
        attributes = {**old.attributes, NO_UNROLL: UnitAttr()}
        loop, inner = e.loop([old.lb, trips, old.step], carried, attributes, self.body.args)
        inner.anchor.operands = self._batch(inner, loop.body.block, count)
        if self.ordered:
            tile.assume(loop, BatchLoads.name, order_each=[self.number])
        return list(loop.results)

    def _batch(self, e: Emitter, block: Block, count: int) -> list[SSAValue]:
        """The loads of all iterations of a batch, then the rest of each."""
        self.ordered = count > 1 and bool(self.early.stores)
        first = e.mul(block.args[0], e.constant(count, self.kind)) if count > 1 else block.args[0]
        if self.start is not None:
            first = e.add(self.start, first)
        counters = [e.add(first, e.constant(i, self.kind)) for i in range(count)]
        loaded = self._loads(e, block, counters)
        end = end_of(self.body)
        carried: list[SSAValue] = list(block.args[1:])
        for i, (counter, found) in enumerate(zip(counters, loaded, strict=True)):
            mapping: Mapping = {**found, self.body.args[0]: counter}
            mapping.update(zip(self.body.args[1:], carried, strict=True))
            for op in self.body.ops:
                if op is not end and op not in self.early.loads:
                    self._claim(op, e.clone(op, mapping), i)
            carried = [mapping.get(v, v) for v in end.operands]
        return carried

    def _claim(self, op: Operation, copy: Operation, iteration: int) -> None:
        """Claim the program order of an iteration's accesses."""
        if not self.ordered:
            return
        for old, new in zip(op.walk(), copy.walk(), strict=True):
            if isinstance(new, (tile.Load, tile.Store)):
                place = iteration * len(self.places) + self.places[old]
                tile.assume(new, BatchLoads.name, in_order=[self.number, place])

    def _loads(self, e: Emitter, block: Block, counters: list[SSAValue]) -> list[Mapping]:
        """The loads of all iterations; for each, old result -> new."""
        state: Mapping = dict(zip(self.body.args, block.args, strict=True))
        end = end_of(self.body)
        loaded: list[Mapping] = []
        for i, counter in enumerate(counters):
            mapping: Mapping = {**state, self.body.args[0]: counter}
            for op in self.early.ops:
                self._claim(op, e.clone(op, mapping), i)
            loaded.append({op.results[0]: mapping[op.results[0]] for op in self.early.loads})
            state = {
                arg: mapping.get(value, value)
                for arg, value in zip(self.body.args[1:], end.operands, strict=True)
            }
        return loaded
