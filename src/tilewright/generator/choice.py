"""Which configuration a contraction of given sizes takes on a machine.

`choose` is the one interface. It looks at nothing but its arguments and tables that ship with the package,
so the choice is reproducible; `tuning` holds products that were measured, `model` does the reckoning for
others, a rule stands here for products with a vector. `explain` says how a choice came about.
"""

from __future__ import annotations

from typing import Any

from tilewright.generator import model, tuning
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import COLUMN, ROW, Contraction

#: bytes of the matrix that a program of the "vector" form reads at a time
_VECTOR_BYTES = 16 << 10
#: programs of the "vector" form that a multiprocessor should have, and into how many parts K may be cut for it
_VECTOR_PROGRAMS, _MOST_PARTS = 4, 32


def choose(
    contraction: Contraction,
    m: int,
    n: int,
    k: int,
    target: Any,
    batch: int = 1,
    tuned: bool = True,
) -> MatmulConfig:
    """The configuration for a product of these sizes.

    Args:
        target: a `backends.base.TargetInfo`; name, features, cores, shared memory and cache sizes are
            read.
        tuned: whether to look in the tables of measured products first.
    """
    if m == 1 or n == 1:
        return _vector(contraction, m, n, k, target)
    work = workload(contraction, m, n, k, batch)
    known = tuning.found(work, orders(contraction), target) if tuned else None
    return known or configuration(_chosen(work, target).tiling)


def explain(contraction: Contraction, m: int, n: int, k: int, target: Any, batch: int = 1) -> str:
    """How the choice for a product came about, for people."""
    if m == 1 or n == 1:
        config = _vector(contraction, m, n, k, target)
        return f"{m} x {n} x {k} on {target.name}: {config.text}\n  a vector: nothing is reused"
    work = workload(contraction, m, n, k, batch)
    text = _chosen(work, target).explain()
    known = tuning.found(work, orders(contraction), target)
    return text if known is None else f"{text}\n  measured to be fastest, and taken: {known.text}"


def orders(contraction: Contraction) -> str:
    """The operands' orders as tables name them."""
    return f"{contraction.a.order} {contraction.b.order}"


def _chosen(work: model.Workload, target: Any) -> model.Choice:
    return model.choose(work, target, lambda t: can_be_built(t, target))


def workload(contraction: Contraction, m: int, n: int, k: int, batch: int = 1) -> model.Workload:
    """A contraction of given sizes as the model takes it."""
    element = contraction.a.dtype.short_name
    if element == "fp32" and contraction.precision == "tf32":
        element = "tf32"
    sums = contraction.sums.short_name
    read = [e.dtype.itemsize for e in contraction.extras if e.axes == "mn"]
    if contraction.addend is not None:
        read.append(contraction.addend.dtype.itemsize)
    return model.Workload(
        max(1, m), max(1, n), max(1, k), max(1, batch),
        element, contraction.out.dtype.short_name, sums, float(sum(read)),
    )  # fmt: skip


def configuration(tiling: model.Tiling) -> MatmulConfig:
    """The model's tiling as a configuration. (Its stages count buffers, `num_stages` those ahead.)"""
    return MatmulConfig(
        tiling.block_m, tiling.block_n, tiling.block_k, tiling.group, tiling.warps,
        max(1, tiling.stages - 1), tiling.split_k,
    )  # fmt: skip


def can_be_built(tiling: model.Tiling, target: Any) -> bool:
    """What the back ends take: powers of two, and for products of warp groups three times such."""
    odd = (1, 3) if target.name == "sm_90a" else (1,)
    blocks = (tiling.block_m, tiling.block_n, tiling.block_k)
    return all(block // (block & -block) in odd for block in blocks)


def _vector(contraction: Contraction, m: int, n: int, k: int, target: Any) -> MatmulConfig:
    """A matrix times a vector: long runs along whichever axis is contiguous, enough programs."""
    matrix, along_rows = (contraction.a, ROW) if n == 1 else (contraction.b, COLUMN)
    size, extent = matrix.dtype.itemsize, m if n == 1 else n
    if matrix.order == along_rows or (matrix.order != ROW and matrix.order != COLUMN):
        deep = min(_power(k), 2048 // size)
        across = min(_power(extent), max(1, _VECTOR_BYTES // (deep * size)))
    else:
        across = min(_power(extent), 256 // size)
        deep = min(_power(k), max(1, _VECTOR_BYTES // (across * size)))
    split = 1
    if (
        target.name != "cpu"
    ):  # bytes on their way are what counts: several programs a multiprocessor
        wanted = _VECTOR_PROGRAMS * max(1, target.cores)
        split = min(wanted // -(-extent // across), k // (2 * deep), _MOST_PARTS)
    tile = (across, 1) if n == 1 else (1, across)
    return MatmulConfig(*tile, deep, group_m=1, num_warps=4, split_k=max(1, split), form="vector")


def _power(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(0, number - 1).bit_length()
