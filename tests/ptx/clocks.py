"""Who knows of what: races between the threads of a block, whatever order they happen to run in.

Each warp counts the times that it lets others know what it has done (barriers, arrivals at memory barriers);
what one knows of the others it gets from them there. An access is stamped with its warp's count: another may
meet it once it knows of that. (Lamport's happens-before with vector clocks; lanes of one warp meet at barriers
as warps do.) One more "warp" is the hardware that copies boxes.
"""

import numpy as np

SEVERAL = -2


class Clocks:
    """What warps know of each other: `known[a, b]`, the last count of `b` that `a` has heard of."""

    def __init__(self, warps):
        self.hardware = warps
        self.known = np.zeros((warps + 1, warps + 1), np.int32)

    def now(self, warps):
        """The stamp of what these do now."""
        return self.known[warps, warps] + 1

    def meet(self, warps):
        """A barrier of all of them."""
        self.known[warps, warps] += 1
        self.known[warps] = self.known[warps].max(0)

    def give(self, warp):
        """What others learn that this one arrives at a memory barrier for."""
        self.known[warp, warp] += 1
        return self.known[warp].copy()

    def take(self, warp, given):
        self.known[warp] = np.maximum(self.known[warp], given)


class Cells:
    """The last write to each byte, and the last reads of each warp. With `in_step` lanes of one warp that
    hold copies of one element have it in the order of the text, in which the hardware takes their accesses."""

    def __init__(self, size, clocks, in_step=False):
        self.clocks, self.in_step = clocks, in_step
        self.writer = np.zeros(size, np.int16)
        """Thread + 1; SEVERAL: copied by hardware."""
        self.by = np.zeros(size, np.int16)
        self.when = np.zeros(size, np.int32)
        self.atomic = np.zeros(size, bool)
        self.read_at = np.zeros((len(clocks.known), size), np.int32)
        self.reader = np.zeros((len(clocks.known), size), np.int16)
        """Thread + 1, or SEVERAL."""

    def seen_by(self, cells, threads):
        """Whether these threads, one for each row of cells, know of the last writes."""
        known = self.clocks.known[threads[:, None] // 32, self.by[cells]]
        own = self.by[cells] == threads[:, None] // 32 if self.in_step else False
        return own | (self.writer[cells] == threads[:, None] + 1) | (self.when[cells] <= known)

    def seen_by_warps(self, cells, warps):
        """Whether all lanes of these warps know of the last writes."""
        return (self.when[cells][None] <= self.clocks.known[warps][:, self.by[cells]]).all(0)

    def read_by_others(self, cells, threads):
        """Whether others may still read what these threads are about to write."""
        warps = threads // 32
        found = np.zeros(cells.shape, bool)
        for w in range(len(self.read_at)):
            at = self.read_at[w][cells]
            late = at > self.clocks.known[warps, w][:, None]
            if self.in_step:
                late &= warps[:, None] != w
            found |= late & (self.reader[w][cells] != threads[:, None] + 1)
        return found

    def note_reads(self, cells, threads):
        """Rows of cells are read, each by its thread."""
        warps = np.broadcast_to((threads // 32)[:, None], cells.shape)
        mine = np.broadcast_to(threads[:, None] + 1, cells.shape).astype(np.int16)
        stamp = self.clocks.now(warps)
        before = self.reader[warps, cells]
        again = (self.read_at[warps, cells] == stamp) & (before != mine)
        self.reader[warps, cells] = np.where(again, SEVERAL, mine)
        lost = self.reader[warps, cells] != mine  # several of them read one cell
        self.reader[warps[lost], cells[lost]] = SEVERAL
        self.read_at[warps, cells] = stamp

    def note_reads_of_warps(self, cells, warps):
        """All cells are read by whole warps."""
        for w in warps:
            self.read_at[w, cells], self.reader[w, cells] = self.clocks.now(w), SEVERAL

    def note_writes(self, cells, threads, atomic=False):
        warps = (threads // 32)[:, None]
        self.writer[cells], self.by[cells] = threads[:, None] + 1, warps
        self.when[cells], self.atomic[cells] = self.clocks.now(warps), atomic

    def note_copied(self, cells):
        """Hardware has written them."""
        hardware = self.clocks.hardware
        self.writer[cells], self.by[cells] = SEVERAL, hardware
        self.when[cells], self.atomic[cells] = self.clocks.now(hardware), False
