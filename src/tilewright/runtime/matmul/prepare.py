"""Derive the contraction of a matmul from the shapes, strides and types of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from tilewright import dtypes
from tilewright.dtypes import dtype
from tilewright.errors import LaunchError
from tilewright.generator.choice import choose
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import Contraction, Extra, Operand, Part, Step
from tilewright.runtime.matmul.aliasing import has_internal_overlap, may_have_internal_overlap
from tilewright.runtime.matmul.shapes import (
    INT32,
    Problem,
    View,
    axes_of,
    broadcast_batches,
    view_of,
)
from tilewright.runtime.specialize import element_type
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class Call:
    """The arguments of a first call."""

    a: Any
    b: Any
    out: Any = None
    epilogue: Sequence[Part] = ()
    accumulate: Any = False
    out_dtype: Any = None
    trans_a: bool = False
    trans_b: bool = False
    batch: int | None = None
    alpha: float | None = None
    c: Any = None
    precision: str | None = None
    config: MatmulConfig | None = None
    beta: float = 1.0


@dataclass(frozen=True)
class Prepared:
    """A prepared call: the contraction and its configuration for a target.

    `shape` is the result's with all axes, `dtype` its type, `drop` the axes (-2, -1) to remove because an operand is a
    vector.
    """

    problem: Problem
    contraction: Contraction
    config: MatmulConfig
    shape: tuple[int, ...]
    dtype: dtype
    drop: tuple[int, ...]
    target: TargetInfo
    swapped: bool = False
    """`problem` and `contraction` are of outᵀ = bᵀ · aᵀ."""


def prepare(call: Call, target: TargetInfo) -> Prepared:
    """Prepare a call: everything that shapes and types determine. Raises LaunchError, KernelTypeError."""
    if call.config is not None and not isinstance(call.config, MatmulConfig):
        raise LaunchError(f"matmul: config is a {type(call.config).__name__}, not a MatmulConfig")
    if call.alpha is not None and not isinstance(call.alpha, Real):
        raise LaunchError(f"matmul: alpha is a {type(call.alpha).__name__}, not a number")
    if not isinstance(call.beta, Real):
        raise LaunchError(f"matmul: beta is a {type(call.beta).__name__}, not a number")
    if call.beta != 1.0 and call.c is None and call.accumulate is not True:
        raise LaunchError(f"matmul: beta={call.beta!r} is for c, or out with accumulate=True")
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
    if k == 0:  # empty reduction: multiply zeros, because TMA tiles must not be empty
        a, b = View((m, 1), (1, 1), a.dtype), View((1, n), (1, 1), b.dtype)
    problem = Problem(m, n, max(k, 1), batch)
    problem.add("a", a, (m, problem.k))
    problem.add("b", b, (problem.k, n))
    out = _output_view(call, full, kind, drop)
    problem.add("out", out, (m, n))
    _addend_and_extras(call, problem, out)
    problem.simplify()
    contraction = _contraction(call, problem)
    config = call.config or choose(
        contraction, problem.m, problem.n, problem.k, target, problem.batches,
        packed=_without_gaps(problem), may_swap=target.is_gpu,
    )  # fmt: skip
    swapped = config.swap_operands
    if swapped:
        problem, contraction, config = _swapped(problem, contraction, config, target)
    if config.rows_per_load > 1:
        _check_joined(problem, config)
    if target.is_gpu:  # where alignment decides how memory is reached
        problem.find_units()
        contraction = replace(contraction, size_divisors=tuple(problem.units.items()))
    return Prepared(problem, contraction, config, full, kind, drop, target, swapped)


def _swapped(
    problem: Problem, contraction: Contraction, config: MatmulConfig, target: TargetInfo
) -> tuple[Problem, Contraction, MatmulConfig]:
    """The equivalent problem with swapped operands."""
    other = contraction.swapped()
    if other is None or not target.is_gpu:
        why = "on a CPU" if other is not None else "with a function in the epilogue"
        raise LaunchError(f"matmul: swap_operands is not possible {why}")
    return problem.swapped(), other, config.with_(swap_operands=False)


def _without_gaps(problem: Problem) -> bool:
    """Whether the matrix of a matrix-vector product is MN-major with contiguous rows."""
    if problem.m == 1:
        return problem.matrices["b"].strides == (problem.n, 1)
    return problem.n == 1 and problem.matrices["a"].strides == (1, problem.m)


def _check_joined(problem: Problem, config: MatmulConfig) -> None:
    """Check that rows can be joined as the configuration requires."""
    extent, joined = max(problem.m, problem.n), config.rows_per_load
    across, single = config.block_n, config.block_m
    if problem.m > 1:
        across, single = single, across
    if min(problem.m, problem.n) > 1 or not _without_gaps(problem):
        raise LaunchError(
            f"matmul: join_rows={joined} is for a vector and a matrix across whose rows K lies, without gaps "
            "between the rows"
        )
    if single != 1:
        raise LaunchError(
            f"matmul: join_rows={joined} is for tiles of a row of the result, or of a column: not for "
            f"{config.block_m} x {config.block_n} of a result of {problem.m} x {problem.n}"
        )
    if problem.k % joined or extent < across:
        raise LaunchError(
            f"matmul: join_rows={joined} with tiles of {across} is for multiples of {joined} rows of {across} "
            f"elements and more, not for {problem.k} of {extent}"
        )
    if (extent + across) * joined > INT32:
        raise LaunchError(
            f"matmul: join_rows={joined} rows of {extent} elements are too long as one"
        )


def _operand_views(call: Call) -> tuple[View, View, tuple[int, ...]]:
    """Views with at least two axes, and the axes (-2, -1) that were added to vectors."""
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


def _out_dtype(call: Call, operands: dtype) -> dtype:
    wanted = None if call.out_dtype is None else element_type(call.out_dtype)
    if call.out is not None:
        found = element_type(call.out.dtype)
        if wanted not in (None, found):
            raise LaunchError(f"matmul: out has dtype {found}, out_dtype is {wanted}")
        return found
    if wanted is not None:
        return wanted
    if operands.is_fp8():
        return dtypes.float16
    if operands.is_int():
        return dtypes.int64 if operands.primitive_bitwidth == 64 else dtypes.int32
    return operands


def dropped(shape: tuple[int, ...], drop: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(shape)
    return tuple(n for i, n in enumerate(shape) if i - rank not in drop)


def _output_view(call: Call, full: tuple[int, ...], kind: dtype, drop: tuple[int, ...]) -> View:
    """The result's view with all axes."""
    if call.out is None:
        if call.accumulate is True:
            raise LaunchError("matmul: accumulate=True adds to `out`, which was not given")
        return _contiguous(full, kind)
    view = view_of(call.out)
    wanted = dropped(full, drop)
    if view.shape != wanted:
        raise LaunchError(f"matmul: out has shape {list(view.shape)}, the result {list(wanted)}")
    for axis in drop:
        rank = len(view.shape)
        view = view.with_axis(rank if axis == -1 else rank - (-1 not in drop))
    if may_have_internal_overlap(view) and has_internal_overlap(view):
        raise LaunchError(
            f"matmul: several elements of out are one (shape {list(view.shape)}, strides {list(view.strides)})"
        )
    return view


