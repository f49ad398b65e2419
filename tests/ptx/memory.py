"""Memory as the hardware has it: global arrays, and shared memory that knows who wrote what, and when."""

import numpy as np
from tests.ptx.values import Fault

GLOBAL, LOCAL = 1 << 40, 1 << 45
_GAP = 512


class Global:
    """Arrays side by side, none at its neighbour: whatever is outside of all is a fault."""

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

    def take(self, index, arrays):
        """What the arrays hold now."""
        start = self.places[index] - GLOBAL
        array = arrays[index]
        raw = self.bytes[start : start + array.nbytes].tobytes()
        return np.frombuffer(raw, array.dtype).reshape(array.shape).copy()

    def _cells(self, addresses, size):
        addresses = addresses.astype(np.int64)
        if (addresses % size).any():
            raise Fault(f"global address {addresses[addresses % size != 0][0]:#x} for {size} bytes")
        cells = (addresses - GLOBAL)[:, None] + np.arange(size)
        if (cells < 0).any() or (cells >= len(self.bytes)).any() or not self.inside[cells].all():
            raise Fault("a global access outside of all arrays")
        return cells

    def read(self, addresses, size, _threads=None):
        return self.bytes[self._cells(addresses, size)]

    def write(self, addresses, data, _threads=None):
        self.bytes[self._cells(addresses, data.shape[1])] = data


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
    threads write asynchronous readers see only after the writer's fence and a barrier."""

    def __init__(self, size, start):
        self.start, self.bytes = start, np.zeros(size, np.uint8)
        self.written = np.zeros(size, bool)
        self.flying = np.zeros(size, bool)
        self.writer = np.full(size, -1, np.int32)
        self.when = np.full(size, -1, np.int32)
        self.reader = np.full(size, -1, np.int32)
        """Thread, or -2 for several."""
        self.seen = np.full(size, -1, np.int32)
        self.fenced = np.ones(size, bool)
        self.epoch = np.int32(0)

    def cells(self, addresses, size, aligned=None):
        addresses = addresses.astype(np.int64)
        if (addresses % (aligned or size)).any():
            raise Fault(f"shared address {addresses} is no multiple of {aligned or size}")
        cells = (addresses - self.start)[:, None] + np.arange(size)
        if (cells < 0).any() or (cells >= len(self.bytes)).any():
            raise Fault("a shared access outside of what the launch asks for")
        return cells

    def read(self, addresses, size, threads, aligned=None):
        cells = self.cells(addresses, size, aligned)
        if not self.written[cells].all():
            raise Fault("shared memory is read that nothing was written to")
        if self.flying[cells].any():
            raise Fault("shared memory is read that a copy under way writes")
        mine = np.broadcast_to(threads[:, None], cells.shape)
        if ((self.when[cells] == self.epoch) & (self.writer[cells] != mine)).any():
            raise Fault("what another thread wrote is read without a barrier in between")
        again = self.seen[cells] == self.epoch
        other = again & (self.reader[cells] != mine)
        self.reader[cells] = np.where(other, -2, mine)
        flat = cells.ravel()
        if len(np.unique(flat)) != len(flat):  # several threads at once
            order = np.argsort(flat, kind="stable")
            same = flat[order][1:] == flat[order][:-1]
            differ = mine.ravel()[order][1:] != mine.ravel()[order][:-1]
            self.reader[flat[order][1:][same & differ]] = -2
        self.seen[cells] = self.epoch
        return self.bytes[cells]

    def write(self, addresses, data, threads, aligned=None):
        cells = self.cells(addresses, data.shape[1], aligned)
        mine = np.broadcast_to(threads[:, None], cells.shape)
        self._claim(cells, mine, data)
        self.bytes[cells] = data
        if (self.bytes[cells] != data).any():
            raise Fault("threads write different values to one place")
        self.written[cells], self.fenced[cells] = True, False
        self.writer[cells], self.when[cells] = mine, self.epoch

    def _claim(self, cells, mine, data=None):
        """Nobody else may still be at what is overwritten."""
        if self.flying[cells].any():
            raise Fault("shared memory is written that a copy under way writes")
        if ((self.seen[cells] == self.epoch) & (self.reader[cells] != mine)).any():
            raise Fault("what another thread may still read is overwritten without a barrier")
        twice = (self.when[cells] == self.epoch) & (self.writer[cells] != mine)
        if data is not None:
            twice &= self.bytes[cells] != data
        if twice.any():
            raise Fault("threads write to one place without a barrier in between")

    def launch(self, cells, mine):
        """A copy under way writes there from now on."""
        self._claim(cells, mine)
        self.flying[cells] = True

    def land(self, cells, data, writer, fenced):
        """It has arrived: for `writer`, or with -1 for everybody."""
        self.bytes[cells], self.written[cells], self.flying[cells] = data, True, False
        self.fenced[cells] = fenced
        self.writer[cells] = writer
        self.when[cells] = self.epoch if writer >= 0 else -1

    def read_asynchronously(self, cells):
        """As `wgmma` and bulk copies do."""
        if not self.written[cells].all() or self.flying[cells].any():
            raise Fault("asynchronous reads of shared memory that is not there yet")
        if not self.fenced[cells].all():
            raise Fault("asynchronous reads of what threads wrote: a fence.proxy.async is missing")
        if (self.when[cells] == self.epoch).any():
            raise Fault("asynchronous reads of what threads wrote without a barrier in between")
        return self.bytes[cells]

    def fence(self, threads):
        self.fenced[np.isin(self.writer, threads)] = True

    def barrier(self):
        self.epoch += np.int32(1)
