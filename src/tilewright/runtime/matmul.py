"""`matmul`: products of NumPy arrays and torch tensors by generated programs.

The first call with a class of arguments (shapes, strides, dtypes, epilogue) works out the contraction,
chooses a configuration and compiles; a plan is kept, so that the next call binds arrays and launches.
One compilation serves all shapes that specialise alike.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import dtypes
from tilewright.dtypes import dtype
from tilewright.errors import KernelTypeError, LaunchError, TilewrightError
from tilewright.generator.choice import choose
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import Contraction, Extra, Operand, Step
from tilewright.generator.program import INTEGER
from tilewright.runtime.epilogues import Part, parts_of
from tilewright.runtime.generated import GeneratedKernel, kernels, pointer_names
from tilewright.runtime.matmul_shapes import Problem, View, axes_of, broadcast_batches, view_of
from tilewright.runtime.specialize import element_type, is_array
from tilewright.runtime.tracebacks import caller_location, without_own_frames

_plans: dict[Any, _Plan] = {}
_MOST_PLANS = 4096


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
    """`out = epilogue(alpha · a @ b + beta · c)`, by a program made for it.

    Args:
        a, b: arrays [*, M, K] and [*, K, N] on the CPU or one GPU, of one dtype (any two 8-bit floats):
            fp16, bf16, fp8, int8 … int64, fp32, fp64, in any order (strides). Batch axes broadcast. A vector
            counts as a row (a) or a column (b), and its axis is dropped from the result, as in NumPy.
        out: where to write; made by `a`'s library without it. It must not overlap `a` or `b`.
        epilogue: steps applied before the result leaves registers: names ("relu", "gelu",
            "gelu_tanh", "silu", "leaky_relu", …), `tilewright.epilogue.bias(x)` and its like, jit functions
            of the sums; one or a list.
        accumulate: True adds to `out` (as `c=out` does). A dtype is the type of the sums: fp16 for fp16
            and fp8 operands. Otherwise sums are fp32 (fp64 for fp64, int32 for integers).
        out_dtype: of a new result; else the operands', fp16 for fp8, int32 for integers.
        trans_a, trans_b: exchange the last two axes first.
        batch: how many batch axes there must be (checked).
        alpha, beta, c: see above; `c` broadcasts to the result.
        precision: of fp32 products: "ieee" (the default), or "tf32" for tensor cores.
        config: a `MatmulConfig`; otherwise the model chooses.

    Returns `out`, or the new array. Raises LaunchError for arguments that do not fit, CompilationError
    for an epilogue function. Gradients do not flow through it.
    """
    try:
        parts = parts_of(epilogue) if epilogue is not None else ()
        key = (
            _facts(a), _facts(b), _facts(out), _facts(c), alpha is None, trans_a, trans_b, accumulate,
            out_dtype, batch, precision, config, tuple([_key(part) for part in parts]) if parts else (),
        )  # fmt: skip
        plan = _plans.get(key)
        if plan is None:
            call = _Call(
                a, b, out, parts, accumulate, out_dtype, trans_a, trans_b, batch, alpha, c, precision,
                config,
            )  # fmt: skip
            plan = _remembered(key, _plan(call))
        return plan(a, b, out, c, parts, alpha, beta)
    except TilewrightError as error:
        shown = _shown(error)
    raise shown


def _remembered(key: Any, plan: _Plan) -> _Plan:
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


def _shown(error: TilewrightError) -> BaseException:
    """`error` with the line of the call where it has no place of its own, without inner frames."""
    if isinstance(error, (LaunchError, KernelTypeError)) and error.location is None:
        error.location = caller_location()
    return without_own_frames(error)


def _facts(array: Any) -> Any:
    """What of an array the plan depends on."""
    if array is None:
        return None
    stride = getattr(array, "stride", None)
    if stride is not None:
        return type(array), array.shape, stride(), array.dtype, array.device
    if not is_array(array):
        raise LaunchError(f"matmul: a {type(array).__name__} is no array")
    return type(array), array.shape, getattr(array, "strides", None), array.dtype


def _key(part: Part) -> Any:
    arrays = tuple([_facts(x) for x in part.arrays])
    return part.kind, arrays, part.dtype, part.function, part.axis


@dataclass(frozen=True)
class _Call:
    """The arguments of a first call."""

    a: Any
    b: Any
    out: Any
    parts: tuple[Part, ...]
    accumulate: Any
    out_dtype: Any
    trans_a: bool
    trans_b: bool
    batch: int | None
    alpha: float | None
    c: Any
    precision: str | None
    config: MatmulConfig | None


@dataclass(frozen=True)
class _Launch:
    """One kernel of a plan with its integers."""

    kernel: GeneratedKernel
    grid: tuple[int, ...]
    integers: tuple[int, ...]
    options: dict[str, int]
    pointers: tuple[str, ...]


class _Plan:
    """What a call with known shapes does: make the result, launch, give it back."""

    def __init__(
        self,
        launches: tuple[_Launch, ...],
        make: Callable[[Any], Any] | None,
        work: Callable[[Any], Any] | None,
        result: Callable[[Any], Any] | None,
        adds: bool,
        numbers: Callable[[Any, float, tuple[Part, ...]], list[float]],
        replace_operands: Callable[[Any], tuple[Any, Any]] | None = None,
    ) -> None:
        self.launches, self.make, self.work, self.result = launches, make, work, result
        self.adds, self.numbers, self.replace = adds, numbers, replace_operands

    def __call__(
        self,
        a: Any,
        b: Any,
        out: Any,
        c: Any,
        parts: tuple[Part, ...],
        alpha: float | None,
        beta: float,
    ) -> Any:
        if self.make is not None:
            out = self.make(a)
        elif out is a or out is b:
            raise LaunchError("matmul: out is one of the operands", help="write to another array")
        target = out
        if self.replace is not None:
            a, b = self.replace(a)
        if len(self.launches) == 1 and not parts and c is None and not self.adds:
            launch = self.launches[0]
            numbers = () if alpha is None else (alpha,)
            launch.kernel[launch.grid](a, b, out, *launch.integers, *numbers, **launch.options)
        elif self.launches:
            arrays: dict[str, Any] = {"a": a, "b": b, "out": out, "c": out if self.adds else c}
            extras = [x for part in parts for x in part.arrays]
            arrays |= {f"x{i}": x for i, x in enumerate(extras)}
            if self.work is not None:
                arrays["work"] = self.work(a)
            numbers = self.numbers(alpha, beta, parts)
            for launch in self.launches:
                launch.kernel[launch.grid](
                    *[arrays[name] for name in launch.pointers],
                    *launch.integers,
                    *(() if launch.kernel.program.part == "partial" else numbers),
                    **launch.options,
                )
        return target if self.result is None else self.result(target)


# ---- making a plan ---------------------------------------------------------------------------------


def _plan(call: _Call) -> _Plan:
    a, b, drop = _operand_views(call)
    if a.shape[-1] != b.shape[-2]:
        raise LaunchError(
            f"matmul: a is {list(a.shape)} and b is {list(b.shape)}: the inner extents are "
            f"{a.shape[-1]} and {b.shape[-2]}",
            help="pass trans_a=True or trans_b=True for operands stored the other way round",
        )
    batch = broadcast_batches(a.shape[:-2], b.shape[:-2], "matmul")
    if call.batch is not None and call.batch != len(batch):
        raise LaunchError(f"matmul: batch={call.batch}, but there are {len(batch)} batch axes")
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    full = (*batch, m, n)
    kind = _out_dtype(call, a.dtype)
    sums = call.accumulate if not isinstance(call.accumulate, (bool, type(None))) else None
    adds = call.accumulate is True
    out, make = _output(call, full, kind, drop, adds)
    problem = Problem(m, n, max(k, 1), batch)
    replaced = None
    if k == 0:  # sums of nothing: multiply zeros, since no machine copies boxes of no extent
        replaced = _zero_operands(call.a, m, n, a.dtype)
        a, b = View((m, 1), (1, 1), a.dtype), View((1, n), (1, 1), b.dtype)
    problem.add("a", a, (m, problem.k))
    problem.add("b", b, (problem.k, n))
    problem.add("out", out, (m, n))
    _addend_and_extras(call, problem, out, adds)
    problem.simplify()
    contraction = _contraction(call, problem, None if sums is None else element_type(sums))
    target = _target(call)
    config = call.config or choose(
        contraction, problem.m, problem.n, problem.k, target, problem.batches
    )
    launches = () if 0 in full else _launches(contraction, config, problem, target)
    work = _workspace(call.a, contraction, config, problem) if config.split_k > 1 else None
    result = None
    if drop and call.out is None:
        shape = _dropped(full, drop)
        result = lambda array: array.reshape(shape)  # noqa: E731
    return _Plan(launches, make, work, result, adds, _numbers(call), replaced)


def _operand_views(call: _Call) -> tuple[View, View, tuple[int, ...]]:
    """Views with two axes at least, and the axes (-2, -1) that vectors did not have."""
    a, b = view_of(call.a), view_of(call.b)
    for name, view in (("a", a), ("b", b)):
        if not view.shape:
            raise LaunchError(f"matmul: {name} has no axes", help="multiply by scalars with alpha=")
    drop: list[int] = []
    if len(a.shape) == 1:
        a, drop = a.with_axis(0), [-2]
    elif call.trans_a:
        a = a.transposed()
    if len(b.shape) == 1:
        b = b.with_axis(1)
        drop.append(-1)
    elif call.trans_b:
        b = b.transposed()
    return a, b, tuple(drop)


def _out_dtype(call: _Call, operands: dtype) -> dtype:
    if call.out is not None:
        return element_type(call.out.dtype)
    if call.out_dtype is not None:
        return element_type(call.out_dtype)
    if operands.is_fp8():
        return dtypes.float16
    if operands.is_int():
        return dtypes.int64 if operands.primitive_bitwidth == 64 else dtypes.int32
    return operands


def _dropped(shape: tuple[int, ...], drop: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(shape)
    return tuple(n for i, n in enumerate(shape) if i - rank not in drop)


def _output(
    call: _Call, full: tuple[int, ...], kind: dtype, drop: tuple[int, ...], adds: bool
) -> tuple[View, Callable[[Any], Any] | None]:
    """The result's view with all axes, and how to make it unless it is given."""
    if call.out is None:
        if adds:
            raise LaunchError("matmul: accumulate=True adds to `out`, which was not given")
        return _contiguous(full, kind), _maker(call.a, full, kind)
    view = view_of(call.out)
    wanted = _dropped(full, drop)
    if view.shape != wanted:
        raise LaunchError(f"matmul: out has shape {list(view.shape)}, the result {list(wanted)}")
    for axis in drop:
        view = view.with_axis(
            len(view.shape) + 1 + axis if axis == -1 else len(view.shape) - (-1 not in drop)
        )
    if any(s == 0 and n > 1 for n, s in zip(view.shape, view.strides, strict=True)):
        raise LaunchError("matmul: several elements of out are one (a stride is 0)")
    return view, None


