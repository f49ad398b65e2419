"""Tensor maps of a kernel: parameters, and recipes from which the host encodes them."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from tilewright.backends.base import Extent, TensorMap
from tilewright.dialects import gpu
from tilewright.dialects.address_arithmetic import access_arithmetic
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.symbolic import Symbolic
from tilewright.passes.gpu.analysis.cluster_loops import SHARED
from tilewright.passes.gpu.multicast_tma_loads import halves

BYTES = 128
"""Size of a tensor map (CUtensorMap)."""
TmaOp = gpu.TmaLoadOp | gpu.TmaStoreOp


class TensorMaps:
    """The distinct tensor maps of a function that the host makes, in order of first use."""

    def __init__(self, function: FuncOp) -> None:
        self._numbers: dict[TmaOp, int] = {}
        self.recipes: list[TensorMap] = []
        for op in function.walk():
            if type(op) is gpu.TmaLoadOp or type(op) is gpu.TmaStoreOp:
                if isinstance(op.base.owner, gpu.EncodeTensorMapOp):
                    continue  # the program makes it
                recipe = self._recipe(op)
                if recipe not in self.recipes:
                    self.recipes.append(recipe)
                self._numbers[op] = self.recipes.index(recipe)

    def number(self, op: TmaOp) -> int:
        """Index of the tensor map of a TMA operation."""
        return self._numbers[op]

    def _recipe(self, op: TmaOp) -> TensorMap:
        shared = gpu.shared_layout_of(op.buffer)
        symbols = Symbolic(Facts(access_arithmetic(op)))
        return TensorMap(
            argument=_argument(op.base),
            element_bytes=shared.size,
            global_dims=tuple(_extent(v, symbols) for v in op.global_dims),
            global_strides=tuple(_extent(v, symbols) for v in op.global_strides),
            box_dims=(shared.width, shared.strided_extent // _parts(op)),
            swizzle_bytes=max(0, shared.swizzle_bytes),
        )


def _extent(value: SSAValue, symbols: Symbolic) -> Extent:
    polynomial: Polynomial = symbols.of(value)
    return Extent(
        tuple(
            (coefficient, tuple(_argument(leaf.value) for leaf in monomial))
            for monomial, coefficient in polynomial.terms
        )
    )


def _parts(op: TmaOp) -> int:
    """Number of TMA tiles into which a swizzle panel's rows are divided."""
    if not isinstance(op, gpu.TmaLoadOp) or SHARED not in op.attributes:
        return 1
    return 2 if halves(op) == "lines" else 1


def _argument(value: SSAValue) -> int:
    if not isinstance(value, BlockArgument):
        raise TypeError(f"not a kernel argument: {value}")
    return value.index
