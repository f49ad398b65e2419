"""Schedule stores, and loads of read-only data, in kernels that hold rows in registers.

A tile operation is emitted for all registers of a thread at a time: a program that normalizes a row and multiplies it
by weights loads all of the weights between its reduction and its first store. `ptxas` keeps that order, since it cannot
prove that stores do not alias loads nor that a barrier may be crossed: the registers of the row and of all weights are
taken at once (a layer norm of 16,384 bf16 columns with 512 threads: 90, of which an SM runs one CTA instead of two),
and the first weights are waited for after the reduction. Loads that no store can affect (`order-instructions` marks
them) may be issued anywhere. This module emits each store as soon as it can be computed, and the loads of later stores
in front of it until the registers are taken with which as many CTAs fit an SM as without the loads, or as many as have
enough bytes in flight. What is loaded in
front of the first store is issued before the exchanges between threads of the reduction.

Without such loads (`store_early`), all results of a row are in registers at once all the same, and DRAM has nothing to
write meanwhile. Instructions without effects may pass stores: the operands of each store are emitted depth first, right
in front of it. A softmax of 262,144 bf16 columns (64 exponentials per thread) needs 64 registers instead of 115, so that
two CTAs of 512 threads share an SM. Results do not change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from llvmlite.ir.instructions import ExtractValue, Instruction, LoadInstr, StoreInstr

from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.instruction_order import (
    depth_first,
    is_load,
    is_pure,
    operands_of,
    registers_of,
    tree_of,
)
from tilewright.backends.nvidia.occupancy import (
    ENOUGH_BYTES,
    CtaResources,
    most_registers,
    resident_ctas,
)
from tilewright.passes.gpu.analysis.num_ctas import CTAS_PER_SM
from tilewright.passes.gpu.order_instructions import ORDER_INSTRUCTIONS

if TYPE_CHECKING:
    from tilewright.targets import TargetInfo

_STORE = re.compile(r"^(@\$\d+ )?st\.global[^;]*;$")
_EXCHANGE = re.compile(r"shfl|redux|mapa|mbarrier|barrier|\.shared")
_OTHER_REGISTERS = 10
"""Registers of a thread for addresses, operands of predicates and the like."""
_SLACK = 6
"""Registers that stay free for later stores: the estimate is not exact."""
_TEMPORARIES = 7
"""Registers of a reduction's exchange."""