def _contiguous(shape: tuple[int, ...], kind: dtype) -> View:
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return View(shape, tuple(strides), kind)


def _maker(like: Any, shape: tuple[int, ...], kind: dtype) -> Callable[[Any], Any]:
    """A function from an operand to a new array beside it."""
    if hasattr(like, "new_empty"):
        element = getattr(sys.modules["torch"], kind.array_name)
        return lambda a: a.new_empty(shape, dtype=element)
    if type(like).__module__.partition(".")[0] == "cupy":
        cupy = sys.modules["cupy"]
        return lambda a: cupy.empty(shape, kind.array_name)
    if hasattr(like, "__array_interface__"):
        import ml_dtypes
        import numpy

        name = kind.array_name
        element = numpy.dtype(getattr(ml_dtypes, name, None) or name)
        return lambda a: numpy.empty(shape, element)
    raise LaunchError(
        f"matmul: results for a {type(like).__name__} cannot be made", help="pass out="
    )


def _zero_operands(like: Any, m: int, n: int, kind: dtype) -> Callable[[Any], tuple[Any, Any]]:
    """Zeros with K = 1, for products with K = 0."""
    left, right = _maker(like, (m, 1), kind), _maker(like, (1, n), kind)

    def make(a: Any) -> tuple[Any, Any]:
        x, y = left(a), right(a)
        x[...] = 0
        y[...] = 0
        return x, y

    return make


