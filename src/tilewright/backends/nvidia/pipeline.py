"""The passes that take tile IR to tiles with layouts on an NVIDIA GPU, in order."""

from __future__ import annotations

import functools

from tilewright.passes.base import Pass
from tilewright.passes.pipeline import shared_passes


@functools.cache
def nvidia_passes() -> tuple[Pass, ...]:
    """Tile IR as the front end writes it -> tiles in registers and shared memory."""
    from tilewright.passes.cse import Cse
    from tilewright.passes.gpu.assign_layouts import AssignLayouts
    from tilewright.passes.gpu.batch_loads import BatchLoads
    from tilewright.passes.gpu.chunk_tiles import ChunkTiles
    from tilewright.passes.gpu.fit_warps import FitWarps
    from tilewright.passes.gpu.insert_barriers import InsertBarriers
    from tilewright.passes.gpu.keep_chunks import KeepChunks
    from tilewright.passes.gpu.pipeline_loads import PipelineLoads
    from tilewright.passes.gpu.promote_shared import PromoteShared
    from tilewright.passes.gpu.select_mma import SelectMma
    from tilewright.passes.gpu.share_boxes import ShareBoxes
    from tilewright.passes.gpu.specialize_warps import SpecializeWarps
    from tilewright.passes.gpu.split_bounds import SplitBounds
    from tilewright.passes.gpu.split_dots import SplitDots
    from tilewright.passes.gpu.store_boxes import StoreBoxes
    from tilewright.passes.gpu.swizzle_shared import SwizzleShared
    from tilewright.passes.gpu.turn_in_registers import TurnInRegisters
    from tilewright.passes.gpu.unroll import Unroll
    from tilewright.passes.gpu.vectorize_copies import VectorizeCopies
    from tilewright.passes.licm import Licm
    from tilewright.passes.promote_accumulator import PromoteAccumulator

    return (
        *shared_passes(),
        PromoteAccumulator(apart=True),
        SplitDots(),
        ChunkTiles(),
        FitWarps(),
        SelectMma(),
        TurnInRegisters(),
        AssignLayouts(),
        PromoteShared(),
        SwizzleShared(),
        SpecializeWarps(),
        PipelineLoads(),
        ShareBoxes(),
        StoreBoxes(),
        Cse(),
        Licm(),  # what assign-layouts made again inside loops
        KeepChunks(),
        InsertBarriers(),
        SplitBounds(),
        BatchLoads(),  # after insert-barriers: what it moves is known to be apart
        Cse(),
        VectorizeCopies(),
        Unroll(),
    )
