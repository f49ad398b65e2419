"""Kernels of third-party packages under Triton and under tilewright, side by side on one GPU.

    python benchmarks/third_party_speed.py --site FOLDER … [--tutorials FOLDER] [--program FILE …] [--only REGEX]
                                           [--jobs 15] [--limit SECONDS] [--resume JSON] [--save]

Packages (flash-linear-attention, Liger-Kernel) are found on `sys.path` and in `--site`; Triton and a GPU are needed.
Every operator runs forward and backward under Triton in a process of its own, which records the largest launch of each
kernel and replays it under both compilers: results are compared, in every configuration of an autotuner, then the
fastest configurations are timed while all other processes are stopped (`tilewright compare` does the same for one
program). `--configurations N` thins autotuners, for both alike. `--program FILE` adds a program of yours, as it is.

A process that a kernel ends is started again without that kernel. When the time is over, the JSON file has what was
finished; `--resume` continues with the rest. `--save` writes benchmarks/results/third_party_speed.{md,json}.
Without a GPU cases are small and only their results are compared, with Triton's interpreter; `--dry` needs no Triton
either: it runs small cases under tilewright alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPECIALIZATIONS = 6
"""Launches of a kernel of a `--program` that differ in constants or types."""


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", action="append", default=[], help="a folder of packages")
    parser.add_argument("--tutorials", default="", help="the folder of Triton's tutorials")
    parser.add_argument(
        "--program", action="append", default=[], help="a file, or a folder of files"
    )
    parser.add_argument("--only", default="", help="cases whose package/name matches")
    parser.add_argument("--kernel", default="", help="kernels whose name matches")
    parser.add_argument(
        "--variants", action="store_true", help="initial states and packed sequences, too"
    )
    parser.add_argument("--configurations", type=int, default=6, help="of each autotuner (0: all)")
    parser.add_argument("--jobs", type=int, default=0, help="processes at once (0: cores - 1)")
    parser.add_argument("--case-limit", type=float, default=150, help="seconds of one case")
    parser.add_argument("--timing", type=float, default=12, help="seconds for timing one case")
    parser.add_argument("--limit", type=float, default=560, help="seconds in all")
    parser.add_argument("--resume", default="", help="JSON of an earlier run: its cases are kept")
    parser.add_argument("--out", default="", help="write the JSON to this file")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    parser.add_argument(
        "--dry", action="store_true", help="small cases, tilewright alone, on the CPU"
    )
    parser.add_argument("--list", action="store_true", help="print the cases, run nothing")
    args = parser.parse_args()
    args.jobs = args.jobs or max(1, (os.cpu_count() or 2) - 1)
    return args


def selected(args):
    """Cases by name: packages' operators, tutorials, programs."""
    from third_party_speed_case import names

    packages = [n for n in names() if args.tutorials or not n.startswith("tutorials/")]
    if not args.variants:
        packages = [n for n in packages if not n.endswith(("_states", "_packed"))]
    files = [Path(p) for p in args.program]
    files = [f for p in files for f in (sorted(p.glob("*.py")) if p.is_dir() else [p])]
    found = dict.fromkeys(packages) | {f"program/{f.stem}": f for f in files}
    return {name: file for name, file in found.items() if re.search(args.only, name)}


def case_of(args, name, file):
    """A case to run."""
    from third_party_speed_pool import Case
    from tilewright.compare.worker import Job

    program = str(file or HERE / "third_party_speed_case.py")
    arguments = () if file else (name, *(["--tiny"] if args.tiny else []))
    seconds = 0.0 if args.tiny else 1.2
    job = Job(
        program, arguments, "", (), args.kernel, seconds, hold=not args.tiny,
        configurations=args.configurations, specializations=SPECIALIZATIONS if file else 1,
    )  # fmt: skip
    return Case(name, job)


def prepared(args):
    """Import what all processes need, without touching the GPU; gives the work of a process."""
    from third_party_speed_preload import preload

    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ["THIRD_PARTY_TUTORIALS"] = os.path.abspath(args.tutorials)
    for name in ("TRITON_CACHE_DIR", "TILEWRIGHT_CACHE_DIR"):
        folder = Path(tempfile.gettempdir()) / f"third_party_speed_{name}"
        os.environ.setdefault(name, str(folder))
    args.tiny = not preload() or args.dry
    if args.dry:
        from third_party_speed_dry import work

        return work
    if args.tiny:
        os.environ["TRITON_INTERPRET"] = "1"
    import torch  # noqa: F401 - inherited by the processes, as Triton is
    import triton.language
    import triton.runtime.autotuner
    import triton.runtime.jit
    import triton.testing  # noqa: F401

    from tilewright.compare.worker import work

    return work


def printed(case):
    """One case, as soon as it is finished."""
    texts = []
    for row in case.rows.values():
        ratio = f" {row['ratio']:.2f}" if row["ratio"] else ""
        texts.append(f"{row['kernel'].rpartition('.')[2][:40]}:{row['status']}{ratio}")
    failure = f" FAILED {case.failure[:160]}" if case.failure else ""
    print(f"{case.name} ({case.seconds:.0f} s): {' '.join(texts)}{failure}", flush=True)


def facts_of(args, gpus):
    """What the numbers depend on."""
    known = {"GPU": next(filter(None, gpus), "none"), "Python": platform.python_version()}
    for package in ("torch", "triton", "fla-core", "liger-kernel", "flag-gems"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            known[package] = metadata.version(package)
    now = time.strftime("%Y-%m-%d %H:%M")
    return {**known, "date": now, "configurations of an autotuner": args.configurations}


def main():
    args = options()
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    found = [str(HERE), *given, str(HERE.parent / "src"), *map(os.path.abspath, args.site)]
    sys.path[:0] = found
    chosen = selected(args)
    if args.list:
        print("\n".join(chosen))
        return 0
    from third_party_speed_pool import Pool
    from third_party_speed_report import kernels_of, markdown, summary

    found, gpus, begun = {"cases": {}}, [], time.monotonic()
    if args.resume and Path(args.resume).exists():
        found = json.loads(Path(args.resume).read_text())
        gpus.append(found["facts"]["GPU"])
    cases, out = found["cases"], args.out or args.resume
    work = prepared(args)
    todo = [case_of(args, name, file) for name, file in chosen.items() if name not in cases]

    def finished(case):
        printed(case)
        gpus.append(case.gpu)
        cases[case.name] = case.record()
        if out:
            Path(out).write_text(json.dumps({"facts": facts_of(args, gpus), "cases": cases}))

    Pool(work, args.jobs, args.limit, args.case_limit, args.timing, finished).run(todo)
    missing = [name for name in chosen if name not in cases]
    facts = facts_of(args, gpus)
    page, seconds = markdown(cases, facts), time.monotonic() - begun
    if args.save:
        target = HERE / "results" / "third_party_speed"
        Path(f"{target}.md").write_text(page)
        Path(f"{target}.json").write_text(json.dumps({"facts": facts, "cases": cases}))
    print(page)
    print(summary("all", kernels_of(cases)))
    print(f"{seconds:.0f} s, {len(cases)} cases, {len(missing)} not done")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
