"""A case without Triton and without a GPU: tilewright's own kernels run it, nothing is compared."""

from __future__ import annotations

from dataclasses import asdict

from tilewright.compare.program import run_program
from tilewright.compare.replay import Row
from tilewright.compare.worker import Events, Job
from tilewright.integrations.cuda_on_cpu import cuda_on_cpu


def work(job: Job) -> None:
    """Run a job's program, and give each kernel that it launches a row."""
    from third_party_worker import installed

    say = Events(job.events)
    say("begin", gpu="")
    launched = installed("tilewright", job.configurations, 0)
    with cuda_on_cpu():
        error = run_program(job.program, job.arguments, lambda: bool(launched))
    if error:
        say("failed", error=error)
    rows = [asdict(Row(name, status="dry")) for name in launched]
    say("recorded", kernels=rows)
    for row in rows:
        say("row", row=row)
    say("done")
