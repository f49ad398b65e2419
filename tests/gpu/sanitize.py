"""All programs of `programs.py` under NVIDIA's compute-sanitizer: `python tests/gpu/sanitize.py`.

    --tool memcheck racecheck synccheck initcheck    which of its tools (all)

The tool comes with a CUDA toolkit, or `pip install nvidia-cuda-sanitizer-api`. Each run begins with a
kernel that is wrong on purpose, which the tool must find: silence afterwards means something then.
Exits with 1 if anything else is reported, or if a broken kernel is not.

What the tools do not see, as far as their documents say and the runs show: copies of boxes
(`cp.async.bulk.tensor`) are done by no thread, so that racecheck and initcheck know neither their
writes nor, for want of a reader that is a thread, what `wgmma` reads through its descriptors.
memcheck knows the boxes' tensor maps no bounds either: the hardware keeps to them. For these the
interpreter is the referee (`interpreter/shared_memory.py`): it fails on a missing wait or barrier.
racecheck looks at shared memory only; races between programs in global memory are found by
TILEWRIGHT_INTERPRET=1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
BROKEN = r"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry broken(.param .u64 out, .param .u32 what)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;
  .shared .align 4 .b8 room[1024];
  ld.param.u64 %d1, [out]; ld.param.u32 %r1, [what];
  mov.u32 %r2, %tid.x; mov.u32 %r3, room; mad.lo.s32 %r3, %r2, 4, %r3;
  setp.ne.u32 %p, %r1, 0; @%p bra racecheck;
  st.global.u32 [%d1+4194304], %r2;              // 0: beyond the array
  ret;
racecheck:
  setp.ne.u32 %p, %r1, 1; @%p bra synccheck;
  st.shared.u32 [%r3], %r2; mov.u32 %r4, room; sub.s32 %r5, 127, %r2;
  mad.lo.s32 %r4, %r5, 4, %r4; ld.shared.u32 %r6, [%r4];   // 1: no barrier in between
  mad.wide.u32 %d2, %r2, 4, %d1; st.global.u32 [%d2], %r6;
  ret;
synccheck:
  setp.ne.u32 %p, %r1, 2; @%p bra initcheck;
  bar.warp.sync 1;                               // 2: by lanes that are not among those it names
  ret;
initcheck:
  ld.global.u32 %r6, [%d1+2048]; mad.wide.u32 %d2, %r2, 4, %d1; st.global.u32 [%d2], %r6;  // 3
done:
  ret;
}
"""


def broken(what: int) -> None:
    """Launch the kernel with mistake `what` of `TOOLS`."""
    import torch

    from tilewright.backends.base import Argument, Artifact, LaunchPlan, Options
    from tilewright.runtime.compiled import CompiledKernel
    from tilewright.runtime.drivers.cuda import driver

    arguments = (Argument("out", "pointer", "*i32"), Argument("what", "int", "i32"))
    plan = LaunchPlan("broken", arguments, threads=128)
    artifact = Artifact("broken", BROKEN.encode() + b"\0", plan, {"ptx": BROKEN})
    kernel = CompiledKernel(artifact, "broken", Options(), driver().device(0).target, None, False)
    kernel[(1,)](torch.empty(1 << 20, device="cuda", dtype=torch.int32), what)
    torch.cuda.synchronize()


def child(what: str) -> None:
    """What runs under the tool."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    import torch

    if what in TOOLS:
        broken(TOOLS.index(what))
        return
    from tests.gpu.programs import programs

    count = 0
    for program in programs():
        print(f"-- {program.name}", flush=True)
        program.run()
        torch.cuda.synchronize()
        count += 1
    print(f"-- {count} programs ran", flush=True)


def find_tool() -> str | None:
    """compute-sanitizer: on the path, in a toolkit, or in its package."""
    found = shutil.which("compute-sanitizer")
    if found:
        return found
    places = [Path("/usr/local/cuda/bin/compute-sanitizer")]
    spec = find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        places += sorted(Path(place).glob("**/compute-sanitizer"))
    return next((str(p) for p in places if p.is_file()), None)


def under(tool: str, name: str, what: str) -> tuple[int, str]:
    """Exit status and output of a child under one of the tools."""
    command = [tool, "--tool", name, "--error-exitcode", "9", "--print-limit", "20"]
    if name == "racecheck":
        command += ["--racecheck-report", "all"]
    # one allocation an array, so that what is beyond an array is beyond an allocation
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [*command, sys.executable, __file__, "--child", what],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=900,
    )  # fmt: skip
    return done.returncode, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tool", nargs="*", default=TOOLS, choices=TOOLS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return 0
    tool = find_tool()
    if tool is None:
        print("compute-sanitizer is not installed: pip install nvidia-cuda-sanitizer-api")
        return 1
    print(subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.strip())
    jobs = [(name, what) for name in given.tool for what in (name, "all")]
    with ThreadPoolExecutor(len(jobs)) as pool:
        done = list(pool.map(lambda job: under(tool, *job), jobs))
    return int(not all([verdict(*job, *result) for job, result in zip(jobs, done, strict=True)]))


def verdict(name: str, what: str, status: int, text: str) -> bool:
    """Print what a run came to; whether it is as it must be."""
    summary = "; ".join(re.findall(r"=+ (?:\w+ )?SUMMARY: (.*)", text))
    ran = re.search(r"-- (\d+ programs) ran", text)
    if what == name:
        good = status != 0 and bool(summary)
        print(f"{name}: the broken kernel is {'found' if good else 'NOT FOUND'} ({summary})")
    else:
        good = status == 0 and ran is not None
        print(
            f"{name}: {ran[1] if ran else 'stopped'}, {'clean' if good else 'REPORTS'} ({summary})"
        )
    if not good:
        print(text if len(text) < 12000 else f"{text[:8000]}\n...\n{text[-4000:]}")
    return good


if __name__ == "__main__":
    sys.exit(main())