def order_read_only_loads(gen: KernelCodegen) -> None:
    """Reorder the loads in `gen.read_only`, and what uses them, in the blocks outside loops of a completely emitted
    kernel; in loops, `batch-loads` decides how many are in flight."""
    if not gen.read_only:
        return
    uses = _Uses(gen.function.blocks)
    threads = 32 * gen.warps // gen.blocks
    resources = CtaResources(threads, 0, gen.scratch_bytes)
    loads = (i for block in gen.function.blocks for i in block.instructions if is_load(i))
    loaded = sum(4 * registers_of(i.type) for i in loads if i not in gen.read_only)
    enough = max(2, -(-ENOUGH_BYTES // max(1, threads * loaded)))
    for number, block in enumerate(gen.function.blocks):
        if any(first <= number <= last for first, last in uses.loops):
            continue
        instructions: list[Any] = []
        for region in _regions(block, gen.read_only):
            if any(i in gen.read_only for i in region) and any(map(is_store, region)):
                found = _Region(region, gen.read_only, uses)
                budget = found.budget(resources, gen.target, enough)
                instructions = found.placed(instructions, budget)
            else:
                instructions += region
        block.instructions[:] = instructions


def is_store(instruction: Any) -> bool:
    callee = getattr(instruction, "callee", None)
    return isinstance(callee, ir.InlineAsm) and _STORE.match(callee.asm) is not None


def _is_exchange(instruction: Any) -> bool:
    """Whether an instruction is part of an exchange between threads, without accesses to global memory."""
    if isinstance(instruction, LoadInstr | StoreInstr):
        return getattr(instruction.operands[-1].type, "addrspace", 0) == 3
    callee = getattr(instruction, "callee", None)
    if callee is None:
        return False
    text = callee.asm if isinstance(callee, ir.InlineAsm) else callee.name
    return _EXCHANGE.search(text) is not None and "global" not in text


def _regions(block: Any, read_only: set[Any]) -> list[list[Any]]:
    """Split a block at instructions with effects other than stores, and at loads after stores that have to stay there."""
    found: list[list[Any]] = [[]]
    stores = False
    for instruction in block.instructions:
        load, store = is_load(instruction), is_store(instruction)
        stays = not (load or store or is_pure(instruction))
        if stays or (load and stores and instruction not in read_only):
            found.append([])
            stores = False
        found[-1].append(instruction)
        stores = stores or store
        if stays:
            found.append([])
    return found


class _Uses:
    """Which values are needed after an instruction, and how often they are used before."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        number = {block: i for i, block in enumerate(blocks)}
        self.places: dict[Any, tuple[int, int]] = {}
        self.users: dict[Any, list[Any]] = {}
        self.loops: list[tuple[int, int]] = []
        """First and last block of each loop."""
        for block in blocks:
            for i, instruction in enumerate(block.instructions):
                self.places[instruction] = number[block], i
                for operand in operands_of(instruction):
                    self.users.setdefault(operand, []).append(instruction)
            targets = (number[t] for t in block.terminator.operands if t in number)
            self.loops += [(t, number[block]) for t in targets if t <= number[block]]

    def in_region(self, value: Any, region: set[Any], last: Any) -> int:
        """Uses of a value in a region that ends with instruction `last`; -1: it is needed after it."""
        end, users = self.places[last], self.users[value]
        if any(self.places[user] > end for user in users):
            return -1
        return sum(user in region for user in users)


class _Region:
    """Instructions of a block that are loads, stores and without effects."""

    def __init__(self, region: list[Any], read_only: set[Any], uses: _Uses) -> None:
        self.region, self.inside = region, set(region)
        self.late = read_only & self.inside
        self.stores = [i for i in region if is_store(i)]
        values = dict.fromkeys(o for i in region for o in operands_of(i))
        self.left = {
            v: uses.in_region(v, self.inside, region[-1])
            for v in values
            if isinstance(v, Instruction)
        }
        """How many uses of a value are left; -1: some after the region, to which it stays live."""
        self.live = sum(registers_of(v.type) for v in self.left if v not in self.inside)
        self.order: list[Any] = []
        self.done: set[Any] = set()
        for instruction in region:
            if is_load(instruction) and instruction not in self.late:
                self._emit(self._tree(instruction))
        trees = [self._tree(store) for store in self.stores]
        self.loads = [i for tree in trees for i in tree if i in self.late]
        """Loads in the order in which stores need them."""
        self.peaks = [self._peak(tree) for tree in trees]
        loaded = [sum(registers_of(i.type) for i in tree if i in self.late) for tree in trees]
        self.working = max(a - b for a, b in zip(self.peaks, loaded, strict=True))
        """Registers that a store takes in addition to those of its loads."""

    def budget(self, resources: CtaResources, target: TargetInfo, enough: int) -> int:
        """Registers that may be live: those with which as many CTAs, up to `enough`, fit an SM as if each load was
        issued right before its use."""
        needed = self.live + max(self.peaks) + _OTHER_REGISTERS
        ctas = resident_ctas(replace(resources, registers=needed), target)
        return most_registers(resources, max(1, min(ctas, enough))) - _OTHER_REGISTERS - _SLACK

    def placed(self, before: list[Any], budget: int) -> list[Any]:
        """The instructions of the block before the region, and those of the region."""
        room = budget - self.live
        self._emit_stores(budget - self.working)
        return self._hoisted(before, room - _TEMPORARIES)

    def _emit_stores(self, budget: int) -> None:
        """Emit each store, and loads ahead of it while no more registers are live than `budget`."""
        ahead = list(dict.fromkeys(self.loads))
        for store in self.stores:
            while ahead and self.live + registers_of(ahead[0].type) <= budget:
                self._emit(self._tree(ahead.pop(0)))
            self._emit(self._tree(store))
            ahead = [load for load in ahead if load not in self.done]
        self._emit(self.region)

    def _hoisted(self, before: list[Any], room: int) -> list[Any]:
        """`before` and the region, with loads that come first in this in front of the exchanges at the end of that."""
        start = len(before)
        while start and (is_pure(before[start - 1]) or _is_exchange(before[start - 1])):
            start -= 1
        if not any(map(_is_exchange, before[start:])):
            return before + self.order
        movable = {*before[start:], *self.region}
        moved: dict[Any, None] = {}
        for load in takewhile(lambda i: not is_store(i), self.order):
            if load in self.late and registers_of(load.type) <= room:
                tree = tree_of(load, movable, moved)
                if all(i is load or is_pure(i) for i in tree):
                    moved.update(dict.fromkeys(tree))
                    room -= registers_of(load.type)
        rest = [i for i in before[start:] + self.order if i not in moved]
        return [*before[:start], *moved, *rest]

    def _tree(self, root: Any) -> list[Any]:
        return tree_of(root, self.inside, self.done)

    def _emit(self, instructions: list[Any]) -> None:
        for instruction in instructions:
            if instruction not in self.done:
                self.done.add(instruction)
                self.order.append(instruction)
                self.live += self._change(instruction, self.left)

    def _change(self, instruction: Any, left: dict[Any, int]) -> int:
        """Registers that an instruction takes, less those of values that it uses last."""
        if isinstance(instruction, ExtractValue):
            return 0  # a word of a load that is counted already
        change = registers_of(instruction.type) if instruction in left else 0
        for operand in operands_of(instruction):
            if operand in left:
                left[operand] -= 1
                change -= registers_of(operand.type) if left[operand] == 0 else 0
        return change

    def _peak(self, instructions: list[Any]) -> int:
        """The most registers that these instructions take in addition to what is live."""
        left = dict(self.left)
        return max(accumulate(self._change(i, left) for i in instructions), default=0)


# ---- kernels without such loads ---------------------------------------------------------------------


def store_early(gen: KernelCodegen) -> None:
    """Reorder what is between stores in a completely emitted kernel for which a pass has planned registers
    (`gpu.ctas_per_sm`)."""
    attributes = gen.source.attributes
    if gen.read_only or CTAS_PER_SM not in attributes or ORDER_INSTRUCTIONS not in attributes:
        return
    for block in gen.function.blocks:
        block.instructions[:] = [i for run in _runs(block) for i in _ordered(run)]


def _runs(block: Any) -> list[list[Instruction]]:
    """Split a block at loads and at instructions with effects other than stores."""
    found: list[list[Instruction]] = [[]]
    for instruction in block.instructions:
        if is_load(instruction) or not (is_store(instruction) or is_pure(instruction)):
            found += [[instruction], []]
        else:
            found[-1].append(instruction)
    return found


def _ordered(run: list[Instruction]) -> list[Instruction]:
    """Return a run with the operands of each store right in front of it, and the rest behind the last store."""
    ordered = depth_first(filter(is_store, run), set(run))
    return [*ordered, *(i for i in run if i not in ordered)]
