"""Operations of the `gpu` dialect for tensor maps that are encoded on the device."""

from __future__ import annotations

from tilewright.dialects import tile
from tilewright.dialects.irdl import *
from tilewright.dialects.tile.base import require


@operation
class EncodeTensorMapOp(SegmentedOp):
    """Encode the tensor map of an array whose address or shape the host does not know.

    The result is the address `base`; TMA loads and stores with the result as their base use the map. The operands
    describe the array as those of `gpu.tma_load` do and must be equal to them. Requires: `base` and the pitches in
    bytes are multiples of 16. Ensures: all prior accesses of the program, by TMA or otherwise, are ordered before all
    later ones, and prior TMA stores have completed. All threads of the program participate.
    """

    name = "gpu.encode_tensor_map"
    base = operand_def(tile.PtrType)
    global_dims = var_operand_def(i64)
    global_strides = var_operand_def(i64)
    result = result_def(tile.PtrType)
    assembly_format = (
        "$base `of` `[` $global_dims `]` (`strides` `(` $global_strides^ `)`)? attr-dict"
        " `:` type($base) `to` type($result)"
    )

    def verify_(self) -> None:
        require(self.base.type == self.result.type, f"{self.name}: the result is the address")
        rank = len(self.global_dims)
        require(
            len(self.global_strides) == rank - 1, f"{self.name}: a pitch for each but the first"
        )


@operation
class ProxyFenceOp(Op):
    """If `pred`, order prior global-memory accesses of the program, including TMA stores, before the TMA operations
    after the next barrier (PTX ISA, `fence.proxy.async`)."""

    name = "gpu.proxy_fence"
    pred = operand_def(i1)
    assembly_format = "$pred attr-dict"
