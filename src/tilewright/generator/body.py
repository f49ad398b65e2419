"""The body of a generated program: tile index, main loop over k, epilogue, store.

    tile, split of K     from the program ids, grouped so that neighboring programs share operands in L2
    acc = 0
    for k in steps:      loads limited by M, N and K; out-of-bounds elements are zero
        acc = dot(a, b, acc)
    out = epilogue(acc)

`raise-access` and later passes handle this form: accesses become structured views with limits, operands
become TMA loads, and the accumulator stays in registers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith

from tilewright import dtypes
from tilewright.generator.contraction import Extra
from tilewright.generator.epilogue import Epilogue
from tilewright.generator.tracing import Tracer
from tilewright.interpreter.offsets import NO_WRAP
from tilewright.semantics.values import TensorValue

if TYPE_CHECKING:
    from tilewright.generator.program import Program

PARTIAL, TOTAL = "partial", "total"
#: partial results of a split product in flight at a time
_AHEAD = 8
#: rows of K up to which a vector's product is summed in every step
_FEW = 16

#: a `TensorValue`; its operators are defined at run time
Tile = Any


class Body:
    """Emits one program. `values` has a tensor, or a number that is compiled in, for each parameter.

    `divisibility`: known divisors of parameters.
    """

    def __init__(
        self,
        program: Program,
        tracer: Tracer,
        values: dict[str, Any],
        divisibility: Mapping[str, int],
    ) -> None:
        self.program, self.tracer, self.values = program, tracer, dict(values)
        self.divisibility, self.s = divisibility, tracer.semantics
        for name, factor in program.contraction.size_divisors:
            if name in values:
                self.values[name] = _size(self._wide(name, values[name]) * factor)
        if (
            program.contraction.indices_64bit
        ):  # extents rounded up to a multiple of the tile may exceed 32 bits
            for name in self.values.keys() & {"M", "N", "K"}:
                if not isinstance(self.values[name], int):
                    self.values[name] = self.s.convert(self.values[name], dtypes.int64)
        self.contraction, self.config = program.contraction, program.config
        self.epilogue = Epilogue(tracer, self.contraction, values.__getitem__)
        self.place: tuple[Any, Any] = (0, 0)
        """Row and column of the tile, counted in tiles."""
        self.of_pair: Tile | None = None
        """Index of the tile in a vertical pair."""
        self.packed = None
        if self.config.prepack is not None:
            from tilewright.generator.packing import PackedOperands  # noqa: PLC0415 - imports this module

            self.packed = PackedOperands(self, self.config.prepack)

    def _wide(self, name: str, value: Any) -> Any:
        """The stride between matrices as i64: it may exceed 32 bits although the index does not."""
        between = re.search(r"_b\d+$", name) is not None and not isinstance(value, int)
        return self.s.convert(value, dtypes.int64) if between else value

    def emit(self) -> None:
        """Emit everything but the function's end."""
        pid = self.s.program_id(0)
        if self.program.part == PARTIAL and self.config.rows_per_load > 1:
            from tilewright.generator.gemv_rows import GemvRows  # noqa: PLC0415 - imports this module

            GemvRows(self).emit(pid)
            return
        if self.program.multi_dim_grid:
            batched = self.contraction.batch_rank == 1
            self._at([self.s.program_id(2)] if batched else [], *self._counted(pid))
            return
        if not (self.config.persistent and self.program.part == "whole"):
            self._one(pid)
            return
        if not self.config.tma_multicast:
            self._all(pid)
            return

        def block(of_pair: Tile) -> list[Tile]:
            self.of_pair = of_pair
            self._all(pid)
            return []

        self.tracer.loop(0, 2, [], block, 1, "block", parallel_iterations=True)

    def _all(self, pid: Tile) -> None:
        """Loop over the tiles of a persistent program; of each vertical pair of tiles, over the one `of_pair` selects."""
        m, n = self.tiles()
        total = m * n
        for i in range(self.contraction.batch_rank):
            total = total * self.values[f"batch{i}"]

        def body(tile: Tile) -> list[Tile]:
            self._one(tile)
            return []

        self.tracer.loop(pid, total, [], body, self.s.num_programs(0), "tile")

    # ---- which tile ------------------------------------------------------------------------------

    def tiles(self) -> tuple[Any, Any]:
        """Numbers of tiles, or of vertical pairs of tiles, along M and N."""
        block_m, block_n = self.program.tile
        down = self.cdiv(self.values["M"], block_m)
        if self.of_pair is not None:
            down = self.cdiv(down, 2)
        return down, self.cdiv(self.values["N"], block_n)

    def cdiv(self, x: Any, divisor: Any) -> Any:
        return -(-x // divisor) if isinstance(x, int) else self.s.cdiv(x, divisor)

    def _min(self, x: Any, y: Any) -> Any:
        both = isinstance(x, int) and isinstance(y, int)
        return min(x, y) if both else self.s.minimum(x, y)

    def _one(self, tile: Any) -> None:
        """One tile of one batch."""
        m, n = self.tiles()
        tile, batch = self.batch_of(tile, m, n)
        self._at(batch, *self._grouped(tile, m, n))

    def _counted(self, pid: Any) -> tuple[Any, Any]:
        """Row and column of the tile from a multi-dimensional grid (`Program.grid`)."""
        group, across = self.config.group_m, self.s.program_id(1)
        if self.contraction.batch_rank:
            return pid, across
        return (across, pid) if group == 1 else (pid + self.s.program_id(2) * group, across)

    def _at(self, batch: list[Any], row: Any, column: Any) -> None:
        """The tile at a row and a column."""
        if self.of_pair is not None:
            row = row * 2 + self.of_pair
        block_m, block_n = self.program.tile
        rows = self.first(row, block_m) + self.s.lanes(0, block_m)
        columns = self.first(column, block_n) + self.s.lanes(0, block_n)
        self.place = row, column
        self._tile(batch, rows, columns)

    def batch_of(self, tile: Any, down: Any, across: Any) -> tuple[Any, list[Any]]:
        """The tile's index in its batch of `down` × `across` tiles, and the batch's indices."""
        batch: list[Any] = []
        if self.contraction.batch_rank:
            tiles = down * across
            flat = tile // tiles
            tile = tile % tiles
            for i in range(self.contraction.batch_rank - 1, 0, -1):
                size = self.values[f"batch{i}"]
                batch.insert(0, flat % size)
                flat = flat // size
            batch.insert(0, flat)
        return tile, batch

    def _grouped(self, tile: Any, m: Any, n: Any) -> tuple[Any, Any]:
        """Tile index to row and column in grouped order: down a group of rows, then to the next column."""
        group = 1 if self.program.part == TOTAL else self.config.group_m
        if self.of_pair is not None:
            group = max(1, group // 2)
        if group == 1:
            return tile // n, tile % n
        in_group = group * n
        first = tile // in_group * group
        rows = self._min(m - first, group)
        return first + tile % rows, tile % in_group // rows

    # ---- one tile --------------------------------------------------------------------------------

    def _tile(self, batch: list[Any], rows: Tile, columns: Tile) -> None:
        part = self.program.part
        of_many = self.config.persistent and part == "whole"
        extras = self._vectors(batch, rows, columns) if of_many else {}
        if part == TOTAL:
            acc = self._total(batch, rows, columns)
        elif self.config.form == "listing1":
            acc = self._in_memory(batch, rows, columns)
        elif self.config.form == "gemv":
            acc = self._reduction(batch, rows, columns)
        else:
            acc = self._product(batch, rows, columns)
        if part == PARTIAL:
            pointer, mask = self._work(self.s.program_id(1), batch, rows, columns)
            self.s.store(pointer, acc, mask)
            return
        addend = None
        if self.contraction.addend is not None:
            pointer, mask = self._access("c", batch, rows, columns, "M", "N")
            addend = self.s.load(pointer, mask)
        for i, extra in enumerate(self.contraction.extras):
            if i not in extras:
                extras[i] = self._extra(i, extra, batch, rows, columns)
        given = [extras[i] for i in range(len(extras))]
        pointer, mask = self._access("out", batch, rows, columns, "M", "N")
        self.s.store(pointer, self.epilogue.apply(acc, addend, given), mask)

    def _vectors(self, batch: list[Any], rows: Tile, columns: Tile) -> dict[int, Tile]:
        """The epilogue's scalars, columns and rows by number. Persistent programs load them before the main loop,
        to hide their latency."""
        return {
            i: self._extra(i, extra, batch, rows, columns)
            for i, extra in enumerate(self.contraction.extras)
            if extra.axes != "mn"
        }

    def _range(self) -> tuple[Any, Any]:
        """First and last step of the k loop."""
        steps = self.cdiv(self.values["K"], self.config.block_k)
        if self.program.multi_dim_grid and not isinstance(steps, int):
            self.s.assume(steps > 0)  # guaranteed by the launch: K > 0
        if self.program.part != PARTIAL:
            return 0, steps
        share = self.cdiv(steps, self.config.split_k)
        first = self.s.program_id(1) * share
        return first, self._min(first + share, steps)

    def first(self, number: Tile, size: int) -> Tile:
        """The first index of a tile of `size`, or of a step, by its number."""
        if self.contraction.indices_64bit:
            number = self.s.convert(number, dtypes.int64)
        return number * size

    def _depth(self, k: Tile) -> Tile:
        return self.first(k, self.config.block_k) + self.s.lanes(0, self.config.block_k)

    def _operands(self, batch: list[Any], rows: Tile, columns: Tile, k: Tile) -> tuple[Tile, Tile]:
        """Slices of A and B for step k."""
        if self.packed is not None:
            return self.packed.load(batch, *self.place, k)
        depth = self._depth(k)
        pointer, mask = self._access("a", batch, rows, depth, "M", "K")
        a = self.s.load(pointer, mask, 0)
        pointer, mask = self._access("b", batch, depth, columns, "K", "N")
        return a, self.s.load(pointer, mask, 0)

    def _dot(self, a: Tile, b: Tile, acc: Tile) -> Tile:
        return self.s.dot(a, b, acc, input_precision=self.contraction.precision)

    def _zeros(self, *shape: int) -> Tile:
        return self.s.filled(0, self.contraction.accumulator_type.with_shape(shape))

    def _product(self, batch: list[Any], rows: Tile, columns: Tile) -> Tile:
        """The main loop with the accumulator in registers."""

        def step(k: Tile, acc: Tile) -> list[Tile]:
            a, b = self._operands(batch, rows, columns, k)
            return [self._dot(a, b, acc)]

        return self.tracer.loop(*self._range(), [self._zeros(*self.program.tile)], step)[0]

    def _in_memory(self, batch: list[Any], rows: Tile, columns: Tile) -> Tile:
        """The main loop with the accumulator loaded from and stored to the output at every step (the paper's listing 1)."""
        pointer, mask = self._access("out", batch, rows, columns, "M", "N")
        kind = self.contraction.out.dtype
        self.s.store(pointer, self.s.convert(self._zeros(*self.program.tile), kind), mask)

        def load() -> Tile:
            return self.s.convert(self.s.load(pointer, mask, 0), self.contraction.accumulator_type)

        def step(k: Tile) -> list[Tile]:
            acc = load()
            a, b = self._operands(batch, rows, columns, k)
            self.s.store(pointer, self.s.convert(self._dot(a, b, acc), kind), mask)
            return []

        self.tracer.loop(*self._range(), [], step)
        return load()

    def _reduction(self, batch: list[Any], rows: Tile, columns: Tile) -> Tile:
        """A matrix-vector product: element-wise accumulation, reduced once at the end; for a few rows of K per step,
        reduced in every step."""
        block_m, block_n = self.program.tile
        axis = 1 if block_n == 1 else 0
        kind = self.contraction.accumulator_type
        if self.config.block_k <= _FEW:
            return self._rows_of_k(batch, rows, columns)
        shape = (block_m, self.config.block_k) if axis else (self.config.block_k, block_n)

        def step(k: Tile, acc: Tile) -> list[Tile]:
            a, b = self._operands(batch, rows, columns, k)
            a, b = self.s.convert(a, kind), self.s.convert(b, kind)
            # [m, k] times [k, 1] as [1, k]; [1, k] as [k, 1] times [k, n]
            if axis:
                return [acc + a * self.s.trans(b)]
            return [acc + self.s.trans(a) * b]

        acc = self.tracer.loop(*self._range(), [self._zeros(*shape)], step)[0]
        return self.s.sum(acc, axis, keep_dims=True, dtype=kind)

    def _rows_of_k(self, batch: list[Any], rows: Tile, columns: Tile) -> Tile:
        """The accumulator as a row, to which the sum of a few rows of products is added per step."""
        kind, tile = self.contraction.accumulator_type, self.program.tile

        def step(k: Tile, acc: Tile) -> list[Tile]:
            a, b = self._operands(batch, rows, columns, k)
            # [1, k] as [k, 1] times [k, n]; [m, k] as [k, m] times [k, 1]
            a, b = self.s.convert(self.s.trans(a), kind), self.s.convert(b, kind)
            return [acc + self.s.sum(a * b, 0, keep_dims=True, dtype=kind)]

        acc = self.tracer.loop(*self._range(), [self._zeros(1, max(tile))], step)[0]
        return self.s.trans(acc) if tile[1] == 1 else acc

    def _total(self, batch: list[Any], rows: Tile, columns: Tile) -> Tile:
        """The sum of split-K slices in order; some are loaded in advance."""
        acc = None
        parts = range(self.config.parts)
        for first in parts[::_AHEAD]:
            loaded = []
            for part in parts[first : first + _AHEAD]:
                index, row = divmod(part, self.config.rows_per_load)
                index = self.s.constant(index, dtypes.int32)
                pointer, mask = self._work(index, batch, rows, columns, row)
                loaded.append(self.s.load(pointer, mask, 0))
            for tile in loaded:
                acc = tile if acc is None else acc + tile
        return acc

    # ---- memory ----------------------------------------------------------------------------------

    def _plane(self, x: Tile, y: Tile) -> tuple[Tile, Tile]:
        """Row and column indices as a column and a row."""
        return self.s.expand_dims(x, 1), self.s.expand_dims(y, 0)

    def _inside(self, x: Tile, y: Tile, x_size: str, y_size: str) -> tuple[Tile, Tile, Tile]:
        """Indices as a plane, and the mask of those within the sizes."""
        down, across = self._plane(x, y)
        mask = (down < self.values[x_size]) & (across < self.values[y_size])
        return down, across, mask

    def offset(self, index: Tile, stride: Any) -> Tile:
        if self.contraction.offsets_64bit:
            index = self.s.convert(index, dtypes.int64)
        return index * stride

    def base(self, name: str, varies: tuple[bool, ...], batch: list[Any]) -> Tile:
        """The pointer to the matrix of a batch."""
        pointer = self.values[name]
        for i, (own, index) in enumerate(zip(varies, batch, strict=True)):
            if own:
                wide = self.s.convert(index, dtypes.int64)
                pointer = pointer + wide * self.values[f"{name}_b{i}"]
        return pointer

    def _access(
        self,
        name: str,
        batch: list[Any],
        x: Tile,
        y: Tile,
        x_size: str,
        y_size: str,
    ) -> tuple[Tile, Tile]:
        """Pointers to a tile of a matrix, and the mask."""
        operand = dict(self.contraction.matrices)[name]
        first, second = x_size.lower(), y_size.lower()
        down, across, mask = self._inside(x, y, x_size, y_size)
        pointer = self.base(name, operand.batch, batch)
        pointer = pointer + self.offset(down, self.values[f"{name}_{first}"])
        return pointer + self.offset(across, self.values[f"{name}_{second}"]), mask

    def _extra(self, i: int, extra: Extra, batch: list[Any], rows: Tile, columns: Tile) -> Tile:
        """A tensor of the epilogue as a tile that broadcasts to the result's."""
        name = f"x{i}"
        pointer = self.base(name, extra.batch, batch)
        if extra.axes == "mn":
            down, across, mask = self._inside(rows, columns, "M", "N")
            pointer = pointer + self.offset(down, self.values[f"{name}_m"])
            return self.s.load(pointer + self.offset(across, self.values[f"{name}_n"]), mask, 0)
        if not extra.axes:
            return self.s.load(pointer)
        index, size = (rows, "M") if extra.axes == "m" else (columns, "N")
        pointer = pointer + self.offset(index, self.values[f"{name}_{extra.axes}"])
        vector = self.s.load(pointer, index < self.values[size], 0)
        return self.s.expand_dims(vector, 1 if extra.axes == "m" else 0)

    def plane(self, part: Any, batch: list[Any], row: int = 0) -> Tile:
        """Index of a matrix in the workspace `[split_k, batch…, join_rows, M, N]`."""
        plane = self.s.convert(part, dtypes.int64)
        for i, index in enumerate(batch):
            plane = plane * self.values[f"batch{i}"] + index
        joined = self.config.rows_per_load
        return plane * joined + row if joined > 1 else plane

    def _work(
        self, part: Any, batch: list[Any], rows: Tile, columns: Tile, row: int = 0
    ) -> tuple[Tile, Tile]:
        """Pointers into the workspace, and the mask. `row`: index among joined rows."""
        m, n = self.values["M"], self.values["N"]
        pointer = self.values["work"] + self.plane(part, batch, row) * m * n
        down, across, mask = self._inside(rows, columns, "M", "N")
        return pointer + self.offset(down, n) + across, mask


def _size(product: Any) -> Any:
    """An extent or a stride whose argument is divided by a factor: multiplied by it again."""
    if isinstance(product, TensorValue) and isinstance(product.handle.owner, arith.MuliOp):
        product.handle.owner.properties["overflowFlags"] = NO_WRAP
    return product
