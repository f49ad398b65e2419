"""Reductions and scans along a dimension."""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import builtin, stub_like


@builtin()
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Combine the elements along `axis` (all for None) with the jit function `combine_fn`.

    `input` may be a tuple of n tiles; `combine_fn` then takes 2n scalars and returns n. The order
    of combination is not fixed.
    """


@builtin()
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Inclusive running combination along `axis`, from the end when `reverse`."""


@builtin()
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:
    """Sum along `axis`, or of all elements.

    Integers below 32 bits add as 32-bit ones; fp16 and bf16 add in fp32 and round once.
    """


@builtin()
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> Any:
    """Exclusive or of integers along `axis`."""


reduce_or = stub_like(xor_sum, "reduce_or", "Inclusive or of integers along `axis`.")


@builtin()
def max(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """Largest element along `axis` (numbers win over NaN); with `return_indices` also where.

    As in Triton 3.6 the result has at least 32 bits (fp16 keeps its type with indices).
    With indices, what a NaN does is not specified."""


min = stub_like(max, "min", str(max.__doc__).replace("Largest", "Smallest"))


@builtin()
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """int32 index of the largest element along `axis`; of equal ones the first."""


argmin = stub_like(
    argmax, "argmin", "int32 index of the smallest element along `axis`; of equal ones the first."
)


@builtin()
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:
    """Running sum along `axis`, from the end when `reverse`."""


cumprod = stub_like(cumsum, "cumprod", "Running product along `axis`, from the end when `reverse`.")


@builtin()
def histogram(input: Any, num_bins: Any, mask: Any = None) -> Any:
    """int32 counts of the values 0 … num_bins-1 in a rank-1 tile of integers."""
