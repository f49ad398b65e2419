"""A vector times a matrix across whose rows K lies, several of them read as one.

Rows of an odd number of elements begin anywhere: no access to them is wider than an element. g rows that follow
each other without gaps are one row of `g · extent` elements, which is a multiple of what wide accesses need:

    [K, N] is [K / g, g · N];      sums[p · N + n] = Σ_q x[g · q + p] · matrix[q, p · N + n]

What is summed are g parts of the result, one after another, which the program that adds up parts of K adds up, too. A
tile has columns of two of the joined rows at most (it is no wider than a row), so a step takes two slices of the
vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.generator.body import Body

#: a `TensorValue`, whose operators type checkers cannot see
Tile = Any


class GemvRows:
    """Emits the program that writes parts of the sums, for `M == 1` (a row-major B) or `N == 1` (a column-major A)."""

    def __init__(self, body: Body) -> None:
        self.body, self.s, self.values = body, body.s, body.values
        config = body.config
        self.joined, self.deep = config.rows_per_load, config.block_k
        self.across = max(body.program.tile)
        row = body.program.tile[0] == 1
        self.matrix, self.vector = ("b", "a") if row else ("a", "b")
        self.extent = self.values["N" if row else "M"]
        self.rows = self.values["K"] // self.joined

    def emit(self, pid: Tile) -> None:
        """The whole program; `pid` counts tiles of all batches."""
        body, s = self.body, self.s
        width = self.extent * self.joined
        tile, batch = body.batch_of(pid, 1, body.cdiv(width, self.across))
        start = tile * self.across
        columns = start + s.lanes(0, self.across)
        first = start // self.extent
        # columns from here on are of the next row
        later = s.expand_dims(columns, 0) >= (first + 1) * self.extent
        part = s.program_id(1)
        share = body.cdiv(body.cdiv(self.rows, self.deep), body.config.split_k)
        begin = part * share
        end = s.minimum(begin + share, body.cdiv(self.rows, self.deep))
        kind = body.contraction.accumulator_type

        def step(k: Tile, acc: Tile) -> list[Tile]:
            depth = k * self.deep + s.lanes(0, self.deep)
            x = s.where(
                later, self._slice(batch, depth, first + 1), self._slice(batch, depth, first)
            )
            matrix = s.convert(self._rows(batch, depth, columns, width), kind)
            return [matrix * x + acc]

        zeros = s.filled(0, kind.with_shape((self.deep, self.across)))
        (acc,) = body.tracer.loop(begin, end, [zeros], step)
        acc = s.sum(acc, 0, dtype=kind)
        pointer = self.values["work"] + body.plane(part, batch) * self.extent + columns
        s.store(pointer, acc, columns < width)

    def _slice(self, batch: list[Any], depth: Tile, row: Tile) -> Tile:
        """The vector's elements for one of the joined rows, as a column in the type of sums."""
        name, body, s = self.vector, self.body, self.s
        operand = dict(body.contraction.matrices)[name]
        base = body.base(name, operand.batch, batch)
        stride = self.values[f"{name}_k"]
        base = base + body.offset(row, stride)
        inside = (depth < self.rows) & (row < self.joined)
        found = s.load(base + body.offset(depth * self.joined, stride), inside, 0)
        return s.expand_dims(s.convert(found, body.contraction.accumulator_type), 1)

    def _rows(self, batch: list[Any], depth: Tile, columns: Tile, width: Tile) -> Tile:
        """Joined rows of the matrix."""
        body, s = self.body, self.s
        operand = dict(body.contraction.matrices)[self.matrix]
        base = body.base(self.matrix, operand.batch, batch)
        down, across = s.expand_dims(depth, 1), s.expand_dims(columns, 0)
        pointer = base + body.offset(down, width) + across
        return s.load(pointer, (down < self.rows) & (across < width), 0)
