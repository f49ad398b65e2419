"""Memory as the hardware has it, that knows who wrote what, and who may know of that."""

import numpy as np
from tests.ptx.clocks import Cells
from tests.ptx.values import Fault

GLOBAL, LOCAL = 1 << 40, 1 << 45
_GAP = 512


class Global:
    """Arrays side by side, none at its neighbour: whatever is outside of all is a fault.

    Of threads of one block (`block`), too, accesses to one place that nothing orders.
    """

    def __init__(self, arrays):
        self.places, starts, size = [], [], _GAP
        for array in arrays:
            starts.append(size)
            self.places.append(GLOBAL + size)
            size += -(-array.nbytes // 256) * 256 + _GAP
        self.bytes = np.zeros(size, np.uint8)
        self.inside = np.zeros(size, bool)
        for start, array in zip(starts, arrays, strict=True):
            self.bytes[start : start + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
            self.inside[start : start + array.nbytes] = True
        self.maps = {}
        """Address -> tensor map that a program has made."""
        self.prefetched = []
        """(program, address, bytes) of prefetches into L2."""
        self.block(None)

    def block(self, clocks):
        """Another block begins: what the others did is over."""
        size = len(self.bytes)
        self.cells = Cells(size if clocks is not None else 0, clocks or _nobody(), in_step=True)
        self.in_boxes = np.zeros(size, bool)
        """What boxes were copied from or to."""
        self.fenced = np.zeros(size, bool)
        """What was written by threads before their fence."""

    def take(self, index, arrays):
        """What the arrays hold now."""
        start = self.places[index] - GLOBAL
        array = arrays[index]
        raw = self.bytes[start : start + array.nbytes].tobytes()
        return np.frombuffer(raw, array.dtype).reshape(array.shape).copy()

    def at(self, addresses, size):
        addresses = addresses.astype(np.int64)
        if (addresses % size).any():
            raise Fault(f"global address {addresses[addresses % size != 0][0]:#x} for {size} bytes")
        cells = (addresses - GLOBAL)[:, None] + np.arange(size)
        if (cells < 0).any() or (cells >= len(self.bytes)).any() or not self.inside[cells].all():
            raise Fault("a global access outside of all arrays")
        return cells

    def granules(self, addresses, size):
        """Check that some byte of each `size` bytes is in an array."""
        cells = (addresses.astype(np.int64) - GLOBAL)[:, None] + np.arange(size)
        if (cells < 0).any() or (cells >= len(self.bytes)).any():
            raise Fault("a prefetch outside of all arrays")
        if not self.inside[cells].any(axis=1).all():
            raise Fault("a prefetch outside of all arrays")

    def read(self, addresses, size, threads, atomic=False):
        cells = self.at(addresses, size)
        seen = self.cells.seen_by(cells, threads)
        if atomic:
            seen |= self.cells.atomic[cells]
        if not seen.all():
            raise Fault("what another thread wrote to memory is read without a barrier in between")
        if not atomic:
            self.cells.note_reads(cells, threads)
        return self.bytes[cells]

    def write(self, addresses, data, threads, atomic=False):
        cells = self.at(addresses, data.shape[1])
        if self.in_boxes[cells].any():
            raise Fault("memory is written that boxes are copied from or to")
        if self.cells.read_by_others(cells, threads).any():
            raise Fault("memory that others may still read is overwritten without a barrier")
        twice = ~self.cells.seen_by(cells, threads)
        twice &= ~self.cells.atomic[cells] if atomic else self.bytes[cells] != data
        if twice.any():
            raise Fault("threads write to one place in memory without a barrier in between")
        self.bytes[cells], self.fenced[cells] = data, False
        if not atomic and (self.bytes[cells] != data).any():
            raise Fault("threads write different values to one place in memory")
        self.cells.note_writes(cells, threads, atomic)

    def fence(self, threads):
        """What these threads have accessed comes before boxes that are copied from now on, and the other way round."""
        self.fenced[np.isin(self.cells.writer, threads + 1)] = True
        self.in_boxes[:] = False

    def read_box(self, cells):
        """Boxes are read past what threads write, whatever barriers there are."""
        if (self.cells.when[cells].astype(bool) & ~self.fenced[cells]).any():
            raise Fault("a box is copied from what the block has written")
        self.in_boxes[cells] = True
        return self.bytes[cells]

    def write_box(self, cells, data):
        if self.cells.when[cells].any() or self.cells.read_at[:, cells].any():
            raise Fault("a box is stored to what the block accesses in other ways")
        self.in_boxes[cells] = True
        self.bytes[cells] = data


def _nobody():
    from tests.ptx.clocks import Clocks

    return Clocks(0)


class Local:
    """Memory of each thread's own."""

    def __init__(self, threads, size=1024):
        self.bytes = np.zeros((threads, size), np.uint8)

    def read(self, addresses, size, threads):
        return self.bytes[threads[:, None], self._cells(addresses, size)]

    def write(self, addresses, data, threads):
        self.bytes[threads[:, None], self._cells(addresses, data.shape[1])] = data

    def _cells(self, addresses, size):
        cells = (addresses.astype(np.int64) - LOCAL)[:, None] + np.arange(size)
        if (cells < 0).any() or (cells >= self.bytes.shape[1]).any():
            raise Fault("local memory outside of what the kernel declares")
        return cells


class Shared:
    """Bytes of a block. What one thread writes another may read, or overwrite, only after a barrier; what
    threads write asynchronous readers see only after the writer's fence and a barrier; what those read may
    be overwritten once they have been waited for, and a barrier later by others."""

    def __init__(self, size, start, clocks):
        self.start, self.bytes = start, np.zeros(size, np.uint8)
        self.cells = Cells(size, clocks)
        self.written = np.zeros(size, bool)
        self.flying = np.zeros(size, bool)
        """What copies in flight write."""
        self.busy = np.zeros(size, np.int16)
        """How many products or stores of boxes in flight read it."""
        self.fenced = np.ones(size, bool)
        self.barriers = {}
        """Address of a memory barrier -> its state (`together`)."""

    def at(self, addresses, size, aligned=None):
        addresses = addresses.astype(np.int64)
        if (addresses % (aligned or size)).any():
            raise Fault(f"shared address {addresses} is not a multiple of {aligned or size}")
        cells = (addresses - self.start)[:, None] + np.arange(size)
        if (cells < 0).any() or (cells >= len(self.bytes)).any():
            raise Fault("a shared access outside of what the launch asks for")
        return cells

    def read(self, addresses, size, threads, aligned=None, atomic=False, used=None):
        whole = self.at(addresses, size, aligned)
        cells = whole if used is None else whole[:, used]
        if not self.written[cells].all():
            raise Fault("shared memory is read that nothing was written to")
        if self.flying[cells].any():
            raise Fault("shared memory is read that a copy in flight writes")
        seen = self.cells.seen_by(cells, threads)
        if not (seen | self.cells.atomic[cells] if atomic else seen).all():
            raise Fault("what another thread wrote is read without a barrier in between")
        if not atomic:
            self.cells.note_reads(cells, threads)
        return self.bytes[whole]

    def write(self, addresses, data, threads, aligned=None, atomic=False):
        cells = self.at(addresses, data.shape[1], aligned)
        self._claim(cells, threads, data, atomic)
        self.bytes[cells] = data
        if (self.bytes[cells] != data).any():
            raise Fault("threads write different values to one place")
        self.written[cells], self.fenced[cells] = True, False
        self.cells.note_writes(cells, threads, atomic)

    def _claim(self, cells, threads, data=None, atomic=False):
        """Nobody else may still be at what is overwritten."""
        if self.flying[cells].any():
            raise Fault("shared memory is written that a copy in flight writes")
        if self.busy[cells].any():
            raise Fault("shared memory is written that a product or a store in flight reads")
        if self.cells.read_by_others(cells, threads).any():
            raise Fault("what another thread may still read is overwritten without a barrier")
        twice = ~self.cells.seen_by(cells, threads)
        if atomic:
            twice &= ~self.cells.atomic[cells]
        elif data is not None:
            twice &= self.bytes[cells] != data
        if twice.any():
            raise Fault("threads write to one place without a barrier in between")
        low, high = cells.min() + self.start, cells.max() + self.start
        for address in [a for a in self.barriers if low - 8 < a <= high]:
            if np.isin(np.arange(address, address + 8) - self.start, cells).any():
                raise Fault("data is written over a memory barrier that nobody invalidated")

    def launch(self, cells, threads):
        """A copy in flight writes there from now on, started by these threads (one for each row)."""
        self._claim(cells, threads)
        self.flying[cells] = True

    def land(self, cells, data, writer):
        """It has arrived: copied by a thread, or by hardware (-1)."""
        self.bytes[cells], self.written[cells], self.flying[cells] = data, True, False
        self.fenced[cells] = writer < 0
        if writer < 0:
            self.cells.note_copied(cells)
        else:
            self.cells.note_writes(cells.reshape(1, -1), np.array([writer]))

    def begin_reading(self, cells, warps):
        """As `wgmma` and bulk copies do, for `warps`, until `end_reading`."""
        if not self.written[cells].all() or self.flying[cells].any():
            raise Fault("asynchronous reads of shared memory that is not there yet")
        if not self.fenced[cells].all():
            raise Fault("asynchronous reads of what threads wrote: a fence.proxy.async is missing")
        if not self.cells.seen_by_warps(cells.ravel(), warps).all():
            raise Fault("asynchronous reads of what threads wrote without a barrier in between")
        np.add.at(self.busy, cells, 1)  # both operands may be one buffer
        return self.bytes[cells]

    def end_reading(self, cells, warps):
        """`warps` have waited for it."""
        np.subtract.at(self.busy, cells, 1)
        self.cells.note_reads_of_warps(cells.ravel(), warps)

    def fence(self, threads):
        self.fenced[np.isin(self.cells.writer, threads + 1)] = True
