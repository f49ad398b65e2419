"""Cost model of matmul tilings on a CPU.

A core multiplies a tile of A that stays in the L2 cache by panels of B that stream through L1 (Goto and van de
Geijn, 2008). Other costs: packing both operands in that order, loading and storing the accumulator at every step
of K, and storing the result. Each program packs its own operands, `(block_m + block_n) · K` elements per tile, or
operands are prepacked once for all programs, at the cost of two more launches.
"""

from __future__ import annotations

from typing import TypeAlias

from tilewright.generator.hardware_rates import cpu_rates
from tilewright.generator.workload import SIZES, Estimate, Tiling, Workload
from tilewright.targets import TargetInfo

_Sizes: TypeAlias = tuple[int, ...]
_BLOCKS: _Sizes = (16, 32, 64, 128, 256)
_DEPTHS: _Sizes = (32, 64, 128, 256)
#: of tiles with prepacked operands
_PACKED_BLOCKS, _PACKED_DEPTHS = (32, 64, 128, 256), (64, 128, 256, 512)
#: rows of a register tile, and the fraction of L2 that a step may use
_ROWS, _L2_SHARE, _PACKED_SHARE = 4, 0.75, 0.5
#: and the part of it for the accumulator, which is streamed once per step and evicts reused operands
_SUMS_SHARE = 0.36

#: rows and columns of a matrix unit's register tile
_UNIT = (32, 32)
#: bytes of accumulator that fit into the caches of any CPU
_SMALLEST = 64 << 10

#: fraction of L1 that a panel of B may use, and its width in vectors
_L1_SHARE, _PANEL_VECTORS = 0.75, 4
#: slowdown if panels of B do not stay in L1, and if nothing but panels streams through it
_BEYOND_L1, _BEYOND_L1_PACKED = 1.15, 1.02

#: fraction of the shorter of computation and memory traffic that does not overlap with the other
_EXPOSED = 0.1
#: fraction of the time of traffic beyond L2 that is not hidden, as a factor of its rate
_FAR_SHARE = 2.0
#: as a factor of the L2 rate: accumulators of packed products, whose latency is hidden
_ACCUMULATOR_OVERLAP = 6


def cpu_tilings(work: Workload, target: TargetInfo) -> list[Tiling]:
    """Candidate tilings for a CPU: operand tiles of a step and the accumulator fit into L2."""
    forms: list[tuple[bool, _Sizes, _Sizes]] = [(False, _BLOCKS, _DEPTHS)]
    if work.packable:
        forms.append((True, _PACKED_BLOCKS, _PACKED_DEPTHS))
    found: dict[Tiling, None] = {}
    for packed, blocks, depths in forms:
        rows = _even_blocks(work.m, blocks)
        if not packed and work.m <= max(blocks):
            rows = list(dict.fromkeys([_round_up_rows(work.m), *rows]))
        for block_m in rows:
            for block_n in _even_blocks(work.n, blocks):
                for block_k in _even_blocks(work.k, depths):
                    tiling = Tiling(block_m, block_n, block_k, packed=packed)
                    share = _PACKED_SHARE if packed else _L2_SHARE
                    large = _accumulator_bytes(work, tiling) > max(
                        _SUMS_SHARE * target.l2_bytes, _SMALLEST
                    )
                    if not large and _l2_working_set(work, tiling) <= share * target.l2_bytes:
                        found[tiling] = None
    return list(found)


