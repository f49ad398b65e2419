"""Tensor maps: those that the host encodes, and those that a program makes (PTX ISA, "tensormap.replace")."""

from dataclasses import dataclass, field

import numpy as np
from tests.ptx.values import Fault, immediate

BYTES = 128
_TYPES = {0: 1, 1: 2, 2: 4, 4: 8}
_SWIZZLES = {0: 0, 1: 32, 2: 64, 3: 128}
_ONCE = ("global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode")


@dataclass
class TensorMap:
    """What a map says; extents in elements, pitches in bytes."""

    base: int
    extents: list
    pitches: list
    element_bytes: int
    box_dims: tuple
    swizzle_bytes: int
    seen_by: set = field(default_factory=set)
    """Warps that have the fence between a map that was made and its use."""
    in_use: list = field(default_factory=list)


def of_host(machine, number):
    """A parameter of the kernel."""
    box = machine.plan.tensor_maps[number]
    sizes = box.sizes(machine.numbers)
    if sizes is None:
        raise Fault("a tensor map that the driver rejects")
    base = machine.numbers[box.argument]
    return TensorMap(base, *sizes, box.element_bytes, box.box_dims, box.swizzle_bytes)


def of_device(machine, address, thread):
    """A map that a program has made, which this thread may use."""
    found = machine.memory.maps[address]
    if thread // 32 not in found.seen_by:
        raise Fault("a tensor map is used without fence.proxy.tensormap after it was made")
    return found


class Maker:
    """`tensormap.replace` and `tensormap.cp_fenceproxy`."""

    def __init__(self, together):
        self.together, self.machine = together, together.machine
        self.fields = {}
        """Address in shared memory -> fields."""

    def do(self, op, mask):
        if op.mods[0] == "replace":
            self._replace(op, mask)
        else:
            self._publish(op, mask)

    def _replace(self, op, mask):
        m, (where, *number, value) = self.machine, op.operands
        if mask.sum() != 1 or op.mods[3:5] != ("shared::cta", "b1024"):
            raise Fault("not one thread, or not in shared memory")
        (t,) = np.flatnonzero(mask)
        who, address = np.array([t]), m.address(where)[t : t + 1]
        data = m.shared.read(address, BYTES, who, aligned=BYTES)
        if not self.fields.get(int(address[0])) and data.any():
            raise Fault("a tensor map is made of what is not zero")
        m.shared.write(address, data, who, aligned=BYTES)
        fields = self.fields.setdefault(int(address[0]), {})
        found = int(m.read(value)[t])
        key = (op.mods[2], int(immediate(number[0]))) if number else op.mods[2]
        fields[key] = found

    def _publish(self, op, mask):
        m, (to, source, size) = self.machine, op.operands
        if not mask.reshape(-1, 32).all(1).any() or int(immediate(size)) != BYTES:
            raise Fault("not a warp, or not a tensor map")
        who = np.flatnonzero(mask)[:1]
        m.shared.read(m.address(source)[who], BYTES, who, aligned=BYTES)
        where = int(m.address(to)[who[0]])
        m.memory.at(np.array([where], np.uint64), BYTES)
        old = m.memory.maps.get(where)
        busy = [*self.together.boxes, *self.together.stores]
        if old is not None and any(used is other for used in old.in_use for other in busy):
            raise Fault("a tensor map is made again while it is used")
        m.memory.maps[where] = self._decoded(self.fields.pop(int(m.address(source)[who[0]])))

    @staticmethod
    def _decoded(fields):
        missing = [name for name in _ONCE if name not in fields]
        if missing:
            raise Fault(f"a tensor map without {missing}")
        rank = fields["rank"] + 1
        if fields["interleave_layout"] or fields["fill_mode"]:
            raise Fault("a tensor map of another form")
        of = [[fields[name, d] for d in range(rank)] for name in ("box_dim", "global_dim")]
        if any(fields["element_stride", d] != 1 for d in range(rank)):
            raise Fault("elements apart")
        pitches = [fields["global_stride", d] for d in range(rank - 1)]
        (columns, lines, *others), extents = of
        if any(other != 1 for other in others) or not all(extents):
            raise Fault("a box of more than two dimensions, or an array without elements")
        size, swizzle = _TYPES[fields["elemtype"]], _SWIZZLES[fields["swizzle_mode"]]
        base = fields["global_address"]
        return TensorMap(base, extents, pitches, size, (columns, lines), swizzle)

    def acquire(self, op, mask):
        """`fence.proxy.tensormap::generic.acquire`."""
        m = self.machine
        for t in np.flatnonzero(mask):
            found = m.memory.maps.get(int(m.address(op.operands[0])[t]))
            if found is None:
                raise Fault("no tensor map is there")
            found.seen_by.add(int(t) // 32)
