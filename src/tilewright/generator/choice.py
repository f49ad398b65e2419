"""Choose the configuration of a contraction of given sizes on a machine.

`choose` is the interface. It reads its arguments and tables that ship with the package, so the choice is reproducible:
`tuning` has measured configurations, `model` estimates the others, and rules here cover matrix-vector products.
`explain` explains a choice.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tilewright.generator import model, tuning
from tilewright.generator.config import MatmulConfig, Panels
from tilewright.generator.contraction import COLUMN, GENERAL, ROW, Contraction
from tilewright.generator.hardware_rates import LINE
from tilewright.ir.types import SHORT_NAMES
from tilewright.passes.cpu.dot_plan import GROUP, plan_dot
from tilewright.targets import TargetInfo
from tilewright.targets.instructions import WGMMA

#: bytes of the matrix that a program of the "gemv" form reads per step
_VECTOR_BYTES = 16 << 10
#: programs per SM for the "gemv" form, and the largest split-K to reach it
_VECTOR_PROGRAMS, _MOST_PARTS = 4, 32

#: bytes of the widest access per thread
_ACCESS = 16
#: limit for joined rows: column indices have 32 bits, and a workspace holds the partial sums of all batches
_MOST_SUMS = 1 << 30

#: SwapAB is chosen if its estimate is below this fraction
_SWAP_BELOW = 0.982
#: the same for many rows, where either order has tiles that fit
_SWAP_MANY_BELOW, _MANY_ROWS = 0.97, 513
#: rows that leave so many of the 64 of `wgmma` empty that SwapAB, whose tiles fit them, is always chosen
_FEW_ROWS = 48

#: a tile size for asking which micro-kernel a CPU has for a type
_USUAL = model.Tiling(64, 64, 64, packed=True)

#: on a CPU: bytes per row that a program of the "gemv" form reads per step, rows per step, and accumulator vectors for a
#: K-major matrix
_RUN_BYTES, _RUN_ROWS, _RUN_VECTORS = 1024, 8, 4
#: bytes of the matrix per split-K slice, at least
_PART_BYTES = 1 << 18


def choose(
    contraction: Contraction,
    m: int,
    n: int,
    k: int,
    target: TargetInfo,
    batch: int = 1,
    tuned: bool = True,
    packed: bool = False,
    may_swap: bool = False,
) -> MatmulConfig:
    """The configuration of a matmul of these sizes.

    Args:
        target: its features, cores, rates, shared memory and cache sizes are read.
        tuned: whether to look in the tables of measured configurations first.
        packed: whether the rows of an MN-major matrix in a matrix-vector product are contiguous in memory.
        may_swap: whether the configuration may have `swap_operands`.
    """
    work = workload(contraction, m, n, k, batch)
    if work.m == 1 or work.n == 1:
        return _vector(contraction, work, target, work.batch if packed else 0)
    known = tuning.found(work, orders(contraction), target) if tuned else None
    if known is not None and (may_swap or not known.swap_operands):
        return known
    chosen = _chosen(work, contraction, target)
    if may_swap:
        swapped = _chosen_swapped(contraction, work, target, chosen)
        if swapped is not None:
            return configuration(swapped.tiling).with_(swap_operands=True)
    tiling = chosen.tiling
    config = configuration(tiling)
    return config.with_(prepack=panels(contraction, tiling, target)) if tiling.packed else config


def explain(
    contraction: Contraction, m: int, n: int, k: int, target: TargetInfo, batch: int = 1
) -> str:
    """Explain the choice for a matmul, as text."""
    work = workload(contraction, m, n, k, batch)
    if work.m == 1 or work.n == 1:
        config = _vector(contraction, work, target, work.batch)
        sizes = f"{work.m} x {work.n} x {work.k}"
        return f"{sizes} on {target.name}: {config.text}\n  a vector: nothing is reused"
    chosen = _chosen(work, contraction, target)
    known = tuning.found(work, orders(contraction), target)
    if known is not None:
        return f"{chosen.explain()}\n  measured to be fastest, and taken: {known.text}"
    swapped = _chosen_swapped(contraction, work, target, chosen)
    if swapped is not None:
        return f"{chosen.explain(0)}\n  faster with operands swapped, as tilewright.matmul does:\n{swapped.explain()}"
    stages = chosen.tiling.stages
    if not stages:
        return chosen.explain()
    config = configuration(chosen.tiling)
    return (
        f"{chosen.explain()}\n  taken: {config.text} (num_stages={config.num_stages}: of {stages} "
        "stages one is in use)"
    )


def orders(contraction: Contraction) -> str:
    """The operands' orders as in the tables of measured configurations."""
    return f"{contraction.a.order} {contraction.b.order}"


