"""Running a contraction's programs by hand: in the interpreter, at any level."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32

from tilewright import dtypes
from tilewright.dtypes import constexpr, pointer_type
from tilewright.generator.program import AXES, INTEGER, POINTER, programs
from tilewright.interpreter.executor import run_module


def contiguous(shape, order):
    """Strides of the last two axes of a packed matrix."""
    return (1, shape[0]) if order == "column" else (shape[1], 1)


class Case:
    """Arrays and sizes for a contraction: `arrays` maps names of matrices and extras to arrays.

    Arrays of matrices have the logical shape; they are stored packed, in their operand's order.
    """

    def __init__(self, contraction, config, m, n, k, batch=(), seed=0, **numbers):
        self.contraction, self.config = contraction, config
        self.sizes = {"M": m, "N": n, "K": k}
        self.batch = tuple(batch)
        self.numbers = numbers
        rng = np.random.default_rng(seed)
        self.arrays, self.stored, self.strides = {}, {}, {}
        extents = {"m": m, "n": n, "k": k}
        for name, operand in contraction.matrices:
            shape = tuple(extents[axis] for axis in AXES[name])
            self._add(rng, name, shape, operand.dtype, operand.order, operand.batch)
        for i, extra in enumerate(contraction.extras):
            shape = tuple(extents[axis] for axis in extra.axes) or (1,)
            self._add(rng, f"x{i}", shape, extra.dtype, "row", extra.batch)
        count = int(np.prod(self.batch)) if self.batch else 1
        self.count = count
        self.arrays["work"] = aligned((config.split_k, count, m, n), contraction.accumulator_type)

    def _add(self, rng, name, shape, kind, order, varies):
        lead = tuple(n for n, own in zip(self.batch, varies, strict=True) if own)
        turned = order == "column" and len(shape) == 2
        stored = aligned((*lead, *(shape[::-1] if turned else shape)), kind)
        values = (
            rng.integers(-5, 5, stored.shape)
            if kind.is_int()
            else rng.standard_normal(stored.shape)
        )
        stored[...] = values.astype(stored.dtype)
        self.stored[name] = stored
        self.arrays[name] = np.swapaxes(stored, -1, -2) if turned else stored
        steps = [s // stored.itemsize for s in self.arrays[name].strides]
        own = iter(steps[: len(lead)])
        self.strides[name] = (
            tuple(next(own) if varied else 0 for varied in varies), steps[len(lead) :],
        )  # fmt: skip

    def integer(self, name):
        """What is given for an integer parameter."""
        if name in self.sizes:
            return self.sizes[name]
        if name.startswith("batch"):
            return self.batch[int(name[5:])]
        matrix, _, axis = name.rpartition("_")
        batch, steps = self.strides[matrix]
        if axis.startswith("b"):
            return batch[int(axis[1:])]
        if matrix in AXES:
            return steps[AXES[matrix].index(axis)]
        axes = self.contraction.extras[int(matrix[1:])].axes
        return steps[axes.index(axis)]

    def signature(self, program):
        """Types as specialisation finds them, divisibility, and the arguments that are left."""
        signature, divisibility, arguments = {}, {}, []
        for p in program.parameters:
            if p.kind == POINTER:
                signature[p.name], divisibility[p.name] = pointer_type(p.dtype), 16
                arguments.append(self.stored.get(p.name, self.arrays.get(p.name)))
            elif p.kind == INTEGER:
                value = self.integer(p.name)
                signature[p.name] = constexpr(1) if value == 1 else dtypes.int32
                if value != 1:
                    arguments.append(value)
                    if value % 16 == 0:
                        divisibility[p.name] = 16
            else:
                signature[p.name] = p.dtype
                arguments.append(self.numbers[p.name])
        return signature, divisibility, arguments

    def run(self, lower=lambda module, program: None):
        """Interpret all programs after `lower`; the result as float64."""
        self.stored["out"][...] = 0
        self.arrays["work"][...] = np.nan if self.contraction.accumulator_type.is_floating() else -7
        for program in programs(self.contraction, self.config):
            signature, divisibility, arguments = self.signature(program)
            module = program.build(signature, divisibility)
            module.verify()
            lower(module, program)
            grid = program.grid(self.sizes["M"], self.sizes["N"], self.count, 3)
            run_module(module, arguments, grid)
        return self.arrays["out"].astype(np.float64)

    def product(self):
        """The plain product in float64."""
        a, b = (self._full(name).astype(np.float64) for name in ("a", "b"))
        return np.matmul(a, b)

    def _full(self, name):
        """A matrix with all batch axes, of extent 1 where it is broadcast."""
        operand = dict(self.contraction.matrices)[name]
        array = self.arrays[name]
        for i, own in enumerate(operand.batch):
            if not own:
                array = np.expand_dims(array, i)
        return array


def aligned(shape, kind):
    """Zeros at a multiple of 16 bytes."""
    import ml_dtypes

    name = kind.array_name
    element = np.dtype(getattr(ml_dtypes, name, None) or name)
    size = int(np.prod(shape)) * element.itemsize
    raw = np.zeros(size + 16, np.uint8)
    start = -raw.ctypes.data % 16
    return raw[start : start + size].view(element).reshape(shape)


def to_gpu(module, program, target="sm_90a", disabled=()):
    """Lower a program to the last level before code for a GPU."""
    from tilewright.backends.nvidia.pipeline import nvidia_passes
    from tilewright.backends.nvidia.target import target_info
    from tilewright.passes.manager import run_pipeline

    (function,) = module.body.block.ops
    warps = 4 if program.part == "total" else program.config.num_warps
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(program.config.num_stages, i32)
    off = () if program.part == "total" else program.config.left_out
    run_pipeline(module, nvidia_passes(), target_info(target), disabled=(*off, *disabled))
