"""`Program`: a contraction and a configuration as a function of tile IR, and its launch grid.

Sizes and strides are run-time arguments, specialized like those of any kernel (equal to 1, divisible by 16), so that
one compilation serves many shapes. With `split_k` there are two programs: "partial" writes partial sums to a workspace
`[split_k, batch, M, N]`, and "total" adds them in order and applies the epilogue. With `prepack` there are three:
"pack_a" and "pack_b" write the operands to workspaces in the order in which "whole" reads them.
"""

from __future__ import annotations

import functools
import re
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright import dtypes, frontend
from tilewright.dtypes import constexpr, dtype
from tilewright.errors import LaunchError
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import COLUMN, WITH_NUMBER, Contraction, Operand
from tilewright.generator.kernel import PARTIAL, TOTAL, matmul
from tilewright.generator.packing import pack
from tilewright.language.kernel_function import KernelFunction

WHOLE = "whole"
PACK_A, PACK_B = "pack_a", "pack_b"
PACKING = {PACK_A: "a", PACK_B: "b"}
POINTER, INTEGER, NUMBER = "pointer", "integer", "number"

#: limit of a grid's second and third dimension
_LONGEST = 65535
#: tile of the program that adds split-K slices
_TOTAL_TILE = (16, 128)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: its name, whether it is a pointer (to `dtype`), an integer or a number (a `dtype`)."""

    name: str
    kind: str
    dtype: dtype | None = None


@dataclass(frozen=True)
class Program:
    """See the module docstring. `part` is "whole", "partial", "total", "pack_a" or "pack_b"."""

    contraction: Contraction
    config: MatmulConfig
    part: str = WHOLE
    noalias_output: bool = False
    """Assumes: the launcher has checked that the result overlaps neither an operand nor itself (CPU)."""
    multi_dim_grid: bool = False
    """Tile coordinates are grid dimensions: rows of a group, columns, groups or batches. Otherwise two divisions, of 170
    cycles each on a GPU, delay a program's first load."""

    @property
    def noalias_pointers(self) -> tuple[str, ...]:
        """Noalias pointers: the outputs, unless an epilogue may read them."""
        if not self.noalias_output:
            return ()
        if self.part in PACKING:
            return (f"panels_{PACKING[self.part]}",)
        if self.part == PARTIAL:
            return ("work",)
        c = self.contraction
        reads_it = c.addend is not None or any(extra.axes == "mn" for extra in c.extras)
        return () if reads_it else ("out",)

    @property
    def tile(self) -> tuple[int, int]:
        """Extents of the tile of the result that one program computes."""
        m, n = self.config.block_m, self.config.block_n
        if self.part != TOTAL:
            return m, n
        # the aspect ratio of the matmul's
        return (1, 128) if m == 1 else (128, 1) if n == 1 else _TOTAL_TILE

    @property
    def name(self) -> str:
        """The function's name: what it computes and in which tiles."""
        c = self.contraction
        words = [c.name, c.a.dtype.short_name, self.config.text]
        if self.multi_dim_grid:
            words.append("spread")
        if self.part != WHOLE:
            words.append(self.part)
        return re.sub(r"\W+", "_", "_".join(words))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All arguments, in order."""
        c = self.contraction
        pointers = [Parameter(n, POINTER, o.dtype) for n, o in self.matrices]
        if self.part in PACKING:
            pointers.append(Parameter(f"panels_{PACKING[self.part]}", POINTER, self.stored))
        elif self.part != WHOLE:
            pointers.append(Parameter("work", POINTER, c.accumulator_type))
        elif self.config.prepack is not None:
            pointers += [Parameter(f"panels_{name}", POINTER, self.packed) for name in "ab"]
        integers = ["M", "N"] if self.part == TOTAL else ["M", "N", "K"]
        for name, operand in self.matrices:
            integers += [f"{name}_{axis}" for axis in AXES[name]]
            integers += [f"{name}_b{i}" for i, varies in enumerate(operand.batch) if varies]
        numbers: list[str] = []
        if self.part in (WHOLE, TOTAL):
            for i, extra in enumerate(c.extras):
                pointers.append(Parameter(f"x{i}", POINTER, extra.dtype))
                integers += [f"x{i}_{axis}" for axis in extra.axes]
                integers += [f"x{i}_b{axis}" for axis, varies in enumerate(extra.batch) if varies]
            numbers += ["alpha"] if c.has_alpha else []
            numbers += ["beta"] if c.addend is not None else []
            numbers += [
                f"number{i}" for i, step in enumerate(c.epilogue) if step.kind in WITH_NUMBER
            ]
        integers += [f"batch{i}" for i in range(c.batch_rank) if i > 0 or self._needs_batch]
        return (
            *pointers,
            *(Parameter(n, INTEGER) for n in integers),
            *(Parameter(n, NUMBER, c.compute) for n in numbers),
        )

    @property
    def _needs_batch(self) -> bool:
        """Whether the extent of the first batch axis is an argument."""
        return self.part in (PARTIAL, TOTAL) or self.config.persistent

    @property
    def matrices(self) -> tuple[tuple[str, Operand], ...]:
        """Names and operands that this part reads or writes."""
        found = self.contraction.matrices
        if self.part in PACKING:
            return tuple(item for item in found if item[0] == PACKING[self.part])
        if self.part == WHOLE and self.config.prepack is not None:
            return found[2:]
        if self.part == PARTIAL:
            return found[:2]
        return found[2:] if self.part == TOTAL else found

    @property
    def packed(self) -> dtype:
        """The type of packed elements."""
        panels = self.config.prepack
        named = "" if panels is None else panels.element
        if not named:
            return self.contraction.a.dtype
        kind = dtypes.from_short_name(named)
        if not isinstance(kind, dtype):
            raise LaunchError(f"MatmulConfig: panels of {named}, which is not a numeric type")
        return kind

    @property
    def stored(self) -> dtype:
        """The type that a packing program stores: a 32-bit word of interleaved elements."""
        panels = self.config.prepack
        if self.part != PACK_B or panels is None or panels.rows == 1:
            return self.packed
        return _WORDS[self.packed.itemsize * panels.rows]

    def grid(self, m: int, n: int, batch: int = 1, cores: int = 1, k: int = 1) -> tuple[int, ...]:
        """Launch grid: tiles of all batches, and split-K slices.

        `batch`: matrices of the result; for a packing program those of its operand. `k` counts for it alone.
        """
        if self.part in PACKING:
            tiles = -(
                -m // self.config.block_m if self.part == PACK_A else -n // self.config.block_n
            )
            return (tiles * -(-k // self.config.block_k) * batch,)
        block_m, block_n = self.tile
        if self.multi_dim_grid:
            rows, columns, group = -(-m // block_m), -(-n // block_n), self.config.group_m
            if self.contraction.batch_rank:
                return rows, columns, batch
            return (columns, rows) if group == 1 else (min(rows, group), columns, -(-rows // group))
        if self.part == PARTIAL and self.config.rows_per_load > 1:
            m, n = (
                (m, n * self.config.rows_per_load) if m == 1 else (m * self.config.rows_per_load, n)
            )
        programs = -(-m // block_m) * -(-n // block_n) * batch
        if self.config.persistent and self.part == WHOLE:
            if self.config.tma_multicast:
                vertical = self.config.multicast_operand == "b"
                down, across = (2, 1) if vertical else (1, 2)
                programs = -(-m // (down * block_m)) * -(-n // (across * block_n)) * batch
                cores //= 2
            programs = min(programs, max(1, cores))
        return (programs, self.config.split_k) if self.part == PARTIAL else (programs,)

    # ---- what kernels read --------------------------------------------------------------------

    @functools.cached_property
    def arguments(self) -> Any:
        """The named tuple of its arguments."""
        make: Any = namedtuple  # noqa: PYI024 - its fields are not known before
        return make("Arguments", [p.name for p in self.parameters])

    def axes(self, name: str) -> str:
        """Axes of a matrix, or of a tensor of the epilogue."""
        return "".join(AXES.get(name, "mn"))

    def varies(self, name: str) -> tuple[bool, ...]:
        """Batch axes along which a matrix, or a tensor of the epilogue, has elements."""
        c = self.contraction
        return c.extras[int(name[1:])].batch if name[0] == "x" else dict(c.matrices)[name].batch

    def divisor(self, name: str) -> int:
        """The known divisor of an integer argument (`Contraction.size_divisors`)."""
        return dict(self.contraction.size_divisors).get(name, 1)

    def is_64bit(self, name: str) -> bool:
        """Whether an argument is converted to i64: a stride between matrices always, an extent where a multiple of the
        tile may exceed 32 bits."""
        return re.search(r"_b\d+$", name) is not None or (
            self.contraction.indices_64bit and name in ("M", "N", "K")
        )

    @property
    def persistent(self) -> bool:
        """Whether a program loops over tiles."""
        return self.config.persistent and self.part == WHOLE

    @property
    def group_m(self) -> int:
        """Rows of tiles in a group of consecutive programs."""
        return 1 if self.part == TOTAL else self.config.group_m

    @property
    def packed_bits(self) -> dtype:
        """Unsigned integers of the size of packed elements."""
        return _BITS[self.packed.itemsize]

    def _lies_in_words(self, divisibility: Mapping[str, int]) -> bool:
        """Whether rows of B that are interleaved lie side by side in memory, all of them in whole words."""
        b = self.contraction.b
        if self.part != PACK_B or b.order != COLUMN or b.dtype != self.packed:
            return False
        strides = ["b_n", *(f"b_b{i}" for i, own in enumerate(b.batch) if own)]
        return all(divisibility.get(name, 1) % 16 == 0 for name in ("b", "K", *strides))

    def build(
        self,
        signature: Mapping[str, Any],
        divisibility: Mapping[str, int] | None = None,
        name: str | None = None,
    ) -> Any:
        """A module of tile IR with one function.

        Args:
            signature: for each parameter a `dtype`, a `pointer_type`, or a `constexpr` whose value is
                compiled in.
            divisibility: known divisors of pointers and integers.

        Raises CompilationError for an invalid epilogue function.
        """
        divisors = divisibility or {}
        types = self.arguments(*[signature[p.name] for p in self.parameters])
        given: dict[str, Any] = {"args": types, "d": constexpr(self)}
        if self.part in PACKING:
            given["in_words"] = constexpr(self._lies_in_words(divisors))
        kernel = _kernel(pack if self.part in PACKING else matmul, self.noalias_pointers)
        named = {f"args.{key}": value for key, value in divisors.items()}
        module = frontend.build(kernel, given, named, name=name or self.name).module
        self._name_arguments(module)
        return module

    @staticmethod
    def _name_arguments(module: Any) -> None:
        """Name the arguments of a module's function as the program's parameters, not as fields of a tuple."""
        # deferred: a kernel on disk needs no xDSL
        from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr  # noqa: PLC0415

        function = module.body.block.first_op
        found = []
        for value, entry in zip(function.body.block.args, function.arg_attrs.data, strict=True):
            name = value.name_hint = entry.data["tile.name"].data.removeprefix("args.")
            found.append(DictionaryAttr({**entry.data, "tile.name": StringAttr(name)}))
        function.properties["arg_attrs"] = ArrayAttr(found)


@functools.cache
def _kernel(function: Any, noalias: tuple[str, ...]) -> KernelFunction:
    """The kernel that promises that these arguments do not alias."""
    return KernelFunction(
        function, noalias=tuple(f"args.{name}" for name in noalias), any_extents=True
    )


#: integers, and unsigned integers, by their bytes
_WORDS = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}
_BITS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32}
#: axes of each matrix, in the order of its strides
AXES = {"a": ("m", "k"), "b": ("k", "n"), "out": ("m", "n"), "c": ("m", "n")}


def has_multi_dim_grid(config: MatmulConfig, m: int, n: int, batch: tuple[int, ...] = ()) -> bool:
    """Whether grid dimensions can be tile coordinates (`Program.multi_dim_grid`): groups are full, or one group is a
    matrix of a batch, and no dimension is too long."""
    whole = config.form == "tiled" and config.parts == 1 and config.prepack is None
    if not whole or config.persistent or len(batch) > 1:
        return False
    rows, columns = -(-m // config.block_m), -(-n // config.block_n)
    full = rows <= config.group_m or (rows % config.group_m == 0 and not batch)
    return full and max(columns, rows, *batch) <= _LONGEST


def programs(
    contraction: Contraction,
    config: MatmulConfig,
    noalias_output: bool = False,
    multi_dim_grid: bool = False,
) -> tuple[Program, ...]:
    """The programs to launch, in order: one, with `split_k` two, with `prepack` three.

    `noalias_output`, `multi_dim_grid`: as in `Program`; the latter only applies to a single program.
    """
    if config.swap_operands:
        raise LaunchError("MatmulConfig: swap_operands is for tilewright.matmul on a GPU")
    parts = [WHOLE]
    if config.prepack is not None:
        parts = [PACK_A, PACK_B, WHOLE]
    elif config.parts > 1:
        parts = [PARTIAL, TOTAL]
    return tuple(
        Program(contraction, config, part, noalias_output, multi_dim_grid) for part in parts
    )