def _chosen(work: model.Workload, contraction: Contraction, target: TargetInfo) -> model.Choice:
    if not target.is_gpu and work.packable and panels(contraction, _USUAL, target) is None:
        work = replace(work, packable=False)
    return model.choose(work, target, lambda t: can_be_built(t, target))


def _chosen_swapped(
    contraction: Contraction, work: model.Workload, target: TargetInfo, plain: model.Choice
) -> model.Choice | None:
    """The choice for SwapAB, outᵀ = bᵀ · aᵀ, if it is better than `plain`: few rows, which would leave most of the 64
    rows of `wgmma` empty, or a small remainder of columns. None if the contraction cannot be swapped, the target has no
    `wgmma`, or operands are not loaded by TMA (rows aligned to less than 16 bytes)."""
    other = contraction.swapped()
    if other is None or not target.mma_unit(WGMMA) or work.m >= work.n:
        return None
    if any(start % _ACCESS for start in _all_starts(contraction, work.m, work.n, work.k)):
        return None
    found = _chosen(workload(other, work.n, work.m, work.k, work.batch), other, target)
    if work.m <= _FEW_ROWS:
        return found
    whole = found.tiling.split_k < plain.tiling.split_k
    below = _SWAP_MANY_BELOW if work.m >= _MANY_ROWS else _SWAP_BELOW
    share = 1 + model.SPLIT_GAIN if whole else below
    return found if found.best.nanoseconds < share * plain.best.nanoseconds else None


def workload(contraction: Contraction, m: int, n: int, k: int, batch: int = 1) -> model.Workload:
    """A contraction of given sizes as the cost model's input. Sizes of 0 count as 1."""
    m, n, k, batch = (max(1, x) for x in (m, n, k, batch))
    element = contraction.a.dtype.short_name
    if element == "fp32" and contraction.precision == "tf32":
        element = "tf32"
    accumulator = contraction.accumulator_type.short_name
    read = [e.dtype.itemsize for e in contraction.extras if e.axes == "mn"]
    if contraction.addend is not None:
        read.append(contraction.addend.dtype.itemsize)
    across = "a" * (contraction.a.order == COLUMN) + "b" * (contraction.b.order == ROW)
    return model.Workload(
        m, n, k, batch, element, contraction.out.dtype.short_name, accumulator,
        float(sum(read)), _packable(contraction), across, _starts(contraction, m, n, k),
    )  # fmt: skip


def _starts(contraction: Contraction, m: int, n: int, k: int) -> tuple[int, int]:
    """Alignment in bytes of the rows of contiguous operands, as far as it matters for TMA (16, up to a cache line)."""
    starts = _all_starts(contraction, m, n, k)
    return starts if min(starts) >= _ACCESS else (LINE, LINE)


def _all_starts(contraction: Contraction, m: int, n: int, k: int) -> tuple[int, int]:
    a, b = contraction.a, contraction.b
    rows = (m if a.order == COLUMN else k, k if b.order == COLUMN else n)
    return math.gcd(rows[0] * a.dtype.itemsize, LINE), math.gcd(rows[1] * b.dtype.itemsize, LINE)


def _packable(contraction: Contraction) -> bool:
    """Whether a CPU micro-kernel takes both operands and accumulates in the accumulator type."""
    a, b, accumulator = contraction.a.dtype, contraction.b.dtype, contraction.accumulator_type
    if contraction.a.order == GENERAL or contraction.b.order == GENERAL or a != b:
        return False
    return not (a.is_int() and a.is_int_unsigned()) and accumulator.primitive_bitwidth >= 32


def panels(contraction: Contraction, tiling: model.Tiling, target: TargetInfo) -> Panels | None:
    """Packing of operands for a CPU micro-kernel; None if it converts them, too."""
    kinds = contraction.a.dtype.short_name, contraction.accumulator_type.short_name
    if not all(kind in _IR_NAMES for kind in kinds):
        return None
    element, accumulator = (_IR_NAMES[kind] for kind in kinds)
    plan = plan_dot(
        tiling.block_m, tiling.block_n, tiling.block_k, element, element, accumulator, target
    )
    if plan.kind == "amx_fp16" or plan.acc_type != accumulator or tiling.block_k % GROUP[plan.kind]:
        return None
    if tiling.block_n % plan.micro.columns:
        return None
    packed = "" if plan.a_type == element else SHORT_NAMES[plan.a_type]
    return Panels(plan.micro.columns, GROUP[plan.kind], packed)


