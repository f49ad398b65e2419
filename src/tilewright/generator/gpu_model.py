"""Cost model of matmul tilings on a GPU.

A matmul of M × N × K is divided into tiles of block_m × block_n. A program computes one tile, in steps of K. The
estimated time of a candidate is

    launch + waves · (fill + steps · time of a step + epilogue) + reduction of split-K parts

with `waves = ceil(tiles / SMs)`. The last wave costs as much as a full one, which matters most at sizes of 1536 to
3072. A step (32 bytes of K) occupies the tensor cores, shared memory and the path from L2. These overlap, so the
longest decides (a 10-norm of the three). `wgmma` reads a 64-row block of A at half the rate, and all of B for every
64 rows: 128 × 64 tiles starve the tensor cores, 64 × 256 tiles do not. MMAs overlap less with memory traffic,
because the programs of a wave start and end together.

DRAM is saturated by half of the SMs with enough bytes in flight. So a last wave of few programs costs more than its share
of the bytes unless two CTAs per SM make it part of the first, and a persistent kernel gains nothing where DRAM decides.

The parameters were fitted on an H200 to 170 matmuls of 14 shapes in CUDA graphs, where the model's choice is 1 % slower
than the fastest on average (`tests/generator/test_model.py` has choices and times), and to 2,100 of 86 shapes with 7 to
65,536 rows and a cold L2, where it is 2 % slower.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.generator.hardware_rates import (
    CLUSTER_TILES,
    HALF_TILES,
    LINE,
    PLAIN_TILES,
    WARP_GROUP_TILES,
    WARP_TILES,
    WIDE_TILES,
    fitted_tiles,
    from_l2,
    gpu_rates,
    register_operand,
    tensor_macs,
    wgmma_shared_traffic,
)
from tilewright.generator.workload import SIZES, Estimate, Tiling, Workload
from tilewright.layouts.shared import SWIZZLE_ATOM_BYTES, padded_swizzle, widest_swizzle
from tilewright.passes.gpu.analysis.registers import register_split
from tilewright.targets import GpuRates, SmLimits, TargetInfo
from tilewright.targets.instructions import WGMMA

#: norm that combines the units of a step: the larger, the more the slowest decides
_NORM = 10
#: norm that combines MMAs and memory traffic (infinity: perfect overlap)
_MEMORY_NORM = 1.8
#: weight of shared-memory writes relative to operand reads
_WRITE_SHARE = 0.2
#: registers of a thread besides its accumulators
_OTHER_REGISTERS = 40
_REGISTERS_PER_SM = 64 << 10
#: fraction of the FMA rate that code without tensor cores reaches
_PLAIN_SHARE = 0.6
#: fraction of L2 that operands may fill without being evicted before they are read again
_L2_SHARE = 0.6
#: time that a persistent kernel saves per tile after the first, because its producer warp loads ahead: fp16
#: matmuls of 4096 and 8192 in 128 × 256 tiles gained 1.4 and 0.8 % on an H200 (ADR 7)
_FETCHED_AHEAD_NS = 600.0
_FEWEST_STAGES_AHEAD = 3
#: bytes of stages that suffice if results pass through shared memory, too
_BYTES_AHEAD = 128 << 10
#: bytes of an epilogue subtile, at least
_PART_BYTES = 16 << 10
#: accumulator registers per thread with which persistent kernels were measured, and registers needed in addition
_MAX_ACCUMULATORS_WITH_PRODUCER, _BESIDE_SUMS = 128, 32
#: the latter, and the most warps, where the producer's registers become the consumers' (`specialize-warps`)
_OTHER_REGISTERS_OF_CONSUMERS, _MOST_CONSUMER_WARPS = 48, 8
#: time per part of K: 16 and 33 rows times 4096 x 14336 took 42, 44, 46 and 48 µs in 2, 4, 6 and 8 parts (H200)
_PART_NS = 900.0
#: time in which an SM receives what all stages of its CTAs hold: 7 x 4096 x 4096 in 64 x 8 tiles took 20.4 µs with 64 KB
#: in flight, 16.6 with 129 and 16.3 with 184 (H200)
_FLIGHT_NS = 1800.0
#: elements of the smallest tiles measured so; smaller ones have several resident CTAs per SM
_LEAST_TILE_AHEAD = 128 * 128

_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
#: elements of tiles that are tried with deeper steps: their MMAs end before the next step's barrier
_NARROW = 128 * 40
_FEWEST_DEEP_STAGES = 5
#: stages per CTA with which two per SM hide as much latency as one with twice as many
_FEWEST_STAGES_FOR_TWO = 3


def gpu_tilings(work: Workload, target: TargetInfo) -> list[Tiling]:
    """Candidate tilings that fit the target."""
    size = SIZES[work.element]
    groups = _warp_groups(work, target)
    tensor = tensor_macs(gpu_rates(target), work.element) > 0
    tiles = WARP_GROUP_TILES if groups else WARP_TILES if tensor else PLAIN_TILES
    if groups and size == 2:
        tiles = (*WIDE_TILES, *tiles)
    if groups and size == 1 and not work.mn_major:
        tiles = (*_tall(work, target), *tiles)
    if groups and work.accumulator == "fp16":
        tiles = (*HALF_TILES, *tiles)
    if groups:
        narrow = work.accumulator != "i32" and "b" not in work.mn_major
        tiles = dict.fromkeys((*tiles, *fitted_tiles(work.n, narrow)))
    found = []
    for block_m, block_n, warps in tiles:
        if groups and block_n < min(64, work.n):
            continue  # the other operand would be read once for every few columns
        if _wasteful(block_m, work.m, 64 if groups else 16) or _wasteful(
            block_n, work.n, 8 if groups else 16
        ):
            continue
        if not tensor and block_m * block_n < 64 * 64 and _fills_target(work, target):
            continue
        if _registers(work, block_m, block_n, warps) > target.max_registers - 8:
            continue
        block_k = max(16, 128 // size) if groups else max(16, 64 // size)
        deep = groups and block_m * block_n <= _NARROW and work.k >= 16 * block_k
        for depth in (block_k, 2 * block_k, 4 * block_k) if deep else (block_k,):
            found += _of_tile(work, target, (block_m, block_n, depth), warps, groups)
    return found


def _tall(work: Workload, target: TargetInfo) -> list[tuple[int, int, int]]:
    """Tiles of 256 rows for 8-bit elements, up to two waves: persistent kernels are faster beyond that."""
    tall = [tile for tile in WIDE_TILES if tile[0] == 256]
    most = 2 * target.cores
    return [(m, n, w) for m, n, w in tall if work.batch * -(-work.m // m) * -(-work.n // n) <= most]


def _of_tile(
    work: Workload, target: TargetInfo, block: tuple[int, int, int], warps: int, groups: bool
) -> list[Tiling]:
    """Candidates with a given tile: split-K slices, and persistent kernels."""
    stages = _stages(work, *block, target)
    deep = groups and block[2] * SIZES[work.element] > LINE
    if stages < (_FEWEST_DEEP_STAGES if deep else 2):
        return []
    group = _group(work, block[0], block[1], target.cores or 1)
    found = [
        Tiling(*block, warps, stages, group, split)
        for split in _SPLITS
        if split == 1 or -(-work.k // split) >= 8 * block[2]
    ]
    tiles = work.batch * -(-work.m // block[0]) * -(-work.n // block[1])
    fewer = _stages_for_two(work, block, target)
    if groups and block[0] * block[1] <= _NARROW and _FEWEST_STAGES_FOR_TWO <= fewer < stages:
        found.append(Tiling(*block, warps, fewer, group, two_ctas=True))
    if not groups or work.epilogue_bytes or _is_transposed(work):
        return found
    return [*found, *_persistent(work, target, block, warps, tiles)]


def _persistent(
    work: Workload, target: TargetInfo, block: tuple[int, int, int], warps: int, tiles: int
) -> list[Tiling]:
    """Candidates that compute many tiles, or two by two."""
    ahead = _stages_ahead(work, block, target)
    registers = block[0] * block[1] // (32 * warps)
    if ahead < _FEWEST_STAGES_AHEAD or registers > _max_accumulators_with_producer(warps):
        return []
    group = _group(work, block[0], block[1], target.cores or 1)
    alone = Tiling(*block, warps, ahead, group, persistent=True)
    # 2048 x 11008 x 4096 gained 1.4 % in tiles of 256 x 176, 2048 x 5120 x 13824 lost 3 % in 256 x 160 (H100)
    worth = (
        block[0] * block[1] >= _LEAST_TILE_AHEAD and registers <= _MAX_ACCUMULATORS_WITH_PRODUCER
    )
    found = [alone] if worth and tiles > target.cores else []
    if min(work.row_alignment) >= LINE:
        return found
    if work.m > block[0] and block[1] % 16 == 0:
        pair = _balanced(-(-work.m // (2 * block[0])), max(1, group // 2))
        found.append(replace(alone, group=2 * pair, multicast="b"))
    if work.n > block[1]:
        found.append(replace(alone, multicast="a"))
    return found


def _is_transposed(work: Workload) -> bool:
    """Whether an operand is transposed in shared memory before MMAs read it, which a single resident CTA cannot hide.

    `benchmarks/gpu_pass_ablation.py` measures fp8 with a row-major B and tf32, persistent and not.
    """
    return bool(work.mn_major) and SIZES[work.element] != 2


def _stages_ahead(work: Workload, block: tuple[int, int, int], target: TargetInfo) -> int:
    """Pipeline stages next to the result that is being stored: it passes through shared memory whole if that leaves
    enough stages, otherwise in epilogue subtiles (`pipeline-loads`, `lower-stores-to-tma`)."""
    stage = (block[0] + block[1]) * block[2] * SIZES[work.element]
    enough = max(_FEWEST_STAGES_AHEAD, -(-_BYTES_AHEAD // stage))
    whole = _stages(work, *block, target, block[0] * (block[1] * SIZES[work.out] + 16))
    panel = block[0] * widest_swizzle(block[1], SIZES[work.out])
    in_parts = _stages(work, *block, target, 2 * max(panel, _PART_BYTES))
    return max(whole, min(in_parts, enough))


def _max_accumulators_with_producer(warps: int) -> int:
    """Accumulator registers per thread with which a producer warp still has registers: each partition of an SM holds
    a quarter of the warps, rounded up."""
    registers = _REGISTERS_PER_SM // (128 * (warps // 4 + 1)) & ~7
    with_a_warp = min(_MAX_ACCUMULATORS_WITH_PRODUCER, registers - _BESIDE_SUMS)
    if warps > _MOST_CONSUMER_WARPS:
        return with_a_warp
    return max(with_a_warp, register_split(warps)[1] - _OTHER_REGISTERS_OF_CONSUMERS)


def _warp_groups(work: Workload, target: TargetInfo) -> bool:
    return bool(target.mma_unit(WGMMA)) and tensor_macs(gpu_rates(target), work.element) > 0


def _wasteful(block: int, extent: int, least: int) -> bool:
    """Whether half of the tile or more is out of bounds and a smaller tile exists."""
    return block > least and block >= 2 * extent


def _fills_target(work: Workload, target: TargetInfo) -> bool:
    """Whether 64 × 64 tiles occupy every SM."""
    return work.batch * (work.m // 64) * (work.n // 64) >= target.cores


def _registers(work: Workload, block_m: int, block_n: int, warps: int) -> int:
    """Registers per thread."""
    words = max(1, SIZES[work.accumulator] / 4) if work.accumulator != "fp16" else 0.5
    return int(block_m * block_n * words / (32 * warps)) + _OTHER_REGISTERS


def _stages(
    work: Workload, m: int, n: int, k: int, target: TargetInfo, other_bytes: int = 0
) -> int:
    """Pipeline stages: as many as fit into shared memory (`other_bytes`: those of other buffers), at most 8 and at most
    the number of steps."""
    stage = (m + _loaded_columns(work, n, target)) * k * SIZES[work.element]
    room = target.shared_bytes - (2 << 10) - other_bytes
    return min(room // stage, 8, max(2, -(-work.k // k) + 1))


def _stages_for_two(work: Workload, block: tuple[int, int, int], target: TargetInfo) -> int:
    """The most stages with which two CTAs are resident per SM."""
    beside = target.sm.shared_bytes // 2 - target.sm.reserved_shared_bytes
    return _stages(work, *block, target, target.shared_bytes - beside)


def _loaded_columns(work: Workload, n: int, target: TargetInfo) -> int:
    """Columns of B that are loaded for n: whole swizzle panels if B is MN-major in shared memory."""
    size = SIZES[work.element]
    if size != 2 or "b" not in work.mn_major or not _warp_groups(work, target):
        return n
    width = max(SWIZZLE_ATOM_BYTES, padded_swizzle(n, size)) // size
    return -(-n // width) * width


def _group(work: Workload, block_m: int, block_n: int, cores: int) -> int:
    """Rows of tiles per group: minimizes the bytes that a wave reads. If a wave reads everything in any order,
    adjacent programs share the larger operand (333 x 4096 x 14336, SwapAB: groups of 2 rows 60 µs, of 16 70 µs;
    256 x 5120 x 13824 without SwapAB: 72 and 61 µs)."""
    tiles_m, tiles_n = -(-work.m // block_m), -(-work.n // block_n)

    def read(group: int) -> tuple[int, int]:
        columns = min(-(-cores // min(group, tiles_m)), tiles_n)
        rows = min(max(min(group, tiles_m), -(-cores // columns)), tiles_m)
        return rows * block_m + columns * block_n, group if work.m > work.n else -group

    return _balanced(tiles_m, min((2, 4, 8, 16, 32), key=read))


def _balanced(tiles_m: int, group: int) -> int:
    """The group, enlarged so that no few rows of tiles are left for a last one, which would read all of B for themselves:
    4099 x 4096 x 4096 took 185 µs in groups of 16, 16 and 1 rows of tiles and 177 in groups of 17 and 16 (H100)."""
    rest = tiles_m % group
    if tiles_m < group or not 0 < rest < group // 2:
        return group
    return -(-tiles_m // (tiles_m // group))


def gpu_estimate(work: Workload, tiling: Tiling, target: TargetInfo) -> Estimate:
    """Estimated time of a tiling on a GPU."""
    rates, cores, size = gpu_rates(target), target.cores or 1, SIZES[work.element]
    t = tiling
    tiles_m, tiles_n = -(-work.m // t.block_m), -(-work.n // t.block_n)
    programs = work.batch * tiles_m * tiles_n * t.split_k
    if t.multicast:
        down, across = (2, 1) if t.multicast == "b" else (1, 2)
        clusters = -(-tiles_m // down) * -(-tiles_n // across)
        programs, cores = work.batch * 2 * clusters, cores // 2 * 2
    waves = -(-programs // cores)
    parts = _step(work, t, target, rates)
    step = sum(p**_NORM for p in parts.values()) ** (1 / _NORM)
    step *= WIDE_TILES.get((t.block_m, t.block_n, t.warps), 1.0)
    step *= CLUSTER_TILES.get((t.block_m, t.block_n), 1.0) if t.multicast else 1.0
    if t.warps <= 4 or t.block_m * t.block_n <= _NARROW:
        step += rates.single_warpgroup_stall_cycles * 32 / (t.block_k * size) / rates.clock_ghz
    steps = math.ceil(work.k / t.split_k * size / 32)
    stored = t.block_m * t.block_n * (4 if t.split_k > 1 else SIZES[work.out])
    shared = t.stages * (t.block_m + _loaded_columns(work, t.block_n, target)) * t.block_k * size
    resident = 1 if t.persistent else _resident(work, t, shared, target.sm)
    # CTAs resident on one SM hide each other's prologue and epilogue
    rounds = -(-waves // resident)
    edges = rates.fill_ns + stored / rates.store_bytes_per_cycle / rates.clock_ghz
    busy = waves * steps * step + rounds * edges
    memory_bytes = _memory_bytes(work, t, tiles_m, tiles_n, waves, cores, target)
    in_flight = resident * shared * cores / (2 * rates.dram_bytes_per_ns * _FLIGHT_NS)
    memory = memory_bytes / rates.dram_bytes_per_ns
    memory *= _uneven(programs, cores, resident, in_flight)
    if t.persistent:  # loads ahead of time wait for memory if that is the bottleneck
        busy -= (waves - 1) * _FETCHED_AHEAD_NS * max(0.0, 1 - memory / busy)
    reduction = 0.0
    if t.split_k > 1:
        reduction = _reduction(work, t, target, rates)
    both = (busy**_MEMORY_NORM + memory**_MEMORY_NORM) ** (1 / _MEMORY_NORM)
    total = rates.launch_ns + both + reduction
    total += _CLUSTERS_NS if t.multicast else 0.0
    bound = "memory" if memory > busy else max(parts, key=lambda name: parts[name])
    filled = programs / (waves * cores)
    notes = _notes(work, t) if _warp_groups(work, target) else ()
    return Estimate(
        t, total, programs, waves, filled, parts["tensor cores"] / step, resident, shared,
        memory_bytes, bound, notes,
    )  # fmt: skip


def _uneven(programs: int, cores: int, resident: int, in_flight: float) -> float:
    """Time to stream the operands of all programs, relative to the time if DRAM were saturated throughout.

    It takes half of the SMs for that, and the last programs may be fewer. `in_flight`: bytes that an SM of a saturated
    half requests at a time, as a fraction of what it must.
    """
    last = programs % (cores * resident)

    def slowed(active: int) -> float:
        return max(1.0, cores / (2 * active * min(1.0, in_flight)))

    return ((programs - last) * slowed(cores) + last * slowed(min(cores, max(1, last)))) / programs


def _notes(work: Workload, t: Tiling) -> tuple[str, ...]:
    through = register_operand(work.element, work.mn_major, t.block_m, t.block_n, t.warps)
    return (f"{through.upper()} lies across k and passes through registers",) if through else ()


def _reduction(work: Workload, t: Tiling, target: TargetInfo, rates: GpuRates) -> float:
    """Nanoseconds to write the partial sums of all split-K slices and to add them in a second launch."""
    partial = 4.0 * work.batch * work.m * work.n * t.split_k
    near = 0.3 * target.cores * rates.l2_bytes_per_cycle * rates.clock_ghz
    fits = partial <= _L2_SHARE * target.l2_bytes
    moved = 2 * partial / (near if fits else rates.dram_bytes_per_ns)
    return moved + rates.second_launch_ns + t.split_k * _PART_NS


def _macs(work: Workload, rates: GpuRates) -> float:
    """Multiply-adds per cycle and SM."""
    tensor = tensor_macs(rates, work.element)
    if tensor:
        return tensor * (rates.half_accumulator_rate if work.accumulator == "fp16" else 1.0)
    if work.element == "fp64":
        return float(rates.double_macs)
    return _PLAIN_SHARE * rates.plain_macs


def _step(work: Workload, t: Tiling, target: TargetInfo, rates: GpuRates) -> dict[str, float]:
    """Nanoseconds that 32 bytes of K occupy each unit of an SM."""
    size = SIZES[work.element]
    multiply = t.block_m * t.block_n * (32 / size) / _macs(work, rates)
    if _warp_groups(work, target):
        rows = wgmma_shared_traffic(
            work.element, size, work.mn_major, t.block_m, t.block_n, t.warps
        )
    else:
        down, across = _warp_grid(t)
        rows = t.warps * (t.block_m // down + t.block_n // across)
    brought = t.block_m + _loaded_columns(work, t.block_n, target)
    filled = _WRITE_SHARE * brought
    shared = (rows + filled) * 32 / rates.shared_bytes_per_cycle
    of_a, of_b = (from_l2(start, rates) for start in work.row_alignment)
    of_a *= 2 if t.multicast == "a" else 1
    of_b *= 2 if t.multicast == "b" else 1
    far = 32 * (t.block_m / of_a + (brought - t.block_m) / of_b)
    return {
        "tensor cores": multiply / rates.tensor_clock_ghz,
        "shared memory": shared / rates.clock_ghz,
        "L2": far / rates.clock_ghz,
    }


def _warp_grid(t: Tiling) -> tuple[int, int]:
    """Warp grid of a tile: rows and columns of warps, as square as possible."""
    down = 1
    while down < t.warps and t.block_m // down > t.block_n // (t.warps // down):
        down *= 2
    return down, max(1, t.warps // down)


def _resident(work: Workload, t: Tiling, shared: int, sm: SmLimits) -> int:
    by_shared = sm.shared_bytes // (shared + sm.reserved_shared_bytes)
    registers = -(-_registers(work, t.block_m, t.block_n, t.warps) // 8) * 8
    return max(1, min(by_shared, _REGISTERS_PER_SM // (32 * t.warps * registers), sm.max_ctas))


#: additional DRAM traffic of rows that start inside a cache line (the same shapes)
_READ_INSIDE_LINES = 1.5
#: cost of clusters, whose CTAs start and end together (12 shapes with K = 4104 on an H200, cold L2)
_CLUSTERS_NS = 3500.0


def _memory_bytes(
    work: Workload,
    t: Tiling,
    tiles_m: int,
    tiles_n: int,
    waves: int,
    cores: int,
    target: TargetInfo,
) -> float:
    """DRAM traffic in bytes: operands once if they fit into L2, otherwise what each wave reads; more for rows that start
    inside a cache line."""
    read = _READ_INSIDE_LINES if min(work.row_alignment) < LINE else 1.0
    once = read * work.operand_bytes + work.result_bytes
    if work.operand_bytes <= _L2_SHARE * target.l2_bytes:
        return once
    rows = min(t.group, tiles_m)
    columns = min(-(-cores // rows), tiles_n)
    wave = (rows * t.block_m + columns * t.block_n) * work.k / t.split_k * SIZES[work.element]
    return max(once, read * waves * wave + work.result_bytes)
