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
    from tilewright.passes.cpu.plan_scratch import PlanScratch
    from tilewright.passes.cpu.reuse_output_buffer import ReuseOutputBuffer
    from tilewright.passes.cpu.schedule_programs import SchedulePrograms
    from tilewright.passes.cpu.vectorize import Vectorize
    from tilewright.passes.cse import Cse
    from tilewright.passes.licm import Licm
    from tilewright.passes.promote_accumulator import PromoteAccumulator

    return (
        *shared_passes(),
        PromoteAccumulator(),  # behind licm, which moves addresses and limits in front of loops
        LowerDot(),  # before groups form: its conversions belong into the packing loops
        ElidePacking(),  # before groups form: what stays in place is no member of one
        FormFusionGroups(),
        ReuseOutputBuffer(),
        PlanScratch(),
        Vectorize(),
        SchedulePrograms(),
        Cse(),
        Licm(),  # moves what does not depend on the program out of the program loop
        CheckBounds(),  # last: nothing may move in front of its check
    )