_IR_NAMES = {short: name for name, short in SHORT_NAMES.items()}


def configuration(tiling: model.Tiling) -> MatmulConfig:
    """The configuration of a tiling. (A tiling's stages count buffers, `num_stages` those in advance: an MMA in flight
    takes one more, unless that would leave room for fewer CTAs per SM.)"""
    ahead = tiling.stages if tiling.two_ctas else max(1, tiling.stages - 1)
    return MatmulConfig(
        tiling.block_m, tiling.block_n, tiling.block_k, tiling.group, tiling.warps,
        ahead, tiling.split_k, tiling.persistent, tma_multicast=bool(tiling.multicast),
        multicast_operand=tiling.multicast or "b",
    )  # fmt: skip


def can_be_built(tiling: model.Tiling, target: TargetInfo) -> bool:
    """Whether the back ends support a tiling: on GPUs powers of two, for `wgmma` also three times these, with columns
    in multiples of 8."""
    if not target.is_gpu:
        return True
    groups = bool(target.mma_unit(WGMMA))
    odd = (1, 3) if groups else (1,)
    blocks = (tiling.block_m, tiling.block_n, tiling.block_k)
    if groups and tiling.block_n % 8 == 0:
        blocks = (tiling.block_m, tiling.block_k)
    return all(block // (block & -block) in odd for block in blocks)


def _vector(
    contraction: Contraction, work: model.Workload, target: TargetInfo, packed: int
) -> MatmulConfig:
    """Configuration of a matrix-vector product: long runs along the contiguous axis, enough programs. `packed`:
    contiguous rows (0: they are not)."""
    m, n, k = work.m, work.n, work.k
    matrix, along_rows = (contraction.a, ROW) if n == 1 else (contraction.b, COLUMN)
    size, extent = matrix.dtype.itemsize, m if n == 1 else n
    if not target.is_gpu:
        along = matrix.order == along_rows
        return _streamed(matrix, extent, k, along, n == 1, target)
    if matrix.order in (along_rows, GENERAL):
        joined = 1
        deep = min(_power(k), 2048 // size)
        across = min(_power(extent), max(1, _VECTOR_BYTES // (deep * size)))
    else:
        joined = _joined(extent * size, k) if packed and m != n else 1
        if extent < joined * 256 // size or packed * extent * joined > _MOST_SUMS:
            joined = 1
        across = min(_power(extent), joined * 256 // size)
        deep = min(_power(k), max(1, _VECTOR_BYTES // (across * size)))
    # bytes in flight decide: several programs per SM
    wanted = _VECTOR_PROGRAMS * max(1, target.cores)
    split = min(
        wanted // -(-extent * joined // across), k // (2 * deep * joined), _MOST_PARTS // joined
    )
    tile = (across, 1) if n == 1 else (1, across)
    return MatmulConfig(
        *tile, deep, group_m=1, num_warps=8 if joined > 1 else 4, split_k=max(1, split), form="gemv",
        rows_per_load=joined,
    )  # fmt: skip


def _joined(row: int, k: int) -> int:
    """The number of rows that together are a multiple of the widest access; 1 if K is not a multiple of it."""
    joined = _ACCESS // math.gcd(row, _ACCESS)
    return joined if k % joined == 0 else 1


def _streamed(
    matrix: Any, extent: int, k: int, along: bool, column: bool, target: TargetInfo
) -> MatmulConfig:
    """The same on a CPU: the matrix is read once, and accumulators stay in registers.

    For an MN-major matrix a few rows are added in registers before the accumulator is updated, in runs that hardware
    prefetching follows. K is split if there are too few columns for all cores.
    """
    lanes = max(1, target.vector_bits // (8 * max(4, matrix.dtype.itemsize)))
    if along:
        deep = min(_power(k), _RUN_VECTORS * lanes)
        return MatmulConfig(1, 1, deep, group_m=1, form="gemv")
    across = min(_power(extent), _RUN_BYTES // matrix.dtype.itemsize)
    programs = max(1, -(-extent // across))
    wanted = -(-2 * target.cores // programs) if programs < target.cores else 1
    most = min(_MOST_PARTS, extent * k * matrix.dtype.itemsize // _PART_BYTES)
    tile = (across, 1) if column else (1, across)
    split = max(1, min(wanted, most))
    deep = min(_power(k), _RUN_ROWS)
    return MatmulConfig(*tile, deep, group_m=1, split_k=split, form="gemv")


def _power(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(0, number - 1).bit_length()
