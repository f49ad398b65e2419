"""Registers and shared memory of products in flight (PTX ISA, `wgmma.mma_async`, `wgmma.fence`).

Until a `wgmma.wait_group` covers a product, its sums may be used by further products alone, the registers of
its left operand may not be written, nor the shared memory that it reads. What ordinary instructions write to
such registers needs a `wgmma.fence` before the next product. A move of a register to another is none: the
assembler gives both one register, so the copy is in flight as well.
"""

import re

import numpy as np
from tests.ptx.values import Fault

_REGISTER = re.compile(r"%[rf][a-z]?\d+")
_NO_RESULT = ("st", "red", "bar", "mbarrier", "cp", "stmatrix", "prefetch", "fence", "bra")


def _moves(op):
    """(target, source) of a move from register to register."""
    if op.name != "mov" or not all(_REGISTER.fullmatch(o) for o in op.operands):
        return None
    return op.operands


class Products:
    """What a block's threads have started, closed as groups, and waited for."""

    def __init__(self, machine):
        self.machine = machine
        self.any = any(op.name == "wgmma" for op in machine.code)
        shape = machine.threads
        self.committed = np.zeros(shape, np.int32)
        self.done = np.zeros(shape, np.int32)
        self.fences = np.zeros(shape, np.int32)
        self.sums, self.left, self.written = {}, {}, {}
        """Register -> the group of a product that has it as a sum, or an operand; how many fences there
        were when it was written; of each thread."""
        self.reading = []
        """Shared memory that products read: (group of threads, number of the group, cells)."""

    def _none(self):
        return np.zeros(self.machine.threads, np.int32)

    def wrote(self, name, mask):
        """An instruction writes a register."""
        if not self.any:
            return
        for held, what in ((self.sums, "sum"), (self.left, "operand")):
            if name in held and (held[name] > self.done)[mask].any():
                raise Fault(f"{name} is written, the {what} of a product in flight")
        written = self.written.setdefault(name, self._none() - 1)
        written[mask] = self.fences[mask]

    def check_reads(self, op, mask):
        """No instruction but a move reads sums in flight."""
        if not self.any or not self.sums or op.name == "wgmma" or _moves(op):
            return
        operands = op.operands if op.name in _NO_RESULT else op.operands[1:]
        for name in _REGISTER.findall(" ".join(operands)):
            if name in self.sums and (self.sums[name] > self.done)[mask].any():
                raise Fault(f"{name} is read, a sum of a product in flight: no wgmma.wait_group")

    def moved(self, op, mask):
        """What a move copies is what it was."""
        found = _moves(op) if self.any else None
        if found is None:
            return
        target, source = found
        for held in (self.sums, self.written):
            if source in held or target in held:
                given = held.get(source)
                start = self._none() if held is self.sums else self._none() - 1
                held.setdefault(target, start)[mask] = (start if given is None else given)[mask]

    def start(self, sums, left, cells, threads):
        """A product of a group of threads reads cells of shared memory, and registers."""
        number = self.committed[threads] + 1
        for name in (*sums, *left):
            under_way = name in self.sums and (self.sums[name] > self.done)[threads].any()
            if under_way and name in left:
                raise Fault(f"{name} is an operand, and a sum of a product in flight")
            fresh = self.written.get(name)
            if not under_way and fresh is not None and (fresh >= self.fences)[threads].any():
                raise Fault(f"{name} was written by another instruction: no wgmma.fence since")
        for name in left:
            self.left.setdefault(name, self._none())[threads] = number
        for name in sums:
            self.sums.setdefault(name, self._none())[threads] = number
            self.written.setdefault(name, self._none() - 1)[threads] = -1
        if not self.fences[threads].all():
            raise Fault("a product before any wgmma.fence")
        self.reading.append((threads, int(number[0]), cells))

    def fence(self, mask):
        self.fences[mask] += 1

    def commit(self, mask):
        self.committed[mask] += 1

    def wait(self, pending, mask):
        """At most so many groups are in flight from here on."""
        self.done[mask] = np.maximum(self.done[mask], self.committed[mask] - pending)
        shared, left = self.machine.shared, []
        for threads, number, cells in self.reading:
            if self.done[threads[0]] >= number:
                shared.end_reading(cells, np.unique(threads // 32))
            else:
                left.append((threads, number, cells))
        self.reading = left

    def finish(self):
        if self.reading:
            raise Fault("the block ends while products are in flight")