def _round_up_rows(rows: int) -> int:
    """The tile height for few rows, rounded up in steps, so that not every number of rows needs a compilation."""
    step = 4 if rows <= 64 else 8 if rows <= 128 else 16
    return -(-rows // step) * step


def _even_blocks(extent: int, blocks: tuple[int, ...]) -> list[int]:
    """Blocks of about these sizes that divide an extent evenly, in multiples of 16."""
    found = {}
    for block in blocks:
        even = -(-extent // -(-extent // block))
        found[-(-even // 16) * 16] = None
    return list(found)


def _accumulator_bytes(work: Workload, t: Tiling) -> int:
    """Bytes of a tile's accumulator."""
    return t.block_m * t.block_n * max(4, SIZES[work.element])


def _l2_working_set(work: Workload, t: Tiling) -> int:
    """Bytes that a step keeps in L2: packed panels of B stream through."""
    size, accumulator = SIZES[work.element], _accumulator_bytes(work, t)
    if t.packed:
        return t.block_m * t.block_k * size + accumulator
    return (t.block_m + t.block_n) * t.block_k * max(4, size) + accumulator


def cpu_estimate(work: Workload, tiling: Tiling, target: TargetInfo) -> Estimate:
    """Estimated time of a tiling on a CPU."""
    rates, t, size = cpu_rates(target, work.element), tiling, SIZES[work.element]
    tiles_m, tiles_n = -(-work.m // t.block_m), -(-work.n // t.block_n)
    steps = -(-work.k // t.block_k)
    programs, cores = work.batch * tiles_m * tiles_n, max(1, target.cores)
    waves = -(-programs // cores)
    lanes = max(1, target.vector_bits // (8 * max(4, size)))
    # a register tile of a few vectors by some rows: narrow tiles leave it part empty
    fit = min(1.0, t.block_n / (2 * lanes)) * min(1.0, t.block_m / (2 * _ROWS))
    depth = steps * t.block_k
    area, near = t.block_m * t.block_n, _L1_SHARE * target.l1_bytes
    multiply = area * depth / (rates.macs_per_ns * fit)
    # a matrix unit takes a panel and rows of A faster than the second level cache gives them
    down, across = _UNIT if rates.matrix_unit else (2 * _ROWS, 2 * lanes)
    if (down + across) * t.block_k * size > near:
        read = area * depth * size * (1 / down + 1 / across)
        multiply = max(multiply, read / rates.register_bytes_per_ns)
    accumulator = steps * 2 * area * max(4, size) / rates.cache_bytes_per_ns
    # accumulator traffic overlaps the products of adjacent register tiles, more so without packing in between
    accumulator /= _ACCUMULATOR_OVERLAP if t.packed else 2
    if t.packed:
        multiply *= _BEYOND_L1_PACKED if across * t.block_k * size > near else 1.0
    else:
        panel = min(t.block_n, _PANEL_VECTORS * lanes) * t.block_k * size
        multiply *= _BEYOND_L1 if panel > near else 1.0
    # traffic from L3, mostly overlapped with products
    far = (t.block_m + t.block_n) * depth * size / (_FAR_SHARE * rates.cache_bytes_per_ns)
    store = area * SIZES[work.out] / rates.memory_bytes_per_ns
    own = rates.program_pack_bytes_per_ns
    if t.block_n * t.block_k * size <= near:
        own = rates.l1_pack_bytes_per_ns
    # operands of a matrix unit are copied once more, to interleave their rows
    moved = t.block_m + t.block_n * (2 if rates.matrix_unit else 1)
    move = 0.0 if t.packed else moved * depth * size / own
    program = multiply + accumulator + far + move + store + rates.program_ns
    parallel = programs > 1 and cores > 1
    total = waves * program + (rates.wake_ns if parallel else 0.0)
    packing, notes = 0.0, ()
    if t.packed:
        packed = work.batch * size * depth * (tiles_m * t.block_m + tiles_n * t.block_n)
        busy = min(cores, work.batch * steps * min(tiles_m, tiles_n))
        packing = packed / rates.pack_bytes_per_ns / busy + 2 * rates.launch_ns
        packing += 2 * rates.wake_ns if parallel else 0.0
        notes = _notes(t, size, target, packed, packing)
    memory_bytes = work.operand_bytes + work.result_bytes
    memory = memory_bytes / (rates.memory_bytes_per_ns * cores)
    bound = "multiply-adds" if multiply > move else "packing"
    return Estimate(
        t, max(total + packing, memory) + _EXPOSED * min(total + packing, memory), programs, waves, programs / (waves * cores),
        multiply * fit / program, 1, 0, memory_bytes, "memory" if memory > total else bound, notes,
    )  # fmt: skip


def _notes(
    t: Tiling, size: int, target: TargetInfo, packed: float, nanoseconds: float
) -> tuple[str, ...]:
    tile = t.block_m * t.block_k * size >> 10
    accumulator = t.block_m * t.block_n * max(4, size) >> 10
    return (
        f"operands packed once, {packed / 1e6:.1f} MB in about {nanoseconds / 1e3:.0f} µs; every program "
        "packing its own would pack them " + f"{t.block_m}x{t.block_n} at a time",
        f"a tile of A ({tile} KB) and its accumulators ({accumulator} KB) stay in the second level cache "
        f"({target.l2_bytes >> 10} KB), while panels of B pass through the first",
    )
