"""Calls of `matmul` as a GPU would have them, interpreted at the GPU's level: late copies, poison, races."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.generator.programs import aligned, to_gpu

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.dtypes import constexpr, float32, float64, int32, int64, pointer_type
from tilewright.generator.program import INTEGER, PARTIAL, POINTER, Program
from tilewright.interpreter.executor import run_module
from tilewright.runtime.matmul import kernels_of
from tilewright.runtime.matmul.epilogues import parts_of
from tilewright.runtime.matmul.kernels import pointer_names
from tilewright.runtime.matmul.prepare import Call, Prepared, prepare

#: SMs of the pretended GPU: few, so that persistent programs have several tiles
CORES = 3


def prepared(
    target: Any, a: Any, b: Any, out: Any, epilogue: Any = None, **options: Any
) -> Prepared:
    """What `matmul` works out for arrays if they are on `target`."""
    given = {
        "accumulate": False, "trans_a": False, "trans_b": False, "batch": None, "alpha": None,
        "c": None, "precision": None, "config": None, **options,
    }  # fmt: skip
    return prepare(Call(a, b, out, parts_of(epilogue), out_dtype=None, **given), target)


def specialised(program: Program, found: Prepared, arrays: dict[str, Any], numbers: list[float]):
    """Types as a launch finds them, known divisors, and the arguments that are left."""
    names = [p.name for p in program.parameters if p.kind == INTEGER]
    integers = dict(zip(names, found.problem.integers(names), strict=True))
    signature: dict[str, Any] = {}
    divisibility: dict[str, int] = {}
    arguments: list[Any] = []
    rest = iter(numbers)
    for p in program.parameters:
        if p.kind == POINTER:
            array = arrays[p.name]
            signature[p.name] = pointer_type(p.dtype)
            if array.__array_interface__["data"][0] % 16 == 0:
                divisibility[p.name] = 16
            arguments.append(array)
        elif p.kind == INTEGER:
            value = integers[p.name]
            wide = not -(1 << 31) <= value < 1 << 31
            signature[p.name] = constexpr(1) if value == 1 else int64 if wide else int32
            if value != 1:
                arguments.append(value)
                if value % 16 == 0:
                    divisibility[p.name] = 16
        else:
            signature[p.name] = p.dtype
            arguments.append(next(rest))
    return signature, divisibility, arguments


def _interpreted(
    program: Program, target: Any, module: Any, signature: Any, arguments: list[Any], grid: Any
) -> None:
    """In the interpreter, after all passes for `target`."""
    to_gpu(module, program, target.name)
    run_module(module, arguments, grid)


def executed(
    program: Program, target: Any, module: Any, signature: Any, arguments: list[Any], grid: Any,
    chance: Any = None,
) -> Any:  # fmt: skip
    """As PTX, in the machine of `tests/ptx`, warps in an order by `chance`; the artifact."""
    from tests.ptx.launch import run_ptx

    config = program.config
    total = program.part == "total"
    options = Options(
        num_warps=4 if total else config.num_warps, num_stages=config.num_stages,
        disable=() if total else config.left_out,
    )  # fmt: skip
    artifact = backend.compile(module, options, target)
    kinds = [kind for kind in signature.values() if not isinstance(kind, constexpr)]
    given: list[Any] = []
    for value, kind in zip(arguments, kinds, strict=True):
        if isinstance(value, np.ndarray):  # as it lies in memory
            given.append(value if value.flags.c_contiguous else np.swapaxes(value, -1, -2))
        else:
            floating = kind in (float32, float64)
            given.append(np.dtype(kind.array_name).type(value) if floating else value)
    arrays = [value for value in given if isinstance(value, np.ndarray)]
    for array, after in zip(arrays, run_ptx(artifact, given, grid, chance), strict=True):
        array[...] = after
    return artifact


def interpret(
    target: Any, a: Any, b: Any, out: Any, epilogue: Any = None, *, run: Any = _interpreted,
    **options: Any,
) -> Prepared:  # fmt: skip
    """Run the programs of a call for `target` (`run`: how); fills `out`."""
    beta = options.pop("beta", 1.0)
    found = prepared(target, a, b, out, epilogue, **options)
    parts, c = parts_of(epilogue), options.get("c")
    numbers = [options["alpha"]] if options.get("alpha") is not None else []
    numbers += [beta] if c is not None else []
    numbers += [part.number for part in parts if part.number is not None]
    problem = found.problem
    shape = (found.config.parts, problem.batches, problem.m, problem.n)
    work = aligned(shape, found.contraction.accumulator_type)
    work[...] = np.nan if found.contraction.accumulator_type.is_floating() else -7
    first, second = (b, a) if found.swapped else (a, b)
    arrays = {"a": first, "b": second, "out": out, "c": c, "work": work}
    arrays |= {f"x{i}": x for i, x in enumerate(x for part in parts for x in part.arrays)}
    for kernel in kernels_of(found):
        program = kernel.program
        given = numbers if program.part != PARTIAL else []
        signature, divisibility, arguments = specialised(program, found, arrays, given)
        module = program.build(signature, divisibility)
        grid = program.grid(problem.m, problem.n, problem.batches, CORES)
        assert len(pointer_names(kernel)) == sum(isinstance(x, np.ndarray) for x in arguments)
        run(program, target, module, signature, arguments, grid)
    return found
