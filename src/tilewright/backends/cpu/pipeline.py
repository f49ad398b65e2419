"""The passes that take tile IR to the vector level on a CPU, in order."""

from __future__ import annotations

import functools

from tilewright.passes.base import Pass
from tilewright.passes.pipeline import shared_passes


@functools.cache
def cpu_passes() -> tuple[Pass, ...]:
    """Tile IR as the front end writes it -> loop nests over vectors."""
    from tilewright.passes.cpu.check_bounds import CheckBounds
    from tilewright.passes.cpu.elide_packing import ElidePacking
    from tilewright.passes.cpu.form_fusion_groups import FormFusionGroups
    from tilewright.passes.cpu.lower_dot import LowerDot
    from tilewright.passes.cpu.peel_first_iteration import PeelFirstIteration
    from tilewright.passes.cpu.plan_scratch import PlanScratch
    from tilewright.passes.cpu.reuse_output_buffer import ReuseOutputBuffer
    from tilewright.passes.cpu.schedule_programs import SchedulePrograms
    from tilewright.passes.cpu.share_exponentials import ShareExponentials
    from tilewright.passes.cpu.vectorize import Vectorize
    from tilewright.passes.cse import Cse
    from tilewright.passes.licm import Licm
    from tilewright.passes.promote_accumulator import PromoteAccumulator

    return (
        *shared_passes(),
        PromoteAccumulator(),  # after licm, which hoists addresses and limits out of loops
        LowerDot(),  # before fusion: its conversions belong into the packing loops
        ElidePacking(),  # before fusion: operands that are read in place are not fused
        FormFusionGroups(),  # decides which tiles need scratch memory
        ReuseOutputBuffer(),  # before scratch is planned: saves some of it
        PlanScratch(),  # tiles between groups become buffers
        Vectorize(),  # groups become loops over vectors
        PeelFirstIteration(),  # what loops carry is in registers: a branch for the first iteration costs little outside
        ShareExponentials(),  # after the branch is gone in which one of two may be
        SchedulePrograms(),  # the body becomes a loop over programs
        Cse(),  # addresses of the vector loops
        Licm(),  # hoists program-invariant values out of the program loop
        CheckBounds(),  # last: nothing may move an access above its check
    )