def _addend_and_extras(call: _Call, problem: Problem, out: View, adds: bool) -> None:
    sizes = (problem.m, problem.n)
    if adds and call.c is not None:
        raise LaunchError("matmul: accumulate=True and c= exclude each other")
    if adds:
        problem.add("c", out, sizes)
    elif call.c is not None:
        problem.add("c", _at_least_two(view_of(call.c)), sizes)
    i = 0
    for part in call.parts:
        for array in part.arrays:
            view = view_of(array)
            if part.axis == "m":
                view = view.with_axis(len(view.shape))
            elif part.axis == "n":
                view = view.with_axis(len(view.shape) - 1)
            problem.add(f"x{i}", _at_least_two(view), sizes)
            i += 1


def _at_least_two(view: View) -> View:
    while len(view.shape) < 2:
        view = view.with_axis(0)
    return view


def _contraction(call: _Call, problem: Problem, sums: dtype | None) -> Contraction:
    def operand(name: str) -> Operand:
        x = problem.matrices[name]
        return Operand(x.view.dtype, x.order, tuple(stride != 0 for stride in x.batch))

    def extra(name: str) -> Extra:
        x = problem.matrices[name]
        batch = tuple(stride != 0 for stride in x.batch)
        return Extra(x.view.dtype, axes_of(x, problem.m, problem.n), batch)

    steps, i = [], 0
    for part in call.parts:
        extras = tuple(extra(f"x{i + j}") for j in range(len(part.arrays)))
        i += len(part.arrays)
        steps.append(Step(part.kind, extras, part.dtype, part.function))
    out = problem.matrices["out"]
    return Contraction(
        operand("a"),
        operand("b"),
        Operand(out.view.dtype, out.order, (True,) * len(problem.batch)),
        sums,
        call.precision or "ieee",
        call.alpha is not None,
        operand("c") if "c" in problem.matrices else None,
        tuple(steps),
        len(problem.batch),
        problem.wide,
    )


