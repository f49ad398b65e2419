"""`matmul`: matmuls of NumPy arrays and torch tensors by generated programs.

The first call with a class of arguments (shapes, strides, dtypes, epilogue) works out the contraction,
chooses a configuration and compiles; a plan is kept, so that the next call binds arrays and launches.
One compilation serves all shapes that specialise alike.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy

from tilewright.backends import registry
from tilewright.dtypes import dtype
from tilewright.errors import LaunchError, TilewrightError
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import Contraction, Part
from tilewright.generator.program import (
    INTEGER,
    PACKING,
    TOTAL,
    WHOLE,
    has_multi_dim_grid,
    programs,
)
from tilewright.runtime.devices import Place, place_of
from tilewright.runtime.dynamo import dynamo_disabled
from tilewright.runtime.matmul.aliasing import OutputAliasCheck, may_have_internal_overlap
from tilewright.runtime.matmul.epilogues import parts_of
from tilewright.runtime.matmul.kernels import GeneratedKernel, kernels, pointer_names
from tilewright.runtime.matmul.plan import Launch, Panels, Plan, array_dtype
from tilewright.runtime.matmul.prepare import Call, Prepared, dropped, prepare
from tilewright.runtime.matmul.shapes import Problem
from tilewright.runtime.specialize import element_type
from tilewright.runtime.tracebacks import located

_plans: dict[Any, Plan] = {}
_MOST_PLANS = 4096


@dynamo_disabled
def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    epilogue: Any = None,
    accumulate: Any = False,
    out_dtype: Any = None,
    trans_a: bool = False,
    trans_b: bool = False,
    batch: int | None = None,
    alpha: float | None = None,
    beta: float = 1.0,
    c: Any = None,
    precision: str | None = None,
    config: MatmulConfig | None = None,
) -> Any:
    """`out = epilogue(alpha · a @ b + beta · c)`, by a kernel generated for the problem.

    Args:
        a, b: arrays [*, M, K] and [*, K, N] on the CPU or one GPU, of one dtype (any two 8-bit floats):
            fp16, bf16, fp8, int8 … int64, fp32, fp64, in any order (strides). Batch axes broadcast. A vector
            counts as a row (a) or a column (b), and its axis is dropped from the result, as in NumPy.
        out: the result; by default a new array of `a`'s library. It may be `c` or an array of the epilogue, but
            must not overlap any other operand (checked).
        epilogue: steps applied before the result leaves registers: names ("relu", "gelu",
            "gelu_tanh", "silu", "leaky_relu", …), `tilewright.epilogue.bias(x)` and its like, jit functions
            of the accumulator; one or a list.
        accumulate: True adds to `out` (as `c=out` does). A dtype is the accumulator type: fp16 for fp16
            and fp8 operands. By default it is fp32 (fp64 for fp64, int32 for integers).
        out_dtype: dtype of a new result; by default the operands', fp16 for fp8, int32 for integers.
        trans_a, trans_b: exchange the last two axes first.
        batch: how many batch axes there must be (checked).
        alpha, beta, c: see above; `c` broadcasts to the result.
        precision: of fp32 matmuls: "ieee" (the default), or "tf32" for tensor cores.
        config: a `MatmulConfig`; otherwise the model chooses.

    Returns `out`, or the new array. Raises LaunchError for invalid arguments, CompilationError
    for an invalid epilogue function. The result is not differentiable.
    """
    try:
        parts = parts_of(epilogue) if epilogue is not None else ()
        key = (
            _facts(a), _facts(b), _facts(out), _facts(c), type(alpha), type(beta), beta == 1.0, trans_a, trans_b, accumulate,
            out_dtype, batch, precision, config, tuple([_key(part) for part in parts]) if parts else (),
        )  # fmt: skip
        try:
            plan = _plans.get(key)
        except TypeError as error:
            raise LaunchError(f"matmul: {error} among the options") from None
        if plan is None:
            call = Call(
                a, b, out, parts, accumulate, out_dtype, trans_a, trans_b, batch, alpha, c, precision,
                config, beta,
            )  # fmt: skip
            plan = _remembered(key, _plan(call))
        return plan(a, b, out, c, parts, alpha, beta)
    except TilewrightError as error:
        shown = located(error)
    raise shown


def _remembered(key: Any, plan: Plan) -> Plan:
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


def _facts(array: Any) -> Any:
    """The properties of an array that the plan depends on."""
    if array is None:
        return None
    stride = getattr(array, "stride", None)
    if stride is not None:
        return type(array), array.shape, stride(), array.dtype, array.device
    try:
        return type(array), array.shape, array.strides, array.dtype
    except AttributeError:
        raise LaunchError(
            f"matmul: expected an array with strides, got a {type(array).__name__}",
            help="pass NumPy arrays or torch tensors",
        ) from None


def _key(part: Part) -> Any:
    if not part.arrays and part.function is None and part.dtype is None:
        return part.kind
    arrays = tuple([_facts(x) for x in part.arrays])
    return part.kind, arrays, part.dtype, part.function, part.axis


# ---- making a plan ---------------------------------------------------------------------------------


def _plan(call: Call) -> Plan:
    place = _place(call)
    found = prepare(call, registry.get("cpu").target() if place is None else place.target())
    config, full = found.config, found.shape
    launches = () if 0 in full else _launches(found, place)
    make = _maker(call.a, full, found.dtype) if call.out is None else None
    work = None
    if config.parts > 1:
        work = _workspace(call.a, found.contraction, config, found.problem)
    replaced = None
    if 0 in (*call.a.shape, *call.b.shape) and 0 not in full:
        replaced = _zero_operands(call.a, full[-2], full[-1], element_type(call.a.dtype))
    result = None
    if found.drop and call.out is None:
        shape = dropped(full, found.drop)
        result = lambda array: array.reshape(shape)  # noqa: E731
    adds = call.accumulate is True
    panels = () if found.config.prepack is None else _panels(found)
    check = None if call.out is None else _check(call)
    return Plan(launches, make, work, result, adds, _numbers(call), replaced, panels, check)


def _check(call: Call) -> OutputAliasCheck:
    """A check that `out` does not overlap an operand."""
    read = [("a", call.a, False), ("b", call.b, False)]
    read += [] if call.c is None else [("c", call.c, True)]
    extras = [x for part in call.epilogue for x in part.arrays]
    read += [(f"array {i + 1} of the epilogue", x, True) for i, x in enumerate(extras)]
    return OutputAliasCheck(call.out, read)


def _maker(like: Any, shape: tuple[int, ...], kind: dtype) -> Callable[[Any], Any]:
    """A function that allocates a new array on the device of an operand."""
    if hasattr(like, "new_empty"):
        element = getattr(sys.modules["torch"], kind.array_name)
        return lambda a: a.new_empty(shape, dtype=element)
    if type(like).__module__.partition(".")[0] == "cupy":
        cupy = sys.modules["cupy"]
        return lambda a: cupy.empty(shape, kind.array_name)
    if hasattr(like, "__array_interface__"):
        element = array_dtype(kind)
        return lambda a: numpy.empty(shape, element)
    raise LaunchError(
        f"matmul: results for a {type(like).__name__} cannot be made", help="pass out="
    )


def _zero_operands(like: Any, m: int, n: int, kind: dtype) -> Callable[[Any], tuple[Any, Any]]:
    """Zeros with K = 1, for matmuls with K = 0."""
    left, right = _maker(like, (m, 1), kind), _maker(like, (1, n), kind)

    def make(a: Any) -> tuple[Any, Any]:
        x, y = left(a), right(a)
        x[...] = 0
        y[...] = 0
        return x, y

    return make


def _place(call: Call) -> Place | None:
    """The GPU that the arrays are on; None for the CPU."""
    named = [("a", call.a), ("b", call.b), ("out", call.out), ("c", call.c)]
    named += [("epilogue", x) for part in call.epilogue for x in part.arrays]
    return place_of([(name, x) for name, x in named if x is not None])


def _position(name: str, swapped: bool) -> int:
    """Position of a pointer argument's array in a plan; `swapped`: b is the program's first operand."""
    if swapped:
        name = {"a": "b", "b": "a"}.get(name, name)
    return _FIXED.index(name) if name in _FIXED else len(_FIXED) + int(name[1:])


#: the arrays of every plan, in order; those of epilogues follow
_FIXED = ("a", "b", "out", "c", "work", "stored_a", "panels_a", "stored_b", "panels_b")


def _panels(found: Prepared) -> tuple[Panels, ...]:
    """The workspaces of packed operands."""
    config, problem = found.config, found.problem
    made = []
    for program in programs(found.contraction, config)[:2]:
        name = PACKING[program.part]
        block = config.block_m if name == "a" else config.block_n
        (tiles,) = program.grid(problem.m, problem.n, problem.planes(name), k=problem.k)
        made.append(
            Panels(f"panels_{name}", tiles * block * config.block_k, program.stored, program.packed)
        )
    return tuple(made)


def kernels_of(found: Prepared) -> tuple[GeneratedKernel, ...]:
    """The kernels of a prepared call, in order. Requires that aliasing was checked: results do not overlap operands."""
    problem, cpu = found.problem, not found.target.is_gpu
    own = not may_have_internal_overlap(problem.matrices["out"].view)
    spread = not cpu and has_multi_dim_grid(found.config, problem.m, problem.n, problem.batch)
    return kernels(found.contraction, found.config, cpu and own, spread)


def _launches(found: Prepared, place: Place | None) -> tuple[Launch, ...]:
    problem = found.problem
    launches = []
    for kernel in kernels_of(found):
        program = kernel.program
        packs = PACKING.get(program.part)
        batches = problem.batches if packs is None else problem.planes(packs)
        grid = program.grid(problem.m, problem.n, batches, found.target.cores, problem.k)
        names = [p.name for p in program.parameters if p.kind == INTEGER]
        integers, options = tuple(problem.integers(names)), kernel.launch_options()
        names = pointer_names(kernel)
        if packs is not None:
            names = [packs, f"stored_{packs}"]
        pointers = tuple(_position(name, found.swapped) for name in names)
        numbers = program.part in (WHOLE, TOTAL)
        launches.append(Launch(kernel, grid, integers, options, pointers, numbers, place))
    return tuple(launches)


def _workspace(
    like: Any, contraction: Contraction, config: MatmulConfig, problem: Problem
) -> Callable[[Any], Any]:
    shape = (config.parts, problem.batches, problem.m, problem.n)
    if math.prod(shape) * contraction.accumulator_type.itemsize > 1 << 34:
        raise LaunchError(
            f"matmul: a workspace of {list(shape)} is too large", help="lower split_k"
        )
    return _maker(like, shape, contraction.accumulator_type)


def _numbers(call: Call) -> Callable[[Any, float, tuple[Part, ...]], list[float]]:
    has_addend = call.c is not None or call.accumulate is True

    def numbers(alpha: Any, beta: float, parts: tuple[Part, ...]) -> list[float]:
        found = [] if alpha is None else [float(alpha)]
        if has_addend:
            found.append(float(beta))
        found += [part.number for part in parts if part.number is not None]
        return found

    return numbers
