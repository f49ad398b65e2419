"""Whether two runs of a kernel left the same values: relative error per tensor, NaN equal to NaN.

The error of a tensor is the 2-norm of the difference over the 2-norm of the reference, computed in float64. NaN must be
where NaN is, and infinities equal themselves. Integers and booleans must be equal, but for 8-bit integers: they hold
quantized values, which an equally good sum may round to the neighbor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TOLERANCES = {"float64": 1e-6, "float32": 2e-3, "float16": 5e-3, "bfloat16": 2e-2}
"""Largest relative error by data type. fp32 allows other orders of summation and for TF32."""
NARROW_TOLERANCE = 5e-2
"""The same for fp8."""
QUANTIZED_TOLERANCE = 1e-2
"""The same for 8-bit integers."""
_CHUNK = 1 << 25
NOISE = 4
"""A difference up to this multiple of that between two Triton runs is classified as nondeterminism."""


@dataclass(frozen=True)
class Difference:
    """The tensor whose error most exceeds its tolerance: relative error, tolerance, index and dtype."""

    error: float
    tolerance: float
    index: int
    dtype: str

    @property
    def excess(self) -> float:
        """Error over tolerance; infinite where no tolerance helps."""
        if math.isnan(self.error):
            return math.inf
        if self.tolerance:
            return self.error / self.tolerance
        return math.inf if self.error else 0.0


def compare_tensors(given: Sequence[Any], reference: Sequence[Any]) -> Difference | None:
    """The tensor with the largest excess; None where there are no tensors."""
    worst: Difference | None = None
    for index, (x, y) in enumerate(zip(given, reference, strict=True)):
        dtype = str(y.dtype).removeprefix("torch.")
        found = Difference(relative_error(x, y), tolerance_of(y), index, dtype)
        if worst is None or found.excess > worst.excess:
            worst = found
    return worst


def tolerance_of(tensor: Any) -> float:
    """The largest relative error for a tensor's data type."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return QUANTIZED_TOLERANCE if str(tensor.dtype) in ("torch.int8", "torch.uint8") else 0.0
    name = str(tensor.dtype).removeprefix("torch.").replace("complex64", "float32")
    if tensor.element_size() == 1:
        return NARROW_TOLERANCE
    return TOLERANCES.get(name, TOLERANCES["float64"])


def relative_error(given: Any, reference: Any) -> float:
    """The relative error of a tensor; NaN where NaN or infinities differ."""
    import torch

    if given.is_complex():
        given, reference = torch.view_as_real(given), torch.view_as_real(reference)
    given, reference = given.detach().reshape(-1), reference.detach().reshape(-1)
    distance = size = 0.0
    for start in range(0, given.numel(), _CHUNK):
        x, y = (_wide(t[start : start + _CHUNK]) for t in (given, reference))
        odd = torch.isnan(x) != torch.isnan(y)
        same = (torch.isnan(x) & torch.isnan(y)) | (x == y)
        if bool((odd | (~same & ~(torch.isfinite(x) & torch.isfinite(y)))).any()):
            return math.nan
        zero = torch.zeros_like(y)
        distance += float(torch.where(same, zero, x - y).square().sum())
        size += float(torch.where(torch.isfinite(y), y, zero).square().sum())
    if not distance:
        return 0.0
    return math.sqrt(distance / size) if size else math.inf


def _wide(tensor: Any) -> Any:
    narrow = tensor.is_floating_point() and tensor.element_size() == 1
    return (tensor.float() if narrow else tensor).double()


def verdict(ours: Difference | None, triton: Difference | None) -> str:
    """ "agrees", "nondeterministic" (Triton differs from itself about as much) or "differs".

    `ours`: tilewright's results against Triton's; `triton`: Triton's against a second run of Triton.
    """
    if ours is None or ours.excess <= 1:
        return "agrees"
    if triton is not None and triton.error and ours.excess <= NOISE * triton.excess:
        return "nondeterministic"
    return "differs"
