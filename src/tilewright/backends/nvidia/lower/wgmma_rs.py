"""Load MN-major operands from shared memory into the A fragment of a `wgmma` (RS)."""

from __future__ import annotations

from itertools import pairwise

from tilewright.backends.llvm.types import I32, Value, load_elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.asynchronous import Place, stage_address
from tilewright.dialects import gpu
from tilewright.layouts.wgmma_partition import WgmmaPartition
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread

_MOST_WORDS = 16
"""Registers of an operand that are read together; as many are in flight."""
_SPARE = 12
"""Registers that larger portions are to leave."""


class RegisterOperand:
    """The operand of one MMA that passes through registers, read block by block.

    What is read has arrived when the MMA that takes it is started, and so before the thread arrives at
    any barrier after that: copies that overwrite the stage after it need no fence.
    """

    def __init__(self, gen: KernelCodegen, op: gpu.WgmmaOp, partition: WgmmaPartition) -> None:
        self.gen, self.partition = gen, partition
        first = partition.instruction.through == "a"
        buffer, slot = (op.lhs, op.lhs_stage) if first else (op.rhs, op.rhs_stage)
        self.shared = gpu.shared_layout_of(buffer)
        self.k_dim = 1 if first else 0
        self.deep = self.shared.columns if first else self.shared.rows
        layout = partition.operand(self.deep)
        self.place = Place(gen, stage_address(gen, buffer, slot), layout, self.shared)

    def portions(self, steps: list[int]) -> list[list[int]]:
        """Steps of k in portions that are read together: where they can be an even number, so that two sets
        of registers alternate, also from one tile to the next; a single step is one."""
        most = _MOST_WORDS // (4 * self.partition.blocks)
        registers = max_registers_per_thread(self.gen.warps + self.gen.producer_warps)
        most = max(1, min(most, self.partition.k_steps_per_batch(registers - _SPARE)))
        if len(steps) == 1:
            return [steps]
        count = 2 * -(-len(steps) // (2 * most))
        ends = [len(steps) * i // count for i in range(count + 1)]
        return [steps[a:b] for a, b in pairwise(ends) if a < b]

    def words(self, places: list[tuple[int, int]]) -> list[Value]:
        """Four words for each 64 rows and 8 elements of k (PTX ISA, fragment of matrix A of m64k8)."""
        read: dict[tuple[int, int], Value] = {}
        found: list[Value] = []
        for row, k in places:
            for further in (0, 4):
                for high in (0, 8):
                    at = self.partition.row_place(row + high), k + further
                    if at not in read:
                        self._read(read, *at)
                    found.append(read[at])
        return found

    def _read(self, read: dict[tuple[int, int], Value], row: int, k: int) -> None:
        """All neighbours that one access gets, from the one at `row` on, a multiple of their number."""
        b, count = self.gen.builder, self.partition.at_once
        first = row - row % count
        address = self.place.address((first, k) if self.k_dim else (k, first))
        pointer = b.inttoptr(address, self.gen.shared_pointer)
        for i, word in enumerate(load_elements(b, pointer, I32, count, 4 * count)):
            read[first + i, k] = word