def _contiguous(shape: tuple[int, ...], kind: dtype) -> View:
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return View(shape, tuple(strides), kind)


def _addend_and_extras(call: Call, problem: Problem, out: View) -> None:
    sizes, adds = (problem.m, problem.n), call.accumulate is True
    if adds and call.c is not None:
        raise LaunchError("matmul: accumulate=True and c= exclude each other")
    if adds:
        problem.add("c", out, sizes)
    elif call.c is not None:
        problem.add("c", _at_least_two(view_of(call.c)), sizes)
    i = 0
    for part in call.epilogue:
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


def _contraction(call: Call, problem: Problem) -> Contraction:
    def operand(name: str) -> Operand:
        x = problem.matrices[name]
        return Operand(x.view.dtype, x.order, tuple(stride != 0 for stride in x.batch))

    def extra(name: str) -> Extra:
        x = problem.matrices[name]
        batch = tuple(stride != 0 for stride in x.batch)
        return Extra(x.view.dtype, axes_of(x, problem.m, problem.n), batch)

    steps, i = [], 0
    for part in call.epilogue:
        extras = tuple(extra(f"x{i + j}") for j in range(len(part.arrays)))
        i += len(part.arrays)
        steps.append(Step(part.kind, extras, part.dtype, part.function))
    out = problem.matrices["out"]
    sums = (
        None if isinstance(call.accumulate, (bool, type(None))) else element_type(call.accumulate)
    )
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
        problem.long,
    )