def _target(call: _Call) -> Any:
    """The machine that the arrays are on."""
    from tilewright.backends import registry
    from tilewright.runtime.devices import place_of

    named = [("a", call.a), ("b", call.b), ("out", call.out), ("c", call.c)]
    named += [("epilogue", x) for part in call.parts for x in part.arrays]
    place = place_of([(name, x) for name, x in named if x is not None])
    return registry.get("cpu").target() if place is None else place.target()


def _launches(
    contraction: Contraction, config: MatmulConfig, problem: Problem, target: Any
) -> tuple[_Launch, ...]:
    found = []
    for kernel in kernels(contraction, config):
        program = kernel.program
        grid = program.grid(problem.m, problem.n, problem.batches, target.cores)
        names = [p.name for p in program.parameters if p.kind == INTEGER]
        found.append(
            _Launch(
                kernel,
                grid,
                tuple(problem.integers(names)),
                kernel.launch_options(),
                tuple(pointer_names(kernel)),
            )
        )
    return tuple(found)


def _workspace(
    like: Any, contraction: Contraction, config: MatmulConfig, problem: Problem
) -> Callable[[Any], Any]:
    shape = (config.split_k, problem.batches, problem.m, problem.n)
    if math.prod(shape) * contraction.sums.itemsize > 1 << 34:
        raise LaunchError(
            f"matmul: a workspace of {list(shape)} is too large", help="lower split_k"
        )
    return _maker(like, shape, contraction.sums)


def _numbers(call: _Call) -> Callable[[Any, float, tuple[Part, ...]], list[float]]:
    has_addend = call.c is not None or call.accumulate is True

    def numbers(alpha: Any, beta: float, parts: tuple[Part, ...]) -> list[float]:
        found = [] if alpha is None else [float(alpha)]
        if has_addend:
            found.append(float(beta))
        found += [part.number for part in parts if part.number is not None]
        return found

    return numbers
