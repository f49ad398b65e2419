"""Tiles of products on GPUs that the model weighs: block_m, block_n, warps."""

from __future__ import annotations

#: what warp-group products take
WARP_GROUP_TILES = (
    (128, 256, 8), (256, 128, 8), (192, 192, 12), (128, 192, 8), (192, 128, 12), (128, 128, 8),
    (192, 96, 12), (128, 96, 8), (64, 256, 4), (64, 192, 4), (128, 64, 8), (64, 128, 4), (64, 96, 4),
    (64, 64, 4), (128, 32, 8), (64, 32, 4), (128, 16, 8), (64, 16, 4), (64, 8, 4),
)  # fmt: skip
#: of elements of 16 bits, with how much longer a step takes than is estimated (measured on an H200); those of 256 rows
#: also of 8 bits that lie along k
WIDE_TILES = {
    (192, 256, 12): 1.0, (256, 192, 8): 1.01, (192, 224, 12): 1.04, (128, 224, 8): 1.07,
    (256, 176, 8): 1.05, (256, 160, 8): 1.05,
}  # fmt: skip
#: with accumulators of 16 bits
HALF_TILES = ((256, 256, 8), (256, 192, 8))
_NARROW_TILES = (
    (32, 128, 4), (128, 32, 4), (32, 64, 4), (64, 32, 4), (32, 32, 4), (16, 128, 4), (128, 16, 4),
    (16, 64, 2), (64, 16, 2), (16, 32, 1), (32, 16, 1), (16, 16, 1),
)  # fmt: skip
#: what multiply-adds take: a thread's part of a tile stays in registers
PLAIN_TILES = ((128, 128, 8), (128, 64, 8), (64, 128, 8), (64, 64, 4), *_NARROW_TILES)
#: what mma.sync takes
WARP_TILES = ((128, 256, 8), (256, 128, 8), (128, 128, 4), (64, 256, 4), (256, 64, 4), *PLAIN_TILES)
