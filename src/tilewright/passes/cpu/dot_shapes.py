"""Register tiles of dot kernels: how many rows, vectors and lanes one pass of the inner loop keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MicroTile:
    """`rows` × (`vectors`·`lanes`) accumulators; `unroll` steps of the inner loop a trip.

    For AMX kernels `rows` and `lanes` are the extents of one hardware tile, `vectors` is how many
    of them stand side by side, and `unroll` is the depth of one tile product in elements.
    """

    rows: int
    vectors: int
    lanes: int
    unroll: int

    @property
    def columns(self) -> int:
        """Columns of one panel."""
        return self.vectors * self.lanes


def choose_micro_tile(
    m: int, n: int, k: int, bits: int, vector_bits: int, registers: int, fused: bool = True
) -> MicroTile:
    """The register tile for accumulators of `bits` bits.

    Among the widths whose accumulators, one row of the right operand and a broadcast fit in
    `registers` without spilling: the one with the least padding of columns, and then the fewest loads
    per product. `fused`: whether multiply and add are one instruction; otherwise LLVM's scheduler
    needs room for products in flight and for broadcasts (limits found by counting spills).
    """
    lanes = vector_bits // bits
    # Narrow matrices: shorter vectors rather than padding, down to 128 bits.
    while lanes > 128 // bits and lanes // 2 >= n:
        lanes //= 2
    limit = _accumulators(vector_bits, registers, fused)
    best: tuple[float, MicroTile] | None = None
    for vectors in (1, 2, 3, 4) if fused else (1, 2):
        rows = min(8, limit // vectors, m)
        rows = -(-m // -(-m // rows))  # equal blocks rather than full ones and a small rest
        if (vectors > 1 and (vectors - 1) * lanes >= n) or rows * vectors + vectors + 1 > registers:
            continue
        cost = _cost(m, n, rows, vectors, lanes)
        if best is None or cost < best[0] * 0.999:
            best = cost, MicroTile(rows, vectors, lanes, choose_unroll(k, 4 if fused else 2))
    assert best is not None
    return best[1]


def _accumulators(vector_bits: int, registers: int, fused: bool) -> int:
    """How many vectors of sums may be live."""
    wide = registers >= 32
    return ((18 if vector_bits > 128 else 16) if wide else 12) if fused else (8 if wide else 6)


def tile_of_width(
    tile: MicroTile, columns: int, m: int, vector_bits: int, registers: int, fused: bool
) -> MicroTile | None:
    """A register tile as `tile`, but for panels of so many columns; None where there is none."""
    vectors, rest = divmod(columns, tile.lanes)
    if rest or not 1 <= vectors <= 4:
        return None
    rows = min(8, _accumulators(vector_bits, registers, fused) // vectors, m)
    if rows < 1 or rows * vectors + vectors + 1 > registers:
        return None
    return MicroTile(-(-m // -(-m // rows)), vectors, tile.lanes, tile.unroll)


#: what a vector of the right operand costs against a broadcast of the left one
_VECTOR_WEIGHT = 2.5


def _cost(m: int, n: int, rows: int, vectors: int, lanes: int) -> float:
    """Cycles of one step over the whole tile, two products or two loads a cycle, latency four.

    Vectors of a panel weigh more than broadcasts: a panel that outgrows the first level cache comes from the second
    for every block of rows, 64 bytes at a time, while a line of a row lasts for 16 steps.
    """
    panels = -(-n // (vectors * lanes))

    def block(r: int) -> float:
        return max(r * vectors / 2, (r + vectors) / 2, 4.0) + 0.05 * (r + _VECTOR_WEIGHT * vectors)

    full, rest = divmod(m, rows)
    return panels * (full * block(rows) + (block(rest) if rest else 0.0))


def choose_unroll(k: int, most: int) -> int:
    """Steps of the inner loop in one trip: a divisor of `k` near `most` where there is one."""
    if k <= most:
        return k
    for unroll in (most, most + 1, most - 1):
        if unroll > 1 and k % unroll == 0:
            return unroll
    return most


def amx_tile(m: int, n: int, k: int, group: int) -> MicroTile | None:
    """The hardware tile that cuts the extents without remainder, or None where AMX does not pay.

    `group` rows of the right operand share a 32-bit lane: 2 for 16-bit elements, 4 for 8-bit ones.
    """
    rows = _divisor(m, 16, 1)
    columns = _divisor(n, 16, 8)
    depth = _divisor(k, 16 * group, group)
    # below half of the unit's capacity the fp32 kernel is as good and needs no set-up
    if rows * columns * depth * 2 < 16 * 16 * 16 * group:
        return None
    return MicroTile(rows, 2 if n % (2 * columns) == 0 else 1, columns, depth)


def _divisor(extent: int, most: int, step: int) -> int:
    """The largest divisor of `extent` that is a multiple of `step` and at most `most`; 0 if none."""
    for value in range(most, 0, -step):
        if value % step == 0 and extent % value == 0:
            return value
    return 0
