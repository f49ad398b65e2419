"""Programs that pack an operand for all others, and the loads of what they packed.

    panels_a[batch, tile of M, step of K, row, k]
    panels_b[batch, tile of N, step of K, panel, k // rows, column, k % rows]

Every program of the product then reads tiles that lie in one piece, in the order in which the products of a
register tile take them: the loops of Goto and van de Geijn ("Anatomy of high-performance matrix
multiplication", 2008) and BLIS, with packing as a phase of its own. What tiles cover beyond the matrix is zero,
so that the product needs no limits but those of the result.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import dtypes
from tilewright.generator.body import Body, Tile
from tilewright.generator.config import Panels
from tilewright.generator.contraction import COLUMN, ROW

#: rows (words, where rows are interleaved) that are copied at a time
_RUN_ROWS = 8


class Packing(Body):
    """Emits "pack_a" or "pack_b", with as many programs as there are tiles.

    Where rows of B lie in one piece, programs share rows, not tiles: they cut a few at a time from one end to the
    other. So memory is read in long runs, which processors fetch ahead, and not a panel's width at a time.
    """

    def emit(self) -> None:
        """Emit everything but the function's end."""
        pid = self.s.program_id(0)
        steps = self.cdiv(self.values["K"], self.config.block_k)
        down, across = self.tiles()
        if self.program.part == "pack_a":
            tile, matrix = pid // steps % down, pid // (steps * down)
            self._pack_a(self._own_batch("a", matrix), pid, tile, pid % steps)
        else:
            tile, matrix = pid // steps % across, pid // (steps * across)
            self._pack_b(self._own_batch("b", matrix), pid, tile, steps)

    def _own_batch(self, name: str, flat: Tile) -> list[Any]:
        """Batch indices from the number of the operand's matrix; those of axes it lacks do not matter."""
        varies = dict(self.contraction.matrices)[name].batch
        own = [i for i, each in enumerate(varies) if each]
        found: list[Any] = [flat] * len(varies)
        for i in reversed(own[1:]):
            size = self.values[f"batch{i}"]
            found[i] = flat % size
            flat = flat // size
        if own:
            found[own[0]] = flat
        return found

    def _pack_a(self, batch: list[Any], pid: Tile, tile: Tile, step: Tile) -> None:
        """A tile of A, row after row."""
        block_m, block_k = self.config.block_m, self.config.block_k
        rows = self.first(tile, block_m) + self.s.lanes(0, block_m)
        pointer, mask = self._access("a", batch, rows, self._depth(step), "M", "K")
        packed = self.s.convert(self.s.load(pointer, mask, 0), self.program.packed)
        down, across = self._plane(self.s.lanes(0, block_m), self.s.lanes(0, block_k))
        place = self._place("panels_a", pid, block_m * block_k)
        self.s.store(place + down * block_k + across, packed)

    def _pack_b(self, batch: list[Any], pid: Tile, tile: Tile, steps: Any) -> None:
        """A tile of B, panel after panel, or the program's share of a step's rows through all tiles."""
        step, groups = pid % steps, self.config.block_k // self._given().rows
        if self.contraction.b.order != ROW:
            self._panels(batch, pid, tile, step, 0, groups)
            return
        _, across = self.tiles()
        count, first = math.gcd(groups, _RUN_ROWS), pid - tile * steps

        def rows(group: Tile) -> list[Tile]:
            def cut(tile: Tile) -> list[Tile]:
                self._panels(batch, first + tile * steps, tile, step, group * count, count)
                return []

            self.tracer.loop(0, across, [], cut, name="tile")
            return []

        shares = groups // count
        start, stop = tile * shares // across, (tile + 1) * shares // across
        self.tracer.loop(start, stop, [], rows, name="rows")

    def _panels(
        self, batch: list[Any], index: Tile, tile: Tile, step: Tile, group: Any, count: int
    ) -> None:
        """`count` groups of rows of all panels of a tile of B from `group` on. `index`: of the packed tile."""
        block_n, columns = self.config.block_n, self._given().columns
        groups = self.config.block_k // self._given().rows
        place = self._place("panels_b", index, groups * block_n)
        down, across = self._plane(self.s.lanes(0, count), self.s.lanes(0, columns))

        def panel(p: Tile) -> list[Tile]:
            first = self.first(tile, block_n) + p * columns
            word = self._word(batch, first + self.s.lanes(0, columns), step, group, count)
            start = place + p * (groups * columns) + group * columns
            self.s.store(start + down * columns + across, word)
            return []

        self.tracer.loop(0, block_n // columns, [], panel, name="panel")

    def _word(self, batch: list[Any], columns: Tile, step: Tile, group: Any, count: int) -> Tile:
        """Elements of `count` rows of a panel from row `group` on; where rows are interleaved, as integers of several
        elements each."""
        panels, size = self._given(), self.program.packed.itemsize
        if panels.rows > 1 and self._lies_in_words():
            return self._whole_words(batch, columns, step)
        word: Any = None
        for row in range(panels.rows):
            first = self.first(step, self.config.block_k) + group * panels.rows + row
            loaded = self.s.convert(
                self._every(batch, columns, first, panels.rows, count), self.program.packed
            )
            if panels.rows == 1:
                return loaded
            bits = self.s.convert(
                self.s.cast(loaded, _BITS[size], bitcast=True), self.program.stored
            )
            word = bits if word is None else word | (bits << (8 * size * row))
        return word

    def _lies_in_words(self) -> bool:
        """Whether the rows that are interleaved lie side by side in memory, all of them in whole words."""
        if self.contraction.b.order != COLUMN or self.contraction.b.dtype != self.program.packed:
            return False
        strides = ["b_n", *(f"b_b{i}" for i, own in enumerate(self.contraction.b.batch) if own)]
        known = ("b", "K", *strides)
        return all(self.divisibility.get(name, 1) % 16 == 0 for name in known)

    def _whole_words(self, batch: list[Any], columns: Tile, step: Tile) -> Tile:
        """Rows of a panel from a matrix whose columns lie in one piece: words as they stand there."""
        rows, count = self._given().rows, self.config.block_k // self._given().rows
        pointer = self.base("b", self.contraction.b.batch, batch)
        words = self.s.convert(pointer, dtypes.pointer_type(self.program.stored))
        down, across = self._plane(self.first(step, count) + self.s.lanes(0, count), columns)
        offset = self.offset(across, self.values["b_n"] // rows) + down
        mask = (down < self.values["K"] // rows) & (across < self.values["N"])
        return self.s.load(words + offset, mask, 0)

    def _every(self, batch: list[Any], columns: Tile, first: Tile, rows: int, count: int) -> Tile:
        """`count` times every `rows`-th row of B from row `first` on, zeros beyond the matrix."""
        lanes = self.s.lanes(0, count)
        pointer, _ = self._access("b", batch, first + lanes * rows, columns, "K", "N")
        left = self.cdiv(self.values["K"] - first, rows)
        down, across = self._plane(lanes, columns)
        return self.s.load(pointer, (down < left) & (across < self.values["N"]), 0)

    def _given(self) -> Panels:
        assert self.config.prepack is not None
        return self.config.prepack

    def _place(self, name: str, index: Tile, size: int) -> Tile:
        return self.values[name] + self.s.convert(index, dtypes.int64) * size


class PackedOperands:
    """The loads of packed tiles in the product's program."""

    def __init__(self, body: Body, panels: Panels) -> None:
        self.body, self.panels, self.config = body, panels, body.config

    def load(self, batch: list[Any], row: Tile, column: Tile, k: Tile) -> tuple[Tile, Tile]:
        """Tiles [block_m, block_k] and [block_k, block_n] of step k."""
        m, n, depth = self.config.block_m, self.config.block_n, self.config.block_k
        rows, columns = self.panels.rows, self.panels.columns
        down, across = self.body.tiles()
        a = self._tile("a", batch, row, down, k, ((m, depth), (depth, 1)))
        b = self._tile(
            "b", batch, column, across, k,
            ((depth // rows, rows * columns), (rows, 1), (n // columns, depth * columns),
             (columns, rows)),
        )  # fmt: skip
        s = self.body.s
        return s.reshaped(a, (m, depth), "a"), s.reshaped(b, (depth, n), "b")

    def _tile(
        self, name: str, batch: list[Any], tile: Tile, tiles: Any, k: Tile,
        digits: tuple[tuple[int, int], ...],
    ) -> Tile:  # fmt: skip
        """Elements of one packed tile. `digits`: (extent, stride) of each dimension."""
        body, s = self.body, self.body.s
        steps = body.cdiv(body.values["K"], self.config.block_k)
        index: Any = None
        for i, own in enumerate(dict(body.contraction.matrices)[name].batch):
            if own:
                wide = s.convert(batch[i], dtypes.int64)
                index = wide if index is None else index * body.values[f"batch{i}"] + wide
        tile = s.convert(tile, dtypes.int64)
        tile = tile if index is None else index * tiles + tile
        size = 1
        for extent, _ in digits:
            size *= extent
        pointer = body.values[f"panels_{name}"] + (tile * steps + k) * size
        kept = [(extent, stride) for extent, stride in digits if extent > 1] or [(1, 1)]
        for d, (extent, stride) in enumerate(kept):
            lanes = s.lanes(0, extent)
            for axis in range(len(kept)):
                if axis != d:
                    lanes = s.expand_dims(lanes, axis)
            pointer = pointer + lanes * stride
        return s.load(pointer)


#: unsigned integers by their bytes
_BITS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32}
