"""Shapes and strides of a matmul's arrays: batch axes, orders, and the integer arguments of its program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy

from tilewright.dtypes import dtype
from tilewright.errors import LaunchError
from tilewright.generator.contraction import COLUMN, GENERAL, ROW
from tilewright.runtime.specialize import element_type

INT32 = 1 << 31
#: largest extent of a tile
_LONGEST_TILE = 1 << 20


@dataclass(frozen=True)
class View:
    """An array's matrix with its batch axes: extents and strides, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: dtype

    def transposed(self) -> View:
        """Last two axes exchanged."""
        s, t = self.shape, self.strides
        return View((*s[:-2], s[-1], s[-2]), (*t[:-2], t[-1], t[-2]), self.dtype)

    def with_axis(self, position: int) -> View:
        """With an axis of extent 1 inserted at `position`."""
        s, t = list(self.shape), list(self.strides)
        s.insert(position, 1)
        t.insert(position, 0)
        return View(tuple(s), tuple(t), self.dtype)

    @property
    def reach(self) -> int:
        """Elements from the first to the last within one matrix."""
        pairs = zip(self.shape[-2:], self.strides[-2:], strict=True)
        return sum((n - 1) * abs(s) for n, s in pairs)


def view_of(array: Any) -> View:
    """The view of an array. Raises LaunchError if it has no strides."""
    kind = element_type(array.dtype)
    stride = getattr(array, "stride", None)
    if callable(stride):
        return View(tuple(array.shape), tuple(cast(Any, stride)()), kind)
    strides = getattr(array, "strides", None)
    if strides is None:
        raise LaunchError(
            f"a {type(array).__name__} has no strides", help="pass a NumPy array or a torch tensor"
        )
    size = kind.itemsize
    if any(s % size for s in strides):
        raise LaunchError(
            f"the strides {tuple(strides)} of an array are not multiples of {size} bytes"
        )
    return View(tuple(array.shape), tuple(s // size for s in strides), kind)


@dataclass
class Matrix:
    """A matrix or epilogue tensor in the problem: strides along m (or k) and n, and the batch axes.

    A stride of 0 means broadcast.
    """

    name: str
    view: View
    strides: tuple[int, int]
    batch: tuple[int, ...]

    @property
    def order(self) -> str:
        """Which stride is 1."""
        first, last = self.strides
        return ROW if last == 1 else COLUMN if first == 1 else GENERAL


@dataclass
class Problem:
    """A matmul: sizes, batch axes, and all matrices with their strides."""

    m: int
    n: int
    k: int
    batch: tuple[int, ...]
    matrices: dict[str, Matrix] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    """Known divisors of integers (`Contraction.size_divisors`)."""

    @property
    def batches(self) -> int:
        """Number of matrices in the batch."""
        return math.prod(self.batch)

    def planes(self, name: str) -> int:
        """Number of distinct matrices of an operand."""
        strides = self.matrices[name].batch
        return math.prod(n for n, s in zip(self.batch, strides, strict=True) if s)

    @property
    def wide(self) -> bool:
        """Whether an offset within a matrix may exceed 32 bits."""
        sizes = (self.m, self.n, self.k)
        tiles = [
            x.view.reach + 4096 * max(map(abs, x.strides), default=1)
            for x in self.matrices.values()
        ]
        return max(*sizes, *tiles, 0) >= INT32

    @property
    def long(self) -> bool:
        """Whether an index, including out-of-bounds elements of the last tiles, may exceed 32 bits."""
        return max(self.m, self.n, self.k) + _LONGEST_TILE > INT32

    def add(self, name: str, view: View, axes: tuple[int, int]) -> None:
        """Add a matrix whose last two extents are `axes` or 1; leading axes broadcast."""
        rank = len(self.batch)
        extents, strides = list(view.shape), list(view.strides)
        if len(extents) > rank + 2:
            raise LaunchError(
                f"{_shown(name)} of shape {list(view.shape)} has more axes than the result "
                f"{[*self.batch, *axes]}"
            )
        while len(extents) < rank + 2:
            extents.insert(0, 1)
            strides.insert(0, 0)
        wanted = (*self.batch, *axes)
        for i, (have, want) in enumerate(zip(extents, wanted, strict=True)):
            if have == 1:
                strides[i] = 0
            elif have != want:
                raise LaunchError(
                    f"{_shown(name)} of shape {list(view.shape)} does not broadcast to {list(wanted)}"
                )
        # the stride of an axis of extent 1 is arbitrary: let the other axis be contiguous
        first, last = strides[-2:]
        if axes[1] == 1 and extents[-1] == 1 and first != 1:
            last = 1
        if axes[0] == 1 and extents[-2] == 1 and last != 1:
            first = 1
        padded = View(tuple(extents), tuple(strides), view.dtype)
        self.matrices[name] = Matrix(name, padded, (first, last), tuple(strides[:-2]))

    def simplify(self) -> None:
        """Drop batch axes of extent 1, merge axes that are contiguous in memory, merge one with the rows."""
        keep = [i for i, size in enumerate(self.batch) if size != 1]
        self._take(keep)
        i = len(self.batch) - 2
        while i >= 0:
            size = self.batch[i + 1]
            if all(x.batch[i] == x.batch[i + 1] * size for x in self.matrices.values()):
                self.batch = (*self.batch[:i], self.batch[i] * size, *self.batch[i + 2 :])
                for x in self.matrices.values():
                    x.batch = (*x.batch[:i], *x.batch[i + 1 :])
            i -= 1
        self._join_rows()

    def _take(self, axes: Sequence[int]) -> None:
        self.batch = tuple(self.batch[i] for i in axes)
        for x in self.matrices.values():
            x.batch = tuple(x.batch[i] for i in axes)

    def _join_rows(self) -> None:
        """`[B, M, K] @ [K, N]` is `[B * M, K] @ [K, N]` if all rows have one stride."""
        while self.batch:
            size = self.batch[-1]
            by_rows = [x for name, x in self.matrices.items() if name != "b"]
            if self.matrices["b"].batch[-1] != 0:
                return
            if not all(_joins(x, self.m) for x in by_rows):
                return
            if self.m == 1:  # rows are the batches
                for x in by_rows:
                    x.strides = (x.batch[-1], x.strides[1])
            self.m *= size
            self._take(range(len(self.batch) - 1))

    def swapped(self) -> Problem:
        """SwapAB, outᵀ = bᵀ · aᵀ: the same arrays as transposed views."""
        problem = Problem(self.n, self.m, self.k, self.batch)
        roles = {"a": "b", "b": "a"}
        for name in ("b", "a", *[name for name in self.matrices if name not in roles]):
            x = self.matrices[name]
            role = roles.get(name, name)
            first, last = x.strides
            problem.matrices[role] = Matrix(role, x.view.transposed(), (last, first), x.batch)
        return problem

    def integers(self, names: Sequence[str]) -> list[int]:
        """Values of a program's integer parameters."""
        return [self._integer(name) for name in names]

    def find_units(self) -> None:
        """Find divisors of strides, and of the contiguous extent of results.

        Specialization only records multiples of 16, but 8 fp16 are 16 bytes, enough for TMA and the widest accesses.
        """
        names = {}
        for name, x in self.matrices.items():
            axes = {"a": "mk", "b": "kn"}.get(name, "mn")
            for axis, stride in zip(axes, x.strides, strict=True):
                names[f"{name}_{axis}"] = (stride, x.view.dtype.itemsize)
            for i, stride in enumerate(x.batch):
                names[f"{name}_b{i}"] = (stride, x.view.dtype.itemsize)
        out = self.matrices["out"]
        names["M" if out.order == COLUMN else "N"] = (
            self.m if out.order == COLUMN else self.n, out.view.dtype.itemsize,
        )  # fmt: skip
        a, b = self.matrices["a"], self.matrices["b"]
        along_k = [
            x.view.dtype.itemsize for x, order in ((a, ROW), (b, COLUMN)) if x.order == order
        ]
        if along_k:  # their rows or columns along K are contiguous
            names["K"] = (self.k, min(along_k))
        for name, (value, size) in names.items():
            if value in (0, 1) or value % 16 == 0:
                continue
            widest = max(1, 16 // size)
            factor = next((f for f in (8, 4, 2) if f <= widest and value % f == 0), 1)
            if factor > 1:
                self.units[name] = factor

    def _integer(self, name: str) -> int:
        sizes = {"M": self.m, "N": self.n, "K": self.k}
        if name in sizes:
            return sizes[name]
        if name.startswith("batch"):
            return self.batch[int(name[5:])]
        matrix, _, axis = name.rpartition("_")
        found = self.matrices[matrix]
        if axis.startswith("b"):
            return found.batch[int(axis[1:])]
        first = {"a": "m", "b": "k"}.get(matrix, "m")
        return found.strides[0 if axis == first else 1]


def _shown(name: str) -> str:
    """A matrix's name in messages."""
    return f"array {int(name[1:]) + 1} of the epilogue" if name[0] == "x" else f"'{name}'"


def _joins(x: Matrix, m: int) -> bool:
    """Whether the last batch axis of `x` continues its rows at the same stride."""
    if m == 1:
        return True
    return x.batch[-1] == x.strides[0] * m


def broadcast_batches(a: Sequence[int], b: Sequence[int], what: str) -> tuple[int, ...]:
    """The broadcast batch axes of two operands. Raises LaunchError if they do not broadcast."""
    try:
        return numpy.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        raise LaunchError(f"{what}: batch axes {list(a)} and {list(b)} do not broadcast") from None


def axes_of(x: Matrix, m: int, n: int) -> str:
    """The axes along which an epilogue's tensor is not broadcast: "mn", "m", "n" or ""."""
    down = m > 1 and x.strides[0] != 0
    across = n > 1 and x.strides[1] != 0
    return ("m" if down else "") + ("n" if across else "")
