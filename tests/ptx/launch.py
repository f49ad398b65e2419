"""Run a compiled kernel on arrays: what `runtime.drivers.cuda` does with a GPU."""

import re
from dataclasses import dataclass

import numpy as np
from tests.ptx.emulator import Machine, parse
from tests.ptx.memory import Global
from tests.ptx.values import Fault, bits_of


@dataclass(frozen=True)
class Addresses:
    """An array of addresses: of each the number of an array, and bytes from its start on."""

    arrays: tuple[tuple[int, int], ...]

    def filled(self, places):
        return np.array([places[i] + offset for i, offset in self.arrays], np.int64)


def number(value):
    """What a scalar argument's slot holds: of a NumPy float its bits."""
    return int(bits_of(value.reshape(1))[0]) if isinstance(value, np.floating) else int(value)


def run_ptx(artifact, arguments, grid, chance=None, reached=(), prefetched=None):
    """Copies of the arrays among `arguments` and `reached` (through `Addresses`), as a launch leaves them. Raises Fault.

    `prefetched`: a list that gets (program, first byte, bytes) of prefetches into L2, from the first array's start on.
    """
    plan, ptx = artifact.plan, artifact.asm["ptx"]
    arrays = [a for a in (*arguments, *reached) if isinstance(a, np.ndarray | Addresses)]
    found = re.findall(r"^\.global .*\.b8 (\w+)\[(\d+)\];", ptx, re.MULTILINE)
    variables = {name: np.zeros(int(size), np.uint8) for name, size in found}
    empty = [np.zeros(len(a.arrays), np.int64) if isinstance(a, Addresses) else a for a in arrays]
    places = Global([*empty, *variables.values()]).places
    arrays = [a.filled(places) if isinstance(a, Addresses) else a for a in arrays]
    memory = Global([*arrays, *variables.values()])
    at = iter(places)
    numbers = [next(at) if isinstance(a, np.ndarray | Addresses) else number(a) for a in arguments]
    slots = [n & (1 << 64) - 1 for n in numbers] + [0] * len(plan.tensor_maps)
    code = parse(ptx, plan.name)
    grid = (*grid, 1, 1)[:3]
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                machine = Machine(code, plan, slots, memory, (x, y, z), grid, chance)
                machine.numbers = numbers
                for name, place in zip(variables, places[len(arrays) :], strict=True):
                    machine.registers[name] = np.full(machine.threads, place, np.uint64)
                machine.run()
                _places_are_free(memory, len(arrays), list(variables.values()))
    if prefetched is not None:
        prefetched += [(p, start - places[0], size) for p, start, size in memory.prefetched]
    return [memory.take(i, arrays) for i in range(len(arrays))]


def _places_are_free(memory, first, variables):
    """What a program takes for its tensor maps it leaves to others (the maps are not in these bytes)."""
    named = [None] * first + variables
    if any(memory.take(i, named).any() for i in range(first, len(named))):
        raise Fault("the program ends and keeps the place of its tensor maps")
