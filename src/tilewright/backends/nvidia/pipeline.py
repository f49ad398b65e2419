"""The passes that take tile IR to tiles with layouts on an NVIDIA GPU, in order."""

from __future__ import annotations

import functools

from tilewright.passes.base import Pass
from tilewright.passes.cse import Cse
from tilewright.passes.licm import Licm
from tilewright.passes.pipeline import shared_passes
from tilewright.passes.promote_accumulator import PromoteAccumulator


@functools.cache
def nvidia_passes() -> tuple[Pass, ...]:
    """Tile IR as the front end writes it -> tiles in registers and shared memory."""
    return (*tile_passes(), *shared_memory_passes(), *access_passes())


def tile_passes() -> tuple[Pass, ...]:
    """Tile IR as the front end writes it -> tiles and instructions that layouts are chosen for."""
    from tilewright.passes.gpu.distribute_rows_over_cluster import DistributeRowsOverCluster
    from tilewright.passes.gpu.emulate_fp32_dots import EmulateFp32Dots
    from tilewright.passes.gpu.narrow_dot_operands import NarrowDotOperands
    from tilewright.passes.gpu.reduce_num_warps import ReduceNumWarps
    from tilewright.passes.gpu.rematerialize_across_reductions import RematerializeAcrossReductions
    from tilewright.passes.gpu.select_mma import SelectMma
    from tilewright.passes.gpu.select_wgmma_rs import SelectWgmmaRs
    from tilewright.passes.gpu.strip_mine_tiles import StripMineTiles
    from tilewright.passes.gpu.widen_dots import WidenDots

    return (
        *shared_passes(),
        Cse(loads=True),  # registers hold what is loaded again
        PromoteAccumulator(assume_noalias=True),  # after licm, which hoists addresses
        NarrowDotOperands(),  # before emulate-fp32-dots: MMAs of 16-bit floats are exact
        EmulateFp32Dots(),  # before select-mma, which sees only dots that have an instruction
        RematerializeAcrossReductions(),  # before rows are distributed by the registers they take
        DistributeRowsOverCluster(),  # before strip-mine-tiles: rows that a cluster holds need no strips
        StripMineTiles(),  # before layouts: strips are smaller tiles
        ReduceNumWarps(),  # after strip-mining, which sets the size of tiles
        SelectMma(),  # before assign-layouts: instructions prescribe fragments
        WidenDots(),  # after select-mma: loops of wgmma only
        SelectWgmmaRs(),  # after select-mma has chosen wgmma
    )


def shared_memory_passes() -> tuple[Pass, ...]:
    """Layouts, and the use of shared memory by loops and stores."""
    from tilewright.passes.gpu.assign_layouts import AssignLayouts
    from tilewright.passes.gpu.cache_in_shared import CacheInShared
    from tilewright.passes.gpu.defer_lane_sums import DeferLaneSums
    from tilewright.passes.gpu.hoist_conditional_loads import HoistConditionalLoads
    from tilewright.passes.gpu.hoist_copies import HoistCopies
    from tilewright.passes.gpu.lower_stores_to_tma import LowerStoresToTma
    from tilewright.passes.gpu.multicast_tma_loads import MulticastTmaLoads
    from tilewright.passes.gpu.pipeline_loads import PipelineLoads
    from tilewright.passes.gpu.prefetch_loads import PrefetchLoads
    from tilewright.passes.gpu.promote_shared import PromoteShared
    from tilewright.passes.gpu.schedule_loops import ScheduleLoops
    from tilewright.passes.gpu.specialize_warps import SpecializeWarps
    from tilewright.passes.gpu.swizzle_shared import SwizzleShared

    return (
        AssignLayouts(),  # from here on every tile has a layout
        DeferLaneSums(),  # before dots are rewritten: takes loops with dots
        PromoteShared(),  # operands of MMA become buffers, their loads copies
        SwizzleShared(),  # before copies are scheduled: TMA tiles need the shared layout
        ScheduleLoops(),  # before pipeline-loads, which leaves its loops alone
        SpecializeWarps(),  # before pipeline-loads: takes loops over tiles
        PipelineLoads(),  # the remaining loops with copies
        MulticastTmaLoads(),  # after the loads have become TMA loads
        HoistCopies(),  # after pipeline-loads: takes the copies that stay synchronous
        HoistConditionalLoads(),  # before prefetch-loads and batch-loads, which take loads of loops' bodies
        PrefetchLoads(),  # after pipeline-loads: takes the loads that stay synchronous
        LowerStoresToTma(),  # after pipeline-loads: uses the memory that its stages leave
        Cse(),  # address arithmetic of copies and stores
        Licm(),  # hoists what assign-layouts rematerialized inside loops
        CacheInShared(),  # after all other users of shared memory have allocated
    )


def access_passes() -> tuple[Pass, ...]:
    """Barriers, and the order, widths and policies of accesses; iterations of loops."""
    from tilewright.passes.gpu.batch_loads import BatchLoads
    from tilewright.passes.gpu.combine_accesses import CombineAccesses
    from tilewright.passes.gpu.deallocate_shared import DeallocateShared
    from tilewright.passes.gpu.insert_barriers import InsertBarriers
    from tilewright.passes.gpu.narrow_divisions import NarrowDivisions
    from tilewright.passes.gpu.narrow_trip_counts import NarrowTripCounts
    from tilewright.passes.gpu.order_instructions import OrderInstructions
    from tilewright.passes.gpu.partition_loops import PartitionLoops
    from tilewright.passes.gpu.prefetch_next_programs import PrefetchNextPrograms
    from tilewright.passes.gpu.reverse_loops import ReverseLoops
    from tilewright.passes.gpu.set_eviction_policies import SetEvictionPolicies
    from tilewright.passes.gpu.unroll import Unroll
    from tilewright.passes.gpu.unroll_stages import UnrollStages
    from tilewright.passes.gpu.vectorize_accesses import VectorizeAccesses

    return (
        SetEvictionPolicies(),  # after the loads that shared memory serves are gone, before loops are split
        ReverseLoops(),  # before loops are split into those with and without masks
        DeallocateShared(),  # after all passes that allocate or remove barriers
        InsertBarriers(),  # after the last pass that accesses shared memory
        PartitionLoops(),  # before batch-loads: loads of full iterations have no masks
        BatchLoads(),  # after insert-barriers, which separates conflicting accesses
        NarrowDivisions(),  # late: other analyses read the index arithmetic as it was written
        NarrowTripCounts(),  # after the passes that divide trip counts, before cse
        Cse(),  # before widths are chosen: equal addresses become one value
        CombineAccesses(),  # after all that moves loads, before the widths of accesses are chosen
        VectorizeAccesses(),  # late: facts about accesses are final
        UnrollStages(),  # after all passes that look at what loops carry
        Unroll(),  # last: earlier passes look at loops
        PrefetchNextPrograms(),  # after the last pass that moves loads or looks at their addresses
        OrderInstructions(),  # last: keeps few loaded values alive in front of reductions
    )
