"""Memory, barriers, and what warps do together."""

import re
from dataclasses import dataclass

import numpy as np
from tests.ptx import matrix, tensor_maps
from tests.ptx.scalar import OPERATIONS
from tests.ptx.values import Fault, immediate, seen, swizzled

PARAMETERS = 1 << 50
_RANK = 24
"""Bits of a shared address below the number of the CTA (plus 1) that it is in."""
_POLICY = np.uint64(0x14F0_0000_0000_0000)
"""What `createpolicy` gives: any number that nothing else does."""
_ATOMIC = {"volatile", "relaxed", "acquire", "release"}
"""Accesses that may meet others of their kind without a barrier."""


def parameter_address(machine, name):
    return PARAMETERS + machine.parameters.index(name)


def names_of(text):
    return [part.strip() for part in text.strip("{}").split(",")]


@dataclass(eq=False)
class Barrier:
    """A memory barrier: arrivals of a phase, how many and how many bytes are missing, and the phase."""

    arrivals: int
    missing: int
    initialised: tuple[int, int]
    """The warp that did, and its count."""
    bytes: int = 0
    phase: int = 0
    arriving: np.ndarray | int = 0
    """What those know that have arrived."""
    ended: np.ndarray | int = 0
    """What those knew that ended the phase before."""
    announced: int = 0
    """To a cluster: 1 after a fence of its initialization, 2 once that thread has arrived at the cluster's barrier,
    3 for those that have waited there."""


@dataclass(eq=False)
class BoxStore:
    """A box on its way from shared memory."""

    thread: int
    cells: np.ndarray
    places: np.ndarray
    inside: np.ndarray
    group: int = 0
    data: np.ndarray | None = None
    """Once it has been read."""


