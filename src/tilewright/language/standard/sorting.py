"""Sorting along the last dimension by a bitonic network.

A network compares elements whose flat indices differ in one bit. `reshape` to `[rows, 2, stride]`
brings such pairs together, so that a stage is a handful of whole-tile operations. A few of the largest elements are found one by one
on a CPU, where a reduction is a loop over vectors and exchanges between neighbors are not.
"""

# Written in the kernel language, whose constexpr annotations are no Python types:
# pyright: reportAssignmentType=false, reportRedeclaration=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from typing import Any

from tilewright.language import core as tl
from tilewright.language.kernel_function import KernelFunction
from tilewright.language.target_info import is_cpu

_MOST_SELECTED = 8
"""Elements that `topk` finds one by one on a CPU."""


@KernelFunction
def _exchange(
    x: Any,
    extent: tl.constexpr,
    block: tl.constexpr,
    stride: tl.constexpr,
    descending: tl.constexpr,
) -> Any:
    """Order pairs at distance `stride`; the direction alternates from one run of `block` to the next.

    On a CPU by a butterfly: each element is compared with its partner, which is twice the work in whole vectors.
    """
    if is_cpu():
        rows: tl.constexpr = x.numel // extent
        own = tl.reshape(x, [rows, extent])
        at = tl.arange(0, extent)[None, :]
        other = tl.gather(own, tl.broadcast_to(at ^ stride, [rows, extent]), 1)
        first = (at & stride) == 0
        ascending = ((at & block) == 0) != descending
        swap = (tl.where(first, own, other) > tl.where(first, other, own)) == ascending
        ordered = tl.where(swap, other, own)
    else:
        rows: tl.constexpr = x.numel // (2 * stride)
        a, b = tl.split(tl.permute(tl.reshape(x, [rows, 2, stride]), 0, 2, 1))
        start = tl.arange(0, rows) * (2 * stride)
        ascending = ((((start % extent) // block) % 2 == 0) != descending)[:, None]
        swap = (a > b) == ascending
        ordered = tl.permute(tl.join(tl.where(swap, b, a), tl.where(swap, a, b)), 0, 2, 1)
    return tl.reshape(ordered, x.shape)


@KernelFunction
def _merge(x: Any, extent: tl.constexpr, log_block: tl.constexpr, descending: tl.constexpr) -> Any:
    """Sort runs of 2**log_block elements, each of which is bitonic."""
    for step in tl.static_range(log_block):
        x = _exchange(x, extent, 2**log_block, 2 ** (log_block - 1 - step), descending)
    return x


@KernelFunction
def bitonic_merge(x: Any, dim: tl.constexpr = None, descending: tl.constexpr = False) -> Any:
    """Sort along the last dimension what is a rising run followed by a falling one."""
    tl.static_assert(
        dim is None or dim == len(x.shape) - 1 or dim == -1, "only the last dimension is merged"
    )
    extent: tl.constexpr = x.shape[-1]
    tl.static_assert(
        extent & (extent - 1) == 0,
        f"the last dimension has extent {extent}, which is not a power of two",
    )
    log_extent: tl.constexpr = extent.bit_length() - 1
    return _merge(x, extent, log_extent, descending)


@KernelFunction
def sort(x: Any, dim: tl.constexpr = None, descending: tl.constexpr = False) -> Any:
    """Sort along the last dimension. Where NaNs go is not specified."""
    tl.static_assert(
        dim is None or dim == len(x.shape) - 1 or dim == -1, "only the last dimension is sorted"
    )
    extent: tl.constexpr = x.shape[-1]
    tl.static_assert(
        extent & (extent - 1) == 0,
        f"the last dimension has extent {extent}, which is not a power of two",
    )
    log_extent: tl.constexpr = extent.bit_length() - 1
    for log_block in tl.static_range(1, log_extent + 1):
        x = _merge(x, extent, log_block, descending)
    return x


def _beyond(dtype: Any, descending: bool) -> float:
    """The value of `dtype` that is chosen after all others."""
    if dtype.is_floating():
        return -math.inf if descending else math.inf
    bits = dtype.primitive_bitwidth
    if dtype.is_int_unsigned():
        return 0 if descending else (1 << bits) - 1
    return -(1 << bits - 1) if descending else (1 << bits - 1) - 1


@KernelFunction
def topk(x: Any, k: tl.constexpr, dim: tl.constexpr = None, descending: tl.constexpr = True) -> Any:
    """The `k` largest elements (smallest, unless `descending`) along the last dimension, in order."""
    tl.static_assert(k <= x.shape[-1], "topk: k is larger than the last dimension")
    tl.static_assert(
        dim is None or dim == len(x.shape) - 1 or dim == -1, "only the last dimension is sorted"
    )
    if is_cpu() and k <= _MOST_SELECTED and x.dtype.primitive_bitwidth >= 16:
        return _select(x, k, descending)
    return _merge_largest(x, k, descending)


@KernelFunction
def _merge_largest(x: Any, k: tl.constexpr, descending: tl.constexpr) -> Any:
    """`topk` by sorted runs of `k` elements: of two runs, one rising and one falling, the larger of each two elements stay."""
    extent: tl.constexpr = x.shape[-1]
    tl.static_assert(
        extent & (extent - 1) == 0,
        f"the last dimension has extent {extent}, which is not a power of two",
    )
    shape: tl.constexpr = x.shape[:-1]
    rows: tl.constexpr = x.numel // extent
    log_run: tl.constexpr = (k - 1).bit_length()
    run: tl.constexpr = 1 << log_run
    x = tl.reshape(x, [rows, extent])
    for log_block in tl.static_range(1, log_run + 1):
        x = _merge(x, extent, log_block, descending)
    for halvings in tl.static_range(1, extent.bit_length() - log_run):
        left: tl.constexpr = extent >> halvings
        pairs = tl.reshape(x, [rows * left // run, 2, run])
        a, b = tl.split(tl.permute(pairs, 0, 2, 1))
        if descending:
            first = a > b
        else:
            first = a < b
        x = _merge(tl.reshape(tl.where(first, a, b), [rows, left]), left, log_run, descending)
    return tl.reshape(x, [*shape, run])[..., :k]


@KernelFunction
def _select(x: Any, k: tl.constexpr, descending: tl.constexpr) -> Any:
    """`topk` by reductions along contiguous memory, each of which finds one element."""
    extent: tl.constexpr = x.shape[-1]
    rows: tl.constexpr = x.numel // extent
    size: tl.constexpr = 1 << (k - 1).bit_length()
    shape: tl.constexpr = x.shape[:-1]
    used: tl.constexpr = _beyond(x.dtype, descending)
    x = tl.reshape(x, [rows, extent])
    found = tl.zeros([rows, size], x.dtype)
    for place in range(k):
        if descending:
            value, index = tl.max(x, 1, return_indices=True)
        else:
            value, index = tl.min(x, 1, return_indices=True)
        value = value.to(x.dtype)
        found = tl.where(tl.arange(0, size)[None, :] == place, value[:, None], found)
        x = tl.where(tl.arange(0, extent)[None, :] == index[:, None], used, x)
    return tl.reshape(found[:, :k], [*shape, k])


@KernelFunction
def sort_impl(
    x: Any, k: tl.constexpr = None, dim: tl.constexpr = None, descending: tl.constexpr = False
) -> Any:
    """`topk` of `k` elements, or `sort`."""
    if k is None:
        return sort(x, dim, descending)
    return topk(x, k, dim, descending)
