"""Reductions and scans along a dimension, with known or user-written combine functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.shapes import Shapes
from tilewright.semantics.values import TensorValue, describe, type_text

Combine = Callable[..., Any]


def extreme_operation(symbol: str, kind: Any, nan_wins: bool = False) -> str:
    """The operation that gives the larger (">") or smaller ("<") of two numbers of type `kind`."""
    name = "arith.max" if symbol == ">" else "arith.min"
    if kind.is_floating():
        return name + ("imumf" if nan_wins else "numf")
    return name + ("ui" if kind.is_int_unsigned() else "si")


def _extreme_of(symbol: str) -> Callable[..., Any]:
    """Build the method that returns the largest (">") or smallest element, optionally with its index."""

    def method(
        self: Reductions,
        input: Any,
        axis: Any = None,
        return_indices: Any = False,
        return_indices_tie_break_left: Any = True,
        keep_dims: Any = False,
    ) -> Any:
        first = return_indices_tie_break_left
        return self._extreme(symbol, input, axis, return_indices, first, keep_dims)

    return method


def _index_of(symbol: str) -> Callable[..., TensorValue]:
    """Build the method that returns the int32 index of the largest or smallest element; the first on ties."""

    def method(
        self: Reductions, input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False
    ) -> TensorValue:
        return self._extreme(symbol, input, axis, True, tie_break_left, keep_dims)[1]

    return method


class Reductions(Shapes):
    """`sum`, `max`, `argmax`, `reduce`, `cumsum`, `associative_scan` …"""

    # ---- the general forms ---------------------------------------------------------------------

    def reduce(self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
        inputs, several = self._inputs(input, "tl.reduce")

        def combine(*args: TensorValue) -> Any:
            return self.call_function(combine_fn, args)

        results = self._reduce(inputs, axis, combine, self.known_bool(keep_dims, "keep_dims"))
        return tuple(results) if several else results[0]

    def associative_scan(self, input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
        inputs, several = self._inputs(input, "tl.associative_scan")

        def combine(*args: TensorValue) -> Any:
            return self.call_function(combine_fn, args)

        results = self._scan(inputs, axis, combine, reverse)
        return tuple(results) if several else results[0]

    def _inputs(self, value: Any, what: str) -> tuple[list[TensorValue], bool]:
        value = unwrap_constexpr(value)
        several = isinstance(value, tuple | list)
        tiles = [self.to_tensor(v) for v in (value if several else (value,))]
        if not tiles:
            raise KernelTypeError(f"{what} needs at least one tile")
        return (self.broadcast_all(tiles, what) if several else tiles), several

    def _combiner(
        self, kinds: Sequence[Any], combine: Combine, what: str
    ) -> Callable[..., list[Any]]:
        """`combine` on semantic values as a function on handles that checks its results."""

        def run(*handles: Any) -> list[Any]:
            args = [self.tensor(h, k) for h, k in zip(handles, (*kinds, *kinds), strict=True)]
            result = combine(*args)
            results = list(result) if isinstance(result, tuple | list) else [result]
            if len(results) != len(kinds):
                raise KernelTypeError(
                    f"{what}: the combine function returned {len(results)} values instead of"
                    f" {len(kinds)}"
                )
            return [
                self._combined(value, kind, what)
                for value, kind in zip(results, kinds, strict=True)
            ]

        return run

    def _combined(self, value: Any, kind: Any, what: str) -> Any:
        value = unwrap_constexpr(value)
        if isinstance(value, bool | int | float):
            return self._number_as(value, kind).handle
        if not isinstance(value, TensorValue) or value.shape:
            raise KernelTypeError(
                f"{what}: the combine function returned {describe(value)}, not a {kind} scalar"
            )
        return self.convert(value, kind).handle

    def _reduce(
        self, inputs: list[TensorValue], axis: Any, combine: Combine, keep_dims: bool
    ) -> list[TensorValue]:
        rank = inputs[0].ndim
        shape = inputs[0].shape
        number = unwrap_constexpr(axis)
        if rank == 0:
            if number is not None:
                raise KernelTypeError(
                    f"a reduction along axis {number} of the scalar {type_text(inputs[0].type)}"
                )
            return inputs
        if number is None:
            place = 0
            inputs = [self.reshaped(x, (x.numel,), "a reduction") for x in inputs]
            kept = (1,) * rank
        else:
            place = self.dimension(number, rank, "a reduction")
            kept = (*shape[:place], 1, *shape[place + 1 :])
        flat = inputs[0].shape
        rest = flat[:place] + flat[place + 1 :]
        kinds = [x.dtype for x in inputs]
        handles = self.builder.region_op(
            "tile.reduce",
            [x.handle for x in inputs],
            [k.with_shape(rest) for k in kinds],
            [*kinds, *kinds],
            self._combiner(kinds, combine, "tl.reduce"),
            axis=place,
        )
        results = [self.tensor(h, k.with_shape(rest)) for h, k in zip(handles, kinds, strict=True)]
        if not keep_dims:
            return results
        if number is None or not rest:
            return [self.splat(r, kept) for r in results]
        return [self._insert_axis(r, place) for r in results]

    def _scan(
        self, inputs: list[TensorValue], axis: Any, combine: Combine, reverse: Any
    ) -> list[TensorValue]:
        for x in inputs:
            self.tile_argument(x, "a scan")
        place = self.dimension(axis, inputs[0].ndim, "a scan")
        kinds = [x.dtype for x in inputs]
        handles = self.builder.region_op(
            "tile.scan",
            [x.handle for x in inputs],
            [x.type for x in inputs],
            [*kinds, *kinds],
            self._combiner(kinds, combine, "tl.associative_scan"),
            axis=place,
            reverse=self.known_bool(reverse, "reverse"),
        )
        return [self.tensor(h, x.type) for h, x in zip(handles, inputs, strict=True)]

    def item(self, x: Any) -> TensorValue:
        """The scalar in a one-element tile."""
        value = self.to_tensor(x)
        if value.numel != 1:
            raise KernelTypeError(f"item() needs one element, got {type_text(value.type)}")
        if not value.shape:
            return value
        flat = self.reshaped(value, (1,), "item()")
        return self._reduce([flat], 0, lambda a, b: a, False)[0]

    # ---- sums and the like ---------------------------------------------------------------------

    def _sum_type(self, kind: Any, dtype: Any) -> Any:
        """The result type of a sum: `dtype` if given; integers have at least 32 bits, int1 counts as unsigned."""
        if unwrap_constexpr(dtype) is not None:
            return self.known_dtype(dtype)
        if kind.is_int() and kind.primitive_bitwidth < 32:
            return t.uint32 if kind.is_int_unsigned() else t.int32
        return kind

    def _in_wide(self, x: TensorValue) -> TensorValue:
        """Convert floats narrower than 32 bits to fp32, so that sums round once, at the end."""
        narrow = x.dtype.is_floating() and x.dtype.primitive_bitwidth < 32
        return self.convert(x, t.float32) if narrow else x

    def _bf16_as_fp32(self, x: Any) -> Any:
        """A bf16 tensor as fp32, anything else as it is."""
        bf16 = isinstance(x, TensorValue) and x.dtype == t.bfloat16
        return self.convert(x, t.float32) if bf16 else x

    def _fold(
        self, input: Any, axis: Any, keep_dims: Any, combine: Combine, kind: Any, what: str
    ) -> TensorValue:
        x = self.to_tensor(input)
        if x.dtype.is_ptr():
            raise KernelTypeError(f"{what} needs numbers, got {type_text(x.type)}")
        x = self._in_wide(self.convert(x, kind(x.dtype)))
        result = self._reduce([x], axis, combine, self.known_bool(keep_dims, "keep_dims"))[0]
        return self.convert(result, kind(self.to_tensor(input).dtype))

    def sum(
        self, input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None
    ) -> TensorValue:
        return self._fold(
            input, axis, keep_dims, lambda a, b: a + b,
            lambda k: self._sum_type(k, dtype), "tl.sum",
        )  # fmt: skip

    def xor_sum(self, input: Any, axis: Any = None, keep_dims: Any = False) -> TensorValue:
        return self._fold_bits("^", input, axis, keep_dims, "tl.xor_sum")

    def reduce_or(self, input: Any, axis: Any = None, keep_dims: Any = False) -> TensorValue:
        return self._fold_bits("|", input, axis, keep_dims, "tl.reduce_or")

    def _fold_bits(
        self, symbol: str, input: Any, axis: Any, keep_dims: Any, what: str
    ) -> TensorValue:
        x = self.to_tensor(input)
        if not x.dtype.is_int():
            raise KernelTypeError(f"{what} needs integers, got {type_text(x.type)}")
        return self._fold(
            x, axis, keep_dims, lambda a, b: self.binary(symbol, a, b), lambda k: k, what
        )

    # ---- largest and smallest ------------------------------------------------------------------

    max, min = _extreme_of(">"), _extreme_of("<")
    argmax, argmin = _index_of(">"), _index_of("<")

    def _extreme(
        self, symbol: str, input: Any, axis: Any, indices: Any, left: Any, keep_dims: Any
    ) -> Any:
        what = "tl.max" if symbol == ">" else "tl.min"
        if not self.known_bool(indices, "return_indices"):

            def combine(a: TensorValue, b: TensorValue) -> TensorValue:
                return self.emit(extreme_operation(symbol, a.dtype), [a, b], a.type)

            return self._fold(input, axis, keep_dims, combine, self._extreme_type, what)
        x = self._bf16_as_fp32(self.tile_argument(input, what))
        kind = x.dtype
        x = self._in_wide(x)
        number = unwrap_constexpr(axis)
        rank = x.ndim
        if number is None:
            x = self.reshaped(x, (x.numel,), what)
        place = 0 if number is None else self.dimension(number, rank, what)
        index = self._place(self.lanes(0, x.shape[place]), place, x.ndim)
        index = self.broadcast_shape(index, x.shape)
        combine = self._indexed(symbol, self.known_bool(left, "tie_break_left"))
        kept = self.known_bool(keep_dims, "keep_dims")
        value, where = self._reduce([x, index], place, combine, kept and number is not None)
        if kept and number is None:
            value, where = self.splat(value, (1,) * rank), self.splat(where, (1,) * rank)
        return self.convert(value, kind), where

    def _extreme_type(self, kind: Any) -> Any:
        """Numbers narrower than 32 bits become fp32 or int32 (unsigned ones, too), as in Triton."""
        if kind.primitive_bitwidth >= 32:
            return kind
        return t.float32 if kind.is_floating() else t.int32

    def _indexed(self, symbol: str, left: bool) -> Combine:
        def combine(v1: Any, i1: Any, v2: Any, i2: Any) -> Any:
            first = self.binary(symbol, v1, v2)
            if left:
                tie = (v1 == v2) & (i1 < i2)
                first = first | tie
            return self.where(first, v1, v2), self.where(first, i1, i2)

        return combine

    # ---- scans ---------------------------------------------------------------------------------

    def cumsum(
        self, input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None
    ) -> TensorValue:
        return self._running("+", input, axis, reverse, dtype)

    def cumprod(
        self, input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None
    ) -> TensorValue:
        return self._running("*", input, axis, reverse, dtype)

    def _running(self, symbol: str, input: Any, axis: Any, reverse: Any, dtype: Any) -> TensorValue:
        x = self._bf16_as_fp32(self.tile_argument(input, "a scan"))
        # products of bytes stay bytes, as in Triton
        keeps = symbol == "*" and unwrap_constexpr(dtype) is None
        kind = x.dtype if keeps else self._sum_type(x.dtype, dtype)
        x = self._in_wide(self.convert(x, kind))
        result = self._scan([x], axis, lambda a, b: self.binary(symbol, a, b), reverse)[0]
        return self.convert(result, kind)

    def histogram(self, input: Any, num_bins: Any, mask: Any = None) -> TensorValue:
        x = self.tile_argument(input, "tl.histogram")
        if x.ndim != 1 or not x.dtype.is_int():
            raise KernelTypeError(
                f"tl.histogram needs one dimension of integers, got {type_text(x.type)}"
            )
        bins = self.shape_argument(num_bins, "tl.histogram")
        if x.dtype.primitive_bitwidth < 32:  # the IR is signless: 200 of uint8 is not -56
            x = self.convert(x, t.int32)
        chosen = unwrap_constexpr(mask)
        if chosen is not None:
            chosen = self.broadcast_shape(self.truth(chosen), x.shape, "tl.histogram: mask")
        return self.emit("tile.histogram", [x, chosen], t.block_type(t.int32, bins))
