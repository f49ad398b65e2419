"""`triton.tools.mxfp`: tensors in formats of the OCP Microscaling specification 1.0, for tests."""

from __future__ import annotations

import math
from typing import Any

import torch

#: the eight magnitudes of e2m1, by code
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _shape(size: Any) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, tuple | list | torch.Size) else (size,)


class _Coded:
    """Codes of the numbers `data`, or of `size`."""

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        if data is None and size is None:
            raise ValueError("Either parameter data or size must be provided")
        self.device = data.device if data is not None else device
        self.size = tuple(data.shape) if data is not None else _shape(size)
        if data is not None:
            self.data = self._codes(data)

    def _codes(self, values: Any) -> Any:
        raise NotImplementedError


class MXFP4Tensor(_Coded):
    """e2m1 numbers, `data` holds one code of four bits per byte: of fp32 `data`, or of `size`."""

    def random(self) -> MXFP4Tensor:
        """Fill with random codes; gives the tensor."""
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers as `dtype`."""
        magnitudes = torch.tensor(_E2M1, device=self.device)[(self.data & 7).long()]
        return torch.where(self.data >= 8, -magnitudes, magnitudes).to(dtype)

    def _codes(self, values: Any) -> Any:
        """Round fp32 numbers to the nearest, ties to even codes; beyond 6 to 6."""
        magnitudes = torch.tensor(_E2M1, device=values.device)
        low = torch.bucketize(values.abs(), magnitudes, right=True).sub(1).clamp(0, 6)
        middle = (magnitudes[low] + magnitudes[low + 1]) / 2
        up = (values.abs() > middle) | ((values.abs() == middle) & (low % 2 == 1))
        sign = torch.signbit(values).to(torch.uint8) << 3
        return (low + up.long()).to(torch.uint8) | sign

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes per byte along `dim`, the first one low; an odd extent is padded with zero."""
        codes = self.data.movedim(dim, -1)
        if codes.shape[-1] % 2:
            codes = torch.nn.functional.pad(codes, (0, 1))
        return (codes[..., ::2] | codes[..., 1::2] << 4).movedim(-1, dim).contiguous()

    def unpack_packed_tensor(self, packed: Any, dim: int, original_shape: Any) -> Any:
        """The codes of a packed tensor, of shape `original_shape`."""
        bytes_ = packed.movedim(dim, -1)
        codes = torch.stack((bytes_ & 15, bytes_ >> 4), -1).flatten(-2)
        return codes[..., : original_shape[dim]].movedim(-1, dim)


class MXScaleTensor(_Coded):
    """e8m0 scales, powers of two: `data` holds the exponents plus 127, 255 is NaN."""

    def _codes(self, values: Any) -> Any:
        exponents = torch.floor(torch.log2(values.to(torch.float32))).add(127)
        valid = torch.isfinite(values) & (values > 0)
        return torch.where(valid, exponents.clamp(0, 254), 255).to(torch.uint8)

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with random powers of two from `low` to `high`; gives the tensor."""
        first, last = (
            bound if value is None else min(254, max(0, int(math.log2(value)) + 127))
            for value, bound in ((low, 0), (high, 254))
        )
        self.data = torch.randint(first, last + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The scales as `dtype`."""
        found = torch.exp2(self.data.to(torch.float32) - 127)
        return torch.where(self.data == 255, float("nan"), found).to(dtype)