class Together:
    """State of a block beyond its threads' registers."""

    def __init__(self, machine):
        self.machine = machine
        self.arrived, self.expected = {}, {}
        """Barrier -> the threads that have come to it, and how many it waits for."""
        self.barriers = machine.shared.barriers
        self.boxes = []
        """Copies of boxes, and values sent to CTAs, in flight: (barrier, cells, data, what the sender knew)."""
        self.open, self.groups = [], []
        """Copies of threads: of no group yet, and groups, each with its threads."""
        self.cluster_barriers = 0
        self.reached = {}
        """(Warp, CTA) -> when it was last at that other CTA's memory."""
        self.arrivals = {}
        """Warp -> what it knew when it arrived at the cluster's barrier."""
        self.stores = []
        self.maps = tensor_maps.Maker(self)
        """Boxes being stored: `BoxStore`."""

    # ---- memory ----

    def load(self, op, mask, _place):
        m, (target, source) = self.machine, self._without_policy(op, mask)
        if op.mods[0] == "param":
            m.write(target, self._parameters(source.strip("[]")), mask)
            return
        names, size = names_of(target), int(op.mods[-1][1:]) // 8
        where = self._space(op)
        who = np.flatnonzero(mask)
        more = {"atomic": True} if _ATOMIC & set(op.mods) else {}
        if op.used is not None and where is m.shared:
            more["used"] = op.used
        raw = where.read(self._addresses(op, source, who), size * len(names), who, **more)
        for i, name in enumerate(names):
            part = np.ascontiguousarray(raw[:, i * size : (i + 1) * size]).view(f"u{size}")[:, 0]
            if op.mods[-1][0] == "s":
                part = part.view(f"i{size}").astype(np.int64).view(np.uint64)
            bits = np.zeros(m.threads, np.uint64)
            bits[mask] = part.astype(np.uint64)
            m.write(name, bits, mask)

    def _parameters(self, place):
        """Of each thread the parameter that it loads: by name, or by an address, which threads may have selected."""
        m = self.machine
        if place in m.arguments:
            return np.full(m.threads, m.arguments[place], np.uint64)
        by_address = {parameter_address(m, name): value for name, value in m.arguments.items()}
        return np.array([by_address.get(int(at), 0) for at in m.read(place)], np.uint64)

    def _without_policy(self, op, mask):
        """The operands of an access but for its policy, which has to be one that `createpolicy` made."""
        if not any("cache_hint" in mod for mod in op.mods):
            return op.operands
        *operands, policy = op.operands
        if not (self.machine.read(policy)[mask] == _POLICY).all():
            raise Fault(f"{policy} is no policy")
        return operands

    def createpolicy(self, op, mask, _place):
        m = self.machine
        m.write(op.operands[0], np.full(m.threads, _POLICY, np.uint64), mask)

    def store(self, op, mask, _place):
        if op.mods[0] == "async":
            self._send(op, np.flatnonzero(mask))
            return
        m, (target, source) = self.machine, self._without_policy(op, mask)
        names, size = names_of(source), int(op.mods[-1][1:]) // 8
        parts = [m.read(n)[mask].astype(f"u{size}")[:, None].view(np.uint8) for n in names]
        data = np.concatenate(parts, axis=1)
        more = {"atomic": True} if _ATOMIC & set(op.mods) else {}
        who = np.flatnonzero(mask)
        self._space(op).write(self._addresses(op, target, who), data, who, **more)

    def _send(self, op, who):
        """`st.async`: values in flight to a CTA of the cluster, which count bytes at a barrier there."""
        m, (target, source, barrier) = self.machine, op.operands
        names, size = names_of(source), int(op.mods[-1][1:]) // 8
        parts = [m.read(n)[who].astype(f"u{size}")[:, None].view(np.uint8) for n in names]
        data, counters = np.concatenate(parts, axis=1), self._addresses(op, barrier, who)
        cells = m.shared.at(self._addresses(op, target, who), size * len(names))
        if (
            cells[:, 0] // m.shared_pitch
            != (counters - np.uint64(m.shared.start)) // np.uint64(m.shared_pitch)
        ).any():
            raise Fault("bytes are counted in another CTA than they are written to")
        m.shared.launch(cells, who)
        for thread, counter, row, values in zip(who, counters, cells, data, strict=True):
            self._barrier(counter, thread)
            self.boxes.append((int(counter), row, values, m.clocks.give(thread // 32)))

    def _space(self, op):
        m = self.machine
        spaces = {"global": m.memory, "shared": m.shared, "local": m.local}
        if "shared::cluster" in op.mods:
            return m.shared
        found = [space for name, space in spaces.items() if name in op.mods]
        if not found:
            raise Fault(f"memory of kind {op.mods[0]}")
        return found[0]

    def _addresses(self, op, text, who):
        """What these threads access: in shared memory, where their CTA's part of the cluster's is, or that of
        the CTA that `mapa` has put into the address."""
        m = self.machine
        addresses, spaces = m.address(text)[who], {"shared", "shared::cta", "shared::cluster"}
        if not spaces & set(op.mods) or m.plan.cluster_size == 1:
            return addresses
        mine = who // m.plan.threads
        named = (addresses >> np.uint64(_RANK)).astype(np.int64) - 1
        rank = np.where(named < 0, mine, named)
        if "shared::cluster" not in op.mods and (named >= 0).any():
            raise Fault("an address of the cluster as one of the CTA")
        inside = (addresses & np.uint64((1 << _RANK) - 1)).astype(np.int64) - m.shared.start
        if (inside < 0).any() or (inside >= m.plan.shared_bytes).any():
            raise Fault("a shared access outside of what the launch asks for")
        if (rank != mine).any():
            self._reachable(op, who, rank)
        return (m.shared.start + rank * m.shared_pitch + inside).astype(np.uint64)

    def _reachable(self, op, who, ranks):
        """Another CTA's memory is there once that CTA has begun, as a barrier of the cluster says, and until
        it ends (`_outlived`); what is sent asynchronously it waits for itself (`finish`)."""
        if not self.cluster_barriers:
            raise Fault("another block's memory, which may not have begun")
        if "async" in op.mods:
            return
        for warp, rank in {*zip((who // 32).tolist(), ranks.tolist(), strict=True)}:
            self.reached[warp, rank] = self.machine.clocks.now(warp)

    def atom(self, op, mask, _place):
        """Thread by thread; `red` may hold a vector, whose elements are atomic one by one."""
        m = self.machine
        returns = op.name == "atom"
        target, *rest = op.operands if returns else ["_", *op.operands]
        where, *sources = rest
        mods = [x for x in op.mods if x not in ("noftz", "v2", "v4", "v8")]
        fn, kind = mods[-2:]
        pairs, kind = kind.endswith("x2"), kind.removesuffix("x2")
        size = int(re.sub(r"\D", "", kind)) // 8
        vector = not returns and sources[0].startswith("{")
        if vector and op.mods[-1] not in ("f32", "f16", "f16x2", "bf16", "bf16x2"):
            raise Fault(f"{op.text}: there are no vectors of this type")
        sources = names_of(sources[0]) if vector else sources
        addresses, values = m.address(where), [m.read(s) for s in sources]
        if pairs:
            values = [v >> np.uint64(s) & np.uint64(0xFFFF) for v in values for s in (0, 16)]
        count = len(values) if vector or pairs else 1
        old = np.zeros(m.threads, np.uint64)
        shared = {"shared", "shared::cluster"} & set(op.mods)
        space = self._space(op) if shared else m.memory
        if shared:
            addresses[mask] = self._addresses(op, where, np.flatnonzero(mask))
        for t in np.flatnonzero(mask):
            at, who = addresses[t : t + 1], np.array([t])
            raw = np.ascontiguousarray(space.read(at, size * count, who, atomic=True)[0])
            before = raw.view(f"u{size}").astype(np.uint64)
            old[t] = before[0]
            given = [v[t : t + 1] for v in values]
            if count > 1:
                after = [
                    self._combined(fn, kind, x, [y])
                    for x, y in zip(before[:, None], given, strict=True)
                ]
                after = np.concatenate(after)
            else:
                after = self._combined(fn, kind, before, given)
            space.write(at, after.astype(f"u{size}").view(np.uint8)[None], who, atomic=True)
        if returns:
            m.write(target, old, mask)

    @staticmethod
    def _combined(fn, kind, before, given):
        if fn in ("exch",):
            return given[0]
        if fn == "cas":
            return (
                given[1]
                if before[0] == (given[0] & np.uint64((1 << int(kind[1:])) - 1))[0]
                else before
            )
        kind = kind.replace("b", "u") if kind[0] == "b" and kind[1:].isdigit() else kind
        return OPERATIONS[fn]((kind,), before, given[0])

    # ---- barriers ----

    def bar(self, op, mask, place):
        m = self.machine
        if "warp" in op.mods:
            m.clocks.known[np.arange(m.clocks.hardware), np.arange(m.clocks.hardware)] += mask[::32]
            return
        numbers, ranks = m.read(op.operands[0]), m.index // m.plan.threads
        counts = np.full(m.threads, m.plan.threads)
        if len(op.operands) > 1:
            counts = m.read(op.operands[1]).astype(np.int64)
        for rank, number in {*zip(ranks[mask].tolist(), numbers[mask].tolist(), strict=True)}:
            here = mask & (ranks == rank) & (numbers == number)
            for count in np.unique(counts[here]):
                self._meet(f"{number} of {rank}", int(count), here & (counts == count))

    def _meet(self, number, count, mask, meet=None):
        """Threads arrive at a barrier and wait; whether they were the last."""
        m = self.machine
        if self.expected.setdefault(number, count) != count:
            raise Fault("threads come to one barrier with different numbers of threads")
        here = self.arrived.setdefault(number, set())
        here.update(np.flatnonzero(mask).tolist())
        for t in np.flatnonzero(mask):
            m.waiting[int(t)] = f"bar {number}"
        if len(here) > count:
            raise Fault("more threads arrive than the barrier is for")
        if len(here) < count:
            return False
        for t in here:
            m.waiting.pop(t)
        (meet or m.clocks.meet)(np.unique(np.array(sorted(here)) // 32))
        here.clear()
        del self.expected[number]
        return True

    def barrier(self, op, mask, place):
        """Of a cluster: all threads of its CTAs arrive, and later wait. What a warp does in between is not
        released; nor is anything by a relaxed arrival."""
        m = self.machine
        if op.mods[:2] == ("cluster", "arrive"):
            for warp in np.unique(np.flatnonzero(mask) // 32):
                if warp in self.arrivals:
                    raise Fault("a second arrival at the cluster's barrier before waiting")
                relaxed = "relaxed" in op.mods
                for state in self.barriers.values():
                    state.announced += state.announced == 1 and state.initialised[0] == warp
                self.arrivals[warp] = 0 * m.clocks.known[warp] if relaxed else m.clocks.give(warp)
        elif op.mods[:2] == ("cluster", "wait"):
            if not set((np.flatnonzero(mask) // 32).tolist()) <= set(self.arrivals):
                raise Fault("a wait at the cluster's barrier before arriving")
            if self._meet("cluster", m.threads, mask, self._released):
                self._cluster_met()
        else:
            raise Fault("not known")

    def _cluster_met(self):
        self.arrivals.clear()
        self.cluster_barriers += 1

    def others_have_exited(self):
        """Release those that wait at the cluster's barrier if all other threads have exited: it is of the others alone
        (PTX ISA, "barrier.cluster"). Whether there were any."""
        m, here = self.machine, self.arrived.get("cluster")
        if not here or len(here) + (m.at >= len(m.code)).sum() < m.threads:
            return False
        self.expected["cluster"] = len(here)
        self._meet("cluster", len(here), np.isin(m.index, list(here)), self._released)
        self._cluster_met()
        return True

    def _released(self, warps):
        known = np.max(list(self.arrivals.values()), axis=0)
        for warp in warps:
            self.machine.clocks.take(warp, known)
        for state in self.barriers.values():
            state.announced += state.announced == 2

    def mapa(self, op, mask, _place):
        target, source, rank = op.operands
        ranks = self.machine.read(rank) & np.uint64(0xFFFFFFFF)
        if (ranks[mask] >= self.machine.plan.cluster_size).any():
            raise Fault("memory of a CTA that the cluster has not")
        named = self.machine.read(source) + (ranks + np.uint64(1) << np.uint64(_RANK))
        self.machine.write(target, named, mask)

    def mbarrier(self, op, mask, place):
        m = self.machine
        who = np.flatnonzero(mask)
        if op.mods[0] == "init":
            addresses, count = self._addresses(op, op.operands[0], who), immediate(op.operands[1])
            for t, address in zip(who, map(int, addresses), strict=True):
                if address % 8:
                    raise Fault("a barrier's address is not a multiple of 8")
                m.shared.at(np.array([address]), 8)
                if address in self.barriers:
                    raise Fault("a memory barrier is initialised where one is already")
                self.barriers[address] = Barrier(count, count, (t // 32, m.clocks.now(t // 32)))
        elif op.mods[0] == "arrive":
            for t, address in zip(who, self._addresses(op, op.operands[1], who), strict=True):
                state = self._barrier(address, t)
                state.missing -= 1
                state.bytes += immediate(op.operands[2]) if "expect_tx" in op.mods else 0
                state.arriving = np.maximum(state.arriving, m.clocks.give(t // 32))
                if state.missing < 0:
                    raise Fault("more arrivals than the barrier's phase has")
                self._turn(state)
        else:
            self._test(op, who)

    def _test(self, op, who):
        """Whether phases have ended; threads wait for those that have not."""
        m, (target, where, parity) = self.machine, op.operands
        addresses, wanted = self._addresses(op, where, who), m.read(parity)
        done, mask = np.zeros(m.threads, bool), np.isin(m.index, who)
        for t, address in zip(who, addresses, strict=True):
            state = self._barrier(address, t)
            self._land(int(address))
            done[t] = state.phase != int(wanted[t]) & 1
            if done[t]:
                m.clocks.take(t // 32, state.ended)
            else:
                m.waiting[int(t)] = f"mbarrier {int(address):#x}"
        m.write_predicate(target, done, mask)

    def _barrier(self, address, thread):
        state = self.barriers.get(int(address))
        if state is None:
            raise Fault(f"no barrier at {int(address):#x}, or something else is there by now")
        warp, count = state.initialised
        if state.announced == 3:
            return state
        if warp != thread // 32 and self.machine.clocks.known[thread // 32, warp] < count:
            raise Fault("a memory barrier that this thread does not know to be initialised")
        return state

    def _turn(self, state):
        if (
            state.missing == 0 and state.bytes < 0
        ):  # before the last arrival more may have come than is expected yet
            raise Fault("more bytes arrive than the barrier expects")
        if state.missing == 0 and state.bytes == 0:
            state.missing, state.phase = state.arrivals, state.phase ^ 1
            state.ended, state.arriving = state.arriving, 0
            for t in [t for t, why in self.machine.waiting.items() if why.startswith("mbarrier")]:
                self.machine.waiting.pop(t)

    def _land(self, barrier):
        m = self.machine
        for copy in [c for c in self.boxes if c[0] == barrier]:
            self.boxes.remove(copy)
            _, cells, data, given = copy
            m.shared.land(cells, data, -1)
            state = self.barriers[barrier]
            state.bytes -= data.size
            state.arriving = np.maximum(state.arriving, m.clocks.give(m.clocks.hardware))
            state.arriving = np.maximum(state.arriving, given)
            self._turn(state)

    def land_any(self):
        """Copies that were started after all had begun to wait for them arrive; whether there were any."""
        found = {barrier for barrier, *_ in self.boxes}
        for barrier in found:
            self._land(barrier)
        return bool(found)

    def fence(self, op, mask, _place):
        if op.mods[:2] == ("proxy", "tensormap::generic"):
            self.maps.acquire(op, mask)
        elif op.mods[:2] == ("proxy", "async"):
            self.machine.shared.fence(np.flatnonzero(mask))
            if "shared::cta" not in op.mods:
                self.machine.memory.fence(np.flatnonzero(mask))
        elif op.mods[0] == "mbarrier_init":
            for state in self.barriers.values():
                state.announced |= state.initialised[0] in np.flatnonzero(mask) // 32

    # ---- copies ----

    def cp(self, op, mask, place):
        rest = op.mods[1:]
        if rest[0] == "commit_group":
            self.groups.append((self.open, frozenset(np.flatnonzero(mask).tolist())))
            self.open = []
        elif rest[0] == "wait_group":
            self._wait_copies(int(immediate(op.operands[0])), mask)
        elif rest[0] == "bulk":
            self._bulk(op, mask)
        else:
            self._copy(op, mask)

    def _copy(self, op, mask):
        m = self.machine
        target, source, size, *amount = op.operands
        size = int(immediate(size))
        if size not in (4, 8, 16) or ("cg" in op.mods and size != 16):
            raise Fault(f"cp.async of {size} bytes")
        live = m.read(amount[0])[mask].astype(np.int64) if amount else np.full(mask.sum(), size)
        who = np.flatnonzero(mask)
        to, where = self._addresses(op, target, who), m.address(source)[mask]
        if (where.astype(np.int64) % size).any() or (live > size).any() or (live < 0).any():
            raise Fault("cp.async of what is not aligned, or of more than it has")
        data = np.zeros((len(to), size), np.uint8)
        for i, (address, count) in enumerate(zip(where, live, strict=True)):
            if count:
                places = address + np.arange(count).astype(np.uint64)
                data[i, :count] = m.memory.read(places, 1, np.full(count, who[i]))[:, 0]
        cells = m.shared.at(to, size)
        m.shared.launch(cells, who)
        self.open += [(int(t), cells[i], data[i]) for i, t in enumerate(who)]

    def _wait_copies(self, pending, mask):
        """Groups are those of each thread; all threads of these programs commit alike."""
        while len(self.groups) > pending:
            copies, _ = self.groups.pop(0)
            for thread, cells, data in copies:
                self.machine.shared.land(cells, data, thread)

    def _bulk(self, op, mask):
        m, rest = self.machine, op.mods[2:]
        if rest[0] == "prefetch":
            self._prefetch_bulk(op, mask)
            return
        if rest[0] == "commit_group":
            for store in self.stores:
                store.group += bool(mask[store.thread])
            return
        if rest[0] == "wait_group":
            pending = int(immediate(op.operands[0]))
            mine = [s for s in self.stores if mask[s.thread] and s.group > pending]
            self._finish_stores(mine, "read" in rest)
            return
        who = np.flatnonzero(mask)
        if len(np.unique(who // m.plan.threads)) < len(who):
            raise Fault(f"{len(who)} threads copy a box")
        for t in who:
            if rest[2] == "shared::cluster":
                self._load_box(op, rest[1], t)
            else:
                self._store_box(op, rest[1], t)

    def _load_box(self, op, rank, t):
        """To the thread's CTA or, with `.multicast::cluster`, to one place in each CTA that the mask names, counted
        at one barrier there."""
        m, (target, source, barrier, *ctas) = self.machine, op.operands
        box, corner = self._coordinates(source, t, rank)
        one, own = np.array([t]), t // m.plan.threads
        to, counter = (int(self._addresses(op, a, one)[0]) for a in (target, barrier))
        cells, places, inside = self._box(box, corner, to)
        data = np.zeros(cells.shape, np.uint8)
        data[inside] = m.memory.read_box(places[inside])
        if ctas and "multicast::cluster" not in op.mods:
            raise Fault("a mask of CTAs without .multicast::cluster")
        named = int(m.read(ctas[0])[t]) & 0xFFFF if ctas else 1 << own
        if not named or named >> m.plan.cluster_size:
            raise Fault(f"CTAs {named:#x} of a cluster of {m.plan.cluster_size}")
        for cta in range(m.plan.cluster_size):
            if not named >> cta & 1:
                continue
            if cta != own:
                self._reachable(op, one, np.array([cta]))
            further = (cta - own) * m.shared_pitch
            m.shared.launch((cells + further).reshape(1, -1), one)
            self._barrier(counter + further, t)
            self.boxes.append((counter + further, cells + further, data, 0))
            box.in_use.append(self.boxes[-1])

    def _store_box(self, op, rank, t):
        m, (target, source) = self.machine, op.operands
        box, corner = self._coordinates(target, t, rank)
        address = int(self._addresses(op, source, np.array([t]))[0])
        cells, places, inside = self._box(box, corner, address, True)
        m.shared.begin_reading(cells, np.array([t // 32]))
        self.stores.append(BoxStore(int(t), cells, places, inside))
        box.in_use.append(self.stores[-1])

    def _finish_stores(self, stores, read):
        """They have been read, or are in memory as well."""
        shared = self.machine.shared
        for store in stores:
            if store.data is None:
                store.data = shared.bytes[store.cells]
                shared.end_reading(store.cells, [store.thread // 32])
            if not read:
                self.machine.memory.write_box(store.places[store.inside], store.data[store.inside])
                self.stores.remove(store)

    def _coordinates(self, text, thread, rank):
        """(tensor map, coordinates) of `[map, {x, y}]`."""
        m = self.machine
        name, *corner = (p.strip() for p in re.sub(r"[\[\]{}]", "", text).split(","))
        address = int(m.read(name)[thread])
        number = address - PARAMETERS - len(m.plan.arguments)
        if address in m.memory.maps:
            box = tensor_maps.of_device(m, address, thread)
        elif 0 <= number < len(m.plan.tensor_maps):
            box = tensor_maps.of_host(m, number)
        else:
            raise Fault("no tensor map is there")
        if rank != f"{len(corner)}d":
            raise Fault(f"{len(corner)} coordinates of {rank}")
        return box, [int(seen(m.read(v), "s32")[thread]) for v in corner]

    def _box(self, box, corner, address, stored=False):
        """Cells in shared memory, places in global memory, and which of them are in the matrix."""
        m, extents, pitches, base = self.machine, box.extents, box.pitches, box.base
        if len(extents) != len(corner):
            raise Fault("a tensor map of other dimensions")
        size, (columns, lines) = box.element_bytes, box.box_dims
        if address % 128 or base % 16 or columns * size % 16:
            raise Fault("a box that is not aligned")
        if corner[0] * size % 16:
            raise Fault("a box that begins within 16 bytes")
        if any(pitch % 16 or not 0 <= pitch < 1 << 40 for pitch in pitches):
            raise Fault("a tensor map that the driver rejects")
        if max(columns, lines) > 256 or (box.swizzle_bytes and columns * size > box.swizzle_bytes):
            raise Fault("a box that is too large")
        line, column, byte = np.meshgrid(
            np.arange(lines), np.arange(columns), np.arange(size), indexing="ij"
        )
        to = swizzled(address + (line * columns + column) * size + byte, box.swizzle_bytes)
        at = [column + corner[0], line + corner[1], *corner[2:]]
        inside = np.ones(to.shape, bool)
        for place, extent in zip(at, extents, strict=True):
            inside &= (place >= 0) & (place < extent)
        if stored and inside.any() and extents[0] * size % 16:
            raise Fault("a box is stored to lines that end within 16 bytes")
        places = base + at[0] * size + byte - (1 << 40)
        for place, pitch in zip(at[1:], pitches, strict=True):
            places = places + place * pitch
        if (places[inside] < 0).any() or not m.memory.inside[places[inside]].all():
            raise Fault("a box with elements outside of all arrays")
        return m.shared.at(to.ravel(), 1)[:, 0].reshape(to.shape), places, inside

    # ---- warps ----

    def _warps(self, mask):
        return [np.arange(w * 32, w * 32 + 32) for w in np.unique(np.flatnonzero(mask) // 32)]

    def shfl(self, op, mask, _place):
        m, (target, source, by, clamp, _) = self.machine, op.operands
        value, lane, mode = m.read(source), m.index % 32, op.mods[1]
        count = m.read(by).astype(np.int64) & 31
        limit = m.read(clamp).astype(np.int64) & 31
        other = {"bfly": lane ^ count, "idx": count, "up": lane - count, "down": lane + count}[mode]
        valid = other >= limit if mode == "up" else other <= limit
        moved = value[np.where(valid, m.index - lane + other, m.index)]
        names = target.split("|")
        m.write(names[0], moved, mask)
        if len(names) > 1:
            m.write_predicate(names[1], valid, mask)

    def vote(self, op, mask, _place):
        m, (target, source, _) = self.machine, op.operands
        votes = m.predicate(source)
        for warp in self._warps(mask):
            bits = np.bitwise_or.reduce(
                votes[warp].astype(np.uint64) << np.arange(32, dtype=np.uint64)
            )
            m.write(target, np.full(m.threads, bits, np.uint64), mask & np.isin(m.index, warp))

    def redux(self, op, mask, _place):
        m, (target, source, _) = self.machine, op.operands
        kind = np.int32 if op.mods[-1] == "s32" else np.uint32
        combine = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
                   "xor": np.bitwise_xor}[op.mods[1]]  # fmt: skip
        values = m.read(source).astype(np.uint32).view(kind)
        for warp in self._warps(mask):
            result = combine.reduce(values[warp], dtype=kind).view(np.uint32)
            m.write(target, np.full(m.threads, result, np.uint64), mask & np.isin(m.index, warp))

    def elect(self, op, mask, _place):
        m = self.machine
        m.write_predicate(op.operands[0].split("|")[-1], m.index % 32 == 0, mask)

    def ldmatrix(self, op, mask, _place):
        m, (target, source) = self.machine, op.operands
        names = names_of(target)
        addresses = self._row_addresses(op, source, mask, len(names))
        made = np.zeros((len(names), m.threads), np.uint64)
        for warp in self._warps(mask):
            turned = "trans" in op.mods
            made[:, warp] = matrix.load_matrices(m.shared, addresses, warp, len(names), turned)
        for name, bits in zip(names, made, strict=True):
            m.write(name, bits, mask)

    def stmatrix(self, op, mask, _place):
        m, (target, source) = self.machine, op.operands
        words = [m.read(n) for n in names_of(source)]
        addresses = self._row_addresses(op, target, mask, len(words))
        for warp in self._warps(mask):
            mine = np.stack([w[warp] for w in words])
            matrix.store_matrices(m.shared, addresses, warp, mine, "trans" in op.mods)

    def _row_addresses(self, op, text, mask, count):
        """Addresses of the rows of `count` matrices, which the first lanes of a warp name."""
        addresses = self.machine.address(text).copy()
        who = np.flatnonzero(mask & (self.machine.index % 32 < 8 * count))
        addresses[who] = self._addresses(op, text, who)
        return addresses

    def mma(self, op, mask, _place):
        m = self.machine
        names = [names_of(o) for o in op.operands]
        values = [[m.read(n) for n in group] for group in names[1:]]
        made = np.zeros((len(names[0]), m.threads), np.uint64)
        for warp in self._warps(mask):
            a, b, c = ([v[warp] for v in group] for group in values)
            made[:, warp] = matrix.multiply(op.mods[2], op.mods[5:], a, b, c)
        for name, bits in zip(names[0], made, strict=True):
            m.write(name, bits, mask)

    def wgmma(self, op, mask, _place):
        m = self.machine
        parts = m.parts(128)
        if (np.bincount(parts)[np.unique(parts[mask])] < 128).any():
            raise Fault("a warp that is in no warp group")
        if op.mods[0] != "mma_async":
            pending = [int(immediate(o)) for o in op.operands]
            step = {"fence": m.products.fence, "commit_group": m.products.commit}
            step.get(op.mods[0], lambda who: m.products.wait(pending[0], who))(mask)
            return
        sums, left, right, *flags = op.operands
        names, b = names_of(sums), m.read(right)
        words_of_a = [m.read(n) for n in names_of(left)] if left.startswith("{") else None
        a = m.read(left) if words_of_a is None else np.zeros(m.threads, np.uint64)
        add, *rest = [int(immediate(f)) for f in flags]
        made = np.zeros((len(names), m.threads), np.uint64)
        for g in np.unique(parts[mask]):
            threads = np.flatnonzero(parts == g)
            if len(np.unique(a[threads])) > 1 or len(np.unique(b[threads])) > 1:
                raise Fault("descriptors differ in a warp group")
            words = [m.read(n if add else "0")[threads] for n in names]
            left_names = names_of(left) if words_of_a is not None else []
            made[:, threads], cells = matrix.group_multiply(
                m.shared,
                threads[0] // m.plan.threads * m.shared_pitch,
                op.mods[3:],
                (int(a[threads[0]]), int(b[threads[0]])),
                [add, *rest],
                words,
                None if words_of_a is None else [w[threads] for w in words_of_a],
                np.unique(threads // 32),
            )
            m.products.start(names, left_names, cells, threads)
        for name, bits in zip(names, made, strict=True):
            m.write_sums(name, bits, mask)

    def finish(self):
        self._outlived()
        if any(store.data is None for store in self.stores):
            raise Fault("the block ends while boxes are being stored from its memory")
        self._finish_stores(list(self.stores), False)
        if self.boxes:
            raise Fault("the block ends while boxes are being copied to its memory")

    def _outlived(self):
        """A CTA ends when the others have done with its memory, as one of its warps at least has waited for."""
        m = self.machine
        for (warp, rank), when in self.reached.items():
            own = m.plan.threads // 32
            if (m.clocks.known[rank * own : (rank + 1) * own, warp] < when).all():
                raise Fault("a CTA may end while others are at its memory")

    def prefetch(self, op, mask, _place):
        """Of tensor maps, which are always at hand here."""

    def _prefetch_bulk(self, op, mask):
        """What programs prefetch is in an array, as what they load is."""
        m = self.machine
        starts, sizes = m.address(op.operands[0])[mask], m.read(op.operands[1])[mask]
        for start, size in zip(starts.astype(int), sizes.astype(int), strict=True):
            if start % 16 or size % 16 or size <= 0:
                raise Fault(f"a prefetch of {size} bytes at {start:#x}")
            ends = np.arange(start, start + size, 16).astype(np.uint64)
            m.memory.granules(ends, 16)
            m.memory.prefetched.append((int(m.special["%clusterid.x"][0]), start, size))

    def griddepcontrol(self, op, mask, _place):
        if op.mods[0] == "wait":
            self.machine.alone[mask] = True

    def tensormap(self, op, mask, _place):
        self.maps.do(op, mask)

    def setmaxnreg(self, op, mask, _place):
        """Registers have no number here."""


OF_ALL = frozenset(
    (
        "shfl",
        "vote",
        "redux",
        "elect",
        "ldmatrix",
        "stmatrix",
        "mma",
        "wgmma",
        "bar",
        "barrier",
        "setmaxnreg",
    )
)
"""What the lanes of a warp (threads of a warpgroup: `wgmma`, `setmaxnreg`) do together, or wait for each other to."""

HANDLERS = {
    name: getattr(Together, name)
    for name in ("atom", "bar", "barrier", "mapa", "mbarrier", "fence", "cp", "shfl", "vote", "redux", "elect", "ldmatrix",
                 "stmatrix", "mma", "wgmma", "prefetch", "griddepcontrol", "setmaxnreg", "tensormap", "createpolicy")
} | {"ld": Together.load, "st": Together.store, "red": Together.atom}  # fmt: skip
