"""`Contraction`: description of a matmul, independent of sizes and tiling.

    out[*, i, j] = epilogue(α · Σ_k a[*, i, k] · b[*, k, j] + β · addend[*, i, j])

`*` are batch axes, along which an operand may be broadcast. Every starting point (a call of
`tilewright.matmul`, a decorated loop nest, MLIR text) is reduced to one. Sizes, strides, addresses and
scalars are run-time arguments of the generated program; an operand's order only says which stride is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tilewright import dtypes
from tilewright.dtypes import dtype
from tilewright.errors import KernelTypeError

ROW, COLUMN, GENERAL = "row", "column", "general"
ORDERS = (ROW, COLUMN, GENERAL)
PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")

#: Kinds of `Step`, with the number of tensors that each takes (None: any).
STEPS: dict[str, int | None] = {
    "add": 1,
    "multiply": 1,
    "scale": 0,
    "cast": 0,
    "relu": 0,
    "leaky_relu": 0,
    "gelu": 0,
    "gelu_tanh": 0,
    "silu": 0,
    "sigmoid": 0,
    "tanh": 0,
    "function": None,
}
#: Kinds that have a number, which is an argument of the program.
WITH_NUMBER = ("scale", "leaky_relu")


@dataclass(eq=False, slots=True)
class Part:
    """One step of an epilogue with its arrays, or in a description their accesses.

    `axis` is "m" for a vector with an element a row, "n" for an element a column, "" where shapes
    broadcast to the result's as NumPy's do.
    """

    kind: str
    arrays: tuple[Any, ...] = ()
    number: float | None = None
    dtype: dtype | None = None
    function: Any = None
    axis: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix: its element type, its order and the batch axes along which it has elements.

    `order` is "row" (the stride of the last axis is 1), "column" (that of the one before) or "general".
    `batch` has a bool for each batch axis of the contraction; False: broadcast.
    """

    dtype: dtype
    order: str = ROW
    batch: tuple[bool, ...] = ()

    def transposed(self) -> Operand:
        """The same memory as the transposed matrix."""
        orders = {ROW: COLUMN, COLUMN: ROW, GENERAL: GENERAL}
        return replace(self, order=orders[self.order])


