"""Limit the CTAs per SM, by shared memory, where loops access parts of sectors.

A loop down a column of a matrix loads and stores a few bytes of each sector of 32, and the programs of the neighboring columns
the others. L2 merges their stores, and serves their loads, as long as it holds the sectors. The more CTAs run at once the
more neighbors drift in time, and the more sectors L2 has to hold: CTAs beyond those that keep memory busy make a kernel slower.

H100, cummax of 4096 × 4096 fp32 along columns with int64 indices, 128 threads: 968 µs with 9 CTAs per SM, 846 with 4, 770
with 2, 827 with 1. Without a loop neighbors stay together, and CTAs that load fill the time in which others store: a
cumulative sum of the same columns in one tile takes 410 µs with 7, 442 with 2 CTAs.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.backends.nvidia.occupancy import ENOUGH_BYTES
from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import SECTOR_BYTES, has_sector_per_element
from tilewright.targets import TargetInfo

_FEWEST_CTAS = 2
"""CTAs on an SM, one of which loads while the other computes and stores."""
_ACCESSES = (
    tile.LoadOp, tile.StoreOp, tile.LoadViewOp, tile.StoreViewOp, tile.AtomicRMWOp, tile.AtomicCASOp, tile.DotOp,
    gpu.AsyncCopyOp,
)  # fmt: skip
_UNIT = 128
"""Shared memory is allocated in multiples of so many bytes."""


def shared_bytes_for_locality(
    function: FuncOp, threads: int, bytes_: int, target: TargetInfo
) -> int:
    """Bytes of shared memory of a CTA, at least `bytes_`, with which as many share an SM as keep memory busy."""
    known = Facts(address_arithmetic(function))
    sectors = [_sectors(op, known) for op in function.walk() if isinstance(op, scf.ForOp)]
    in_flight = max((SECTOR_BYTES * threads * s for s in sectors if s is not None), default=0)
    if not in_flight or None in sectors:
        return bytes_
    ctas = max(_FEWEST_CTAS, -(-ENOUGH_BYTES // in_flight))
    sm = target.sm
    of_each = sm.shared_bytes // ctas // _UNIT * _UNIT - sm.reserved_shared_bytes
    return max(bytes_, min(of_each, target.shared_bytes))


def _sectors(loop: scf.ForOp, known: Facts) -> int | None:
    """Sectors that a thread loads in an iteration; None where other accesses than those of parts of sectors are in the loop, or no
    stores."""
    accesses = [op for op in loop.body.walk() if isinstance(op, _ACCESSES)]
    stores = [op for op in accesses if isinstance(op, tile.StoreViewOp)]
    if not stores or not all(_is_partial(op, known) for op in accesses):
        return None
    layouts = [gpu.layout_of(op.result) for op in accesses if isinstance(op, tile.LoadViewOp)]
    return sum(layout.registers_per_thread for layout in layouts if layout is not None)


def _is_partial(op: Operation, known: Facts) -> bool:
    """Whether an access has one element of each sector, of which other programs have the rest."""
    if not isinstance(op, tile.LoadViewOp | tile.StoreViewOp):
        return False
    return has_sector_per_element(op, known) and known.divisor(op.base) < SECTOR_BYTES
