"""Choose register tiles for CPU micro-kernels: rows, vectors and lanes of the accumulators of the inner loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MicroTile:
    """`rows` × (`vectors`·`lanes`) accumulators; `unroll` steps of the inner loop per iteration.

    For AMX kernels `rows` and `lanes` are the extents of one hardware tile, `vectors` is the
    number of adjacent tiles, and `unroll` is the depth (K) of one tile product in elements.
    """

    rows: int
    vectors: int
    lanes: int
    unroll: int

    @property
    def columns(self) -> int:
        """Columns per panel."""
        return self.vectors * self.lanes


def choose_micro_tile(
    m: int, n: int, k: int, bits: int, vector_bits: int, registers: int, fused: bool = True
) -> MicroTile:
    """Choose the register tile for accumulators of `bits` bits.

    Considers widths whose accumulators, one row of the right operand and a broadcast fit in `registers`
    without spilling. Prefers the least column padding, then the fewest loads per multiply-add. `fused`:
    whether multiply and add are one instruction. If not, LLVM's scheduler needs registers for products in
    flight and for broadcasts (limits found by counting spills).
    """
    lanes = vector_bits // bits
    # Narrow matrices: shorter vectors rather than padding, down to 128 bits.
    while lanes > 128 // bits and lanes // 2 >= n:
        lanes //= 2
    limit = _accumulators(vector_bits, registers, fused)
    best: tuple[float, MicroTile] | None = None
    for vectors in (1, 2, 3, 4) if fused else (1, 2):
        rows = min(8, limit // vectors, m)
        rows = -(-m // -(-m // rows))  # equal blocks instead of full blocks and a small remainder
        if (vectors > 1 and (vectors - 1) * lanes >= n) or rows * vectors + vectors + 1 > registers:
            continue
        cost = _cost(m, n, rows, vectors, lanes)
        if best is None or cost < best[0] * 0.999:
            best = cost, MicroTile(rows, vectors, lanes, choose_unroll(k, 4 if fused else 2))
    assert best is not None
    return best[1]


def _accumulators(vector_bits: int, registers: int, fused: bool) -> int:
    """Return the maximum number of live accumulator vectors."""
    wide = registers >= 32
    return ((18 if vector_bits > 128 else 16) if wide else 12) if fused else (8 if wide else 6)


def tile_of_width(
    tile: MicroTile, columns: int, m: int, vector_bits: int, registers: int, fused: bool
) -> MicroTile | None:
    """Return `tile` adapted to panels of `columns` columns, or None if there is no such register tile."""
    vectors, rest = divmod(columns, tile.lanes)
    if rest or not 1 <= vectors <= 4:
        return None
    rows = min(8, _accumulators(vector_bits, registers, fused) // vectors, m)
    if rows < 1 or rows * vectors + vectors + 1 > registers:
        return None
    return MicroTile(-(-m // -(-m // rows)), vectors, tile.lanes, tile.unroll)


#: cost of loading a vector of the right operand, relative to a broadcast of the left operand
_VECTOR_WEIGHT = 2.5


def _cost(m: int, n: int, rows: int, vectors: int, lanes: int) -> float:
    """Estimate the cycles of one K step over the whole tile: two FMAs or two loads per cycle, latency 4.

    Panel vectors cost more than broadcasts. A panel that exceeds L1 is read from L2 for every block of rows, one
    cache line per vector, while a cache line of a row serves 16 steps.
    """
    panels = -(-n // (vectors * lanes))

    def block(r: int) -> float:
        return max(r * vectors / 2, (r + vectors) / 2, 4.0) + 0.05 * (r + _VECTOR_WEIGHT * vectors)

    full, rest = divmod(m, rows)
    return panels * (full * block(rows) + (block(rest) if rest else 0.0))


def choose_unroll(k: int, most: int) -> int:
    """Return the unroll factor of the inner loop: a divisor of `k` close to `most` if there is one, else `most`."""
    if k <= most:
        return k
    for unroll in (most, most + 1, most - 1):
        if unroll > 1 and k % unroll == 0:
            return unroll
    return most


def amx_tile(m: int, n: int, k: int, group: int) -> MicroTile | None:
    """Return the AMX tile that divides the extents evenly, or None if AMX is not profitable.

    `group` rows of the right operand share a 32-bit lane: 2 for 16-bit elements, 4 for 8-bit ones.
    """
    rows = _divisor(m, 16, 1)
    columns = _divisor(n, 16, 8)
    depth = _divisor(k, 16 * group, group)
    # below half of the tile capacity the fp32 kernel is as fast and needs no tile configuration
    if rows * columns * depth * 2 < 16 * 16 * 16 * group:
        return None
    return MicroTile(rows, 2 if n % (2 * columns) == 0 else 1, columns, depth)


def _divisor(extent: int, most: int, step: int) -> int:
    """Return the largest divisor of `extent` that is a multiple of `step` and at most `most`, or 0."""
    for value in range(most, 0, -step):
        if value % step == 0 and extent % value == 0:
            return value
    return 0