@dataclass(frozen=True, slots=True)
class Extra:
    """A tensor that an epilogue reads: `axes` is "mn", "m", "n" or "" (a scalar in memory).

    A matrix has two strides, a vector one. `batch` as in `Operand`.
    """

    dtype: dtype
    axes: str = "mn"
    batch: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One elementwise step of an epilogue, applied to the accumulator in registers.

    Attributes:
        kind: a key of `STEPS`. "add" covers biases (a vector along m or n) and residuals (a matrix),
            "multiply" scaling by tensors, "scale" by a number given at run time.
        extras: the tensors it reads.
        dtype: what "cast" converts to.
        function: for "function", a jit function of the accumulator and the extras, each broadcast to the tile
            by `[:, None]` or `[None, :]`; returns a tile of the same shape.
    """

    kind: str
    extras: tuple[Extra, ...] = ()
    dtype: dtype | None = None
    function: Any = None

    def __post_init__(self) -> None:
        if self.kind not in STEPS:
            raise KernelTypeError(
                f"unknown epilogue '{self.kind}'", help=f"there are {', '.join(sorted(STEPS))}"
            )
        count = STEPS[self.kind]
        if count is not None and len(self.extras) != count:
            raise KernelTypeError(
                f"epilogue '{self.kind}' takes {count} tensors, not {len(self.extras)}"
            )
        if (self.kind == "cast") != (self.dtype is not None):
            raise KernelTypeError(f"epilogue '{self.kind}' with dtype {self.dtype}")
        if (self.kind == "function") != (self.function is not None):
            raise KernelTypeError(f"epilogue '{self.kind}' with function {self.function!r}")


@dataclass(frozen=True, slots=True)
class Contraction:
    """See the module docstring.

    Attributes:
        a, b, out: the operands; extents [M, K], [K, N] and [M, N].
        accumulator: accumulator type (None: fp32 for floats, fp64 for fp64, int32 for integers).
        precision: of single-precision matmuls, as `tl.dot`'s `input_precision`.
        has_alpha: whether there is an α. `addend`: C, with its β, or None.
        batch_rank: batch axes. `offsets_64bit`: offsets may exceed 32 bits; `indices_64bit`: so may indices along one axis.
        size_divisors: (integer argument, divisor): what programs may assume of sizes and strides beyond the
            divisor that launches specialize for (16).
    """

    a: Operand
    b: Operand
    out: Operand
    accumulator: dtype | None = None
    precision: str = "ieee"
    has_alpha: bool = False
    addend: Operand | None = None
    epilogue: tuple[Step, ...] = ()
    batch_rank: int = 0
    offsets_64bit: bool = False
    indices_64bit: bool = False
    size_divisors: tuple[tuple[str, int], ...] = ()
    name: str = field(default="matmul", compare=False)
    """A readable name of the program."""

    def __post_init__(self) -> None:
        if self.accumulator is None:
            object.__setattr__(self, "accumulator", dtypes.accumulators(self.a.dtype)[0])
        self._check_types()
        for what, item in self.matrices:
            if item.order not in ORDERS:
                raise KernelTypeError(f"{what} has order {item.order!r}, not one of {ORDERS}")
            if len(item.batch) != self.batch_rank:
                raise KernelTypeError(
                    f"{what} has {len(item.batch)} batch axes, the contraction {self.batch_rank}"
                )
        if not all(self.out.batch):
            raise KernelTypeError("the result has an element for every batch index")

    def _check_types(self) -> None:
        a, b = self.a.dtype, self.b.dtype
        for what, kind in (("a", a), ("b", b)):
            if not (kind.is_int() or kind.is_floating()) or kind.is_bool():
                raise KernelTypeError(f"{what} of a matmul cannot have dtype {kind}")
        if a != b and not (a.is_fp8() and b.is_fp8()):
            raise KernelTypeError(
                f"a matmul of {a} and {b}: the element types differ", help="convert one of them"
            )
        allowed = dtypes.accumulators(a)
        if self.accumulator not in allowed:
            raise KernelTypeError(
                f"a matmul of {a} accumulates in {' or '.join(map(str, allowed))}, not in "
                f"{self.accumulator}"
            )
        if self.precision not in PRECISIONS:
            raise KernelTypeError(f"precision {self.precision!r} is none of {PRECISIONS}")

    @property
    def accumulator_type(self) -> dtype:
        """The accumulator type."""
        assert self.accumulator is not None
        return self.accumulator

    @property
    def compute(self) -> dtype:
        """The type that epilogues compute in: fp32, or fp64 for fp64."""
        return dtypes.float64 if self.accumulator_type.is_fp64() else dtypes.float32

    @property
    def matrices(self) -> tuple[tuple[str, Operand], ...]:
        """Name and operand of each matrix, in the order of the program's arguments."""
        extra = (("c", self.addend),) if self.addend is not None else ()
        return (("a", self.a), ("b", self.b), ("out", self.out), *extra)

    def swapped(self) -> Contraction | None:
        """outᵀ = bᵀ · aᵀ; None where a step of the epilogue is a function, which sees the tile as it lies."""
        if any(step.kind == "function" for step in self.epilogue):
            return None
        axes = {"m": "n", "n": "m"}
        steps = tuple(
            replace(
                step, extras=tuple(replace(x, axes=axes.get(x.axes, x.axes)) for x in step.extras)
            )
            for step in self.epilogue
        )
        addend = None if self.addend is None else self.addend.transposed()
        return replace(
            self, a=self.b.transposed(), b=self.a.transposed(), out=self.out.transposed(), addend=addend,
            epilogue=steps,
        )  # fmt: skip

    @property
    def extras(self) -> tuple[Extra, ...]:
        """All tensors that the epilogue reads, in order."""
        return tuple(extra for step in self.epilogue for extra in step.extras)

    def bytes(self, m: int, n: int, k: int, batch: int = 1) -> int:
        """Bytes that must be moved at least: each operand once."""
        count = {"a": m * k, "b": k * n, "out": m * n, "c": m * n}
        total = 0
        for what, item in self.matrices:
            total += count[what] * item.dtype.itemsize * (batch if any(item.batch) else 1)
        sizes = {"mn": m * n, "m": m, "n": n, "": 1}
        for extra in self.extras:
            total += sizes[extra.axes] * extra.dtype.itemsize * (batch if any(extra.batch) else 1)
        return total
