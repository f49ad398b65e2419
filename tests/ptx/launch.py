"""Run a compiled kernel on arrays: what `runtime.drivers.cuda` does with a GPU."""

import numpy as np
from tests.ptx.emulator import Machine, parse
from tests.ptx.memory import Global
from tests.ptx.values import bits_of


def number(value):
    """What a scalar argument's slot holds: of a NumPy float its bits."""
    return int(bits_of(value.reshape(1))[0]) if isinstance(value, np.floating) else int(value)


def run_ptx(artifact, arguments, grid, chance=None):
    """Copies of the arrays among `arguments`, as a launch leaves them. Raises Fault."""
    plan = artifact.plan
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    memory = Global(arrays)
    places = iter(memory.places)
    numbers = [next(places) if isinstance(a, np.ndarray) else number(a) for a in arguments]
    slots = [n & (1 << 64) - 1 for n in numbers] + [0] * len(plan.tensor_maps)
    code = parse(artifact.asm["ptx"], plan.name)
    grid = (*grid, 1, 1)[:3]
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                machine = Machine(code, plan, slots, memory, (x, y, z), grid, chance)
                machine.numbers = numbers
                machine.run()
    return [memory.take(i, arrays) for i in range(len(arrays))]
