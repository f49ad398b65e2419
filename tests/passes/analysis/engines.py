"""Running a small kernel in the interpreter, as machine code, and as PTX without a GPU."""

import numpy as np
from tests.ptx.launch import run_ptx

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.interpreter.executor import run_module
from tilewright.ir.text import parse_ir
from tilewright.runtime.compiler import build_ir
from tilewright.runtime.interface import innermost
from tilewright.runtime.specialize import ir_arguments


def aligned(array):
    """A copy of an array at a multiple of 128 bytes."""
    raw = np.zeros(array.nbytes + 256, np.uint8)
    start = -raw.ctypes.data % 128
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def run(engine, kernel, grid, args, consts, *, warps=4, target="sm_90a"):
    """The arrays among `args` as a launch leaves them (copies). Engines: cpu, interpreter, ptx."""
    args = [aligned(a) if isinstance(a, np.ndarray) else a for a in args]
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    if engine == "cpu":
        kernel[grid](*args, **consts)
        return arrays
    module, types, values = ir_of(kernel, args, consts)
    slots = ir_arguments(types.values(), [values[name] for name in types])
    if engine == "interpreter":
        run_module(module, slots, (*grid, 1, 1)[:3])
        return arrays
    artifact = backend.compile(module, Options(num_warps=warps), target_info(target))
    return run_ptx(artifact, slots, grid)


def ir_of(kernel, args, consts):
    """Tile IR of a launch, and the types and values of its arguments."""
    inner = innermost(kernel)
    bound = inner.signature.bind(*args, **consts)
    bound.apply_defaults()
    values = dict(bound.arguments)
    specializer = inner.launcher.specializer
    types = {p.name: specializer.argument(p, values[p.name]) for p in inner.params}
    return parse_ir(str(build_ir(inner, types, Options()))), types, values
