"""Operators of flash-linear-attention (fla-core) and Liger-Kernel, forward and backward, against torch in float64.

    python benchmarks/third_party.py [--device cuda|cpu] [--site FOLDER …] [--only REGEX] [--limit SECONDS]
                                     [--jobs N] [--against triton|interpreter] [--save]

Both packages and einops are found on `sys.path` (`--site` adds folders). Every operator runs in fp32 and bf16, plain,
with initial and final states, and with packed sequences where it has them. Processes take the cases from one list: a
process that loses its CUDA context, dies or exceeds `--case-limit` costs the case that it ran, and another one takes
its place.

An output or gradient is *wrong* if its relative error (2-norm) against float64 exceeds 8 roundings of the type (on a
GPU fp32 is TF32's, of its products), or 8 times what moving the inputs by one rounding moves the reference: that
bound depends on the operator and the inputs, never on the result. *refused*: the package declines the arguments
before any kernel. `--against triton` runs what was wrong or at fault under Triton, too, `--against interpreter`
(slow) under tilewright's interpreter, which shares no code generation with either back end: where the same results are
wrong by the same amount, the *package* is, as its source stands. `--save` writes a table and JSON to
benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {
    "TORCH_COMPILE_DISABLE": "1",
    "FLA_DISABLE_BACKEND_DISPATCH": "1",
    "TILEWRIGHT_CACHE_AUTOTUNING": "0",
}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--site", action="append", default=[], help="a folder of packages")
    parser.add_argument("--only", default="", help="cases whose package/name:type matches")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--length", type=int, default=0, help="of sequences (0: 499, 101 on a CPU)")
    parser.add_argument("--full", action="store_true", help="a GPU's sizes on a CPU, too")
    parser.add_argument("--configs", type=int, default=1, help="of each autotuner (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="which configurations")
    parser.add_argument("--jobs", type=int, default=0, help="processes at once (0: cores - 2)")
    parser.add_argument("--case-limit", type=float, default=100, help="seconds of one case")
    parser.add_argument("--limit", type=float, default=240, help="seconds in all")
    parser.add_argument("--against", choices=("triton", "interpreter"), help="for failures")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    parser.add_argument("--out", default="", help="write the JSON to this file")
    parser.add_argument("--list", action="store_true", help="print the cases, run nothing")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.length = args.length or (499 if args.device == "cuda" else 101)
    args.jobs = args.jobs or max(1, (os.cpu_count() or 2) - 2)
    return args


def all_cases(args):
    """Names of cases with their types; this process needs neither package nor a GPU."""
    sys.path.insert(0, str(HERE))
    from third_party_cases import CASES, load

    load()
    names = [f"{name}:{dtype}" for name in CASES for dtype in args.dtypes.split(",")]
    return [name for name in names if re.search(args.only, name)]


class Worker:
    """A process that runs cases; started again when one ended it."""

    def __init__(self, args, implementation, environment):
        self.args, self.implementation, self.environment = args, implementation, environment
        self.process = None
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process

    def start(self):
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", self.implementation]
        self.log.truncate(0)
        self.process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )  # fmt: skip

    def run(self, name, until):
        """What a case gave; `until` ends it."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        with contextlib.suppress(BrokenPipeError):  # it ended as it started: no answer will come
            self.process.stdin.write(f"{name}\n".encode())
            self.process.stdin.flush()
        ready, _, _ = select.select(
            [self.process.stdout], [], [], max(0.0, until - time.monotonic())
        )
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        if not ready:
            self.process.kill()
        code = self.process.wait()
        reason = f"the process ended with {code}" if ready else "not done within its time"
        return {"status": "fault", "message": f"{reason}: {self.last_lines()}"}

    def last_lines(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-400:]

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run_all(args, names, implementation, until):
    """Facts of each case that was run before `until`."""
    environment = os.environ | ENVIRONMENT
    if implementation == "interpreter":
        environment["TILEWRIGHT_INTERPRET"] = "1"
    for name in ("TRITON_CACHE_DIR", "TILEWRIGHT_CACHE_DIR"):
        environment.setdefault(name, str(Path(tempfile.gettempdir()) / f"third_party_{name}"))
    folders = [str(HERE.parent / "src"), *map(os.path.abspath, args.site)]
    folders += filter(None, [environment.get("PYTHONPATH")])
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    todo = queue.SimpleQueue()
    for name in names:
        todo.put(name)
    facts = {}

    def work():
        worker = Worker(args, implementation, environment)
        while time.monotonic() < until:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                break
            limit = min(until, time.monotonic() + args.case_limit)
            found = worker.run(name, limit)
            if found["status"] != "fault" or time.monotonic() < until:
                facts[name] = found
                if found["status"] != "ok":  # soon, not only in the table
                    print(f"{name}: {found['status']}: {shown(found)}", file=sys.stderr, flush=True)
        worker.stop()

    threads = [threading.Thread(target=work) for _ in range(min(args.jobs, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return facts


def shown(found):
    """One case's error, or its message."""
    if "error" in found:
        text = f"{found['error']:.1e} of {found['bound']:.1e} ({found['worst']})"
        return f"{text}; {found['note']}" if found.get("note") else text
    return found.get("message", "")


def same_failure(one, other):
    """Whether the same results are wrong by the same amount: the kernel's source is, not what compiled it."""
    if one["status"] != "wrong" or other.get("status") != "wrong":
        return False
    return set(one["wrong"]) == set(other["wrong"]) and all(
        a == other["errors"][n] or 0.5 < a / other["errors"][n] < 2
        for n, (a, _) in one["wrong"].items()
    )


def table(args, names, facts, theirs):
    """Lines of markdown: an operator's results in each type, and what another implementation gave."""
    lines = ["| operator | type | kernels | verdict | error | s |", "|---|---|---|---|---|---|"]
    for name in names:
        found = facts.get(name, {"status": "not run"})
        case, _, dtype = name.partition(":")
        verdict = found["status"]
        verdict = verdict.upper() if verdict in ("wrong", "fault") else verdict
        if name in theirs:
            verdict += f"; {args.against} {theirs[name]['status']}: {shown(theirs[name])}"
        cells = (
            case, dtype, len(found.get("kernels", [])), verdict, shown(found), found.get("seconds", ""),
        )  # fmt: skip
        lines.append(f"| {' | '.join(str(c).replace('|', '/') for c in cells)} |")
    return lines


def summary(args, names, facts, seconds):
    counts: dict[str, int] = {}
    for name in names:
        status = facts.get(name, {"status": "not run"})["status"]
        counts[status] = counts.get(status, 0) + 1
    kernels = {kernel for found in facts.values() for kernel in found.get("kernels", [])}
    operators = {name.partition(":")[0] for name in names}
    text = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    line = (
        f"{len(operators)} operators and forms, {len(names)} cases, {len(kernels)} kernels: {text}"
    )
    return f"{line}. {args.device}, length {args.length}, seed {args.seed}, {seconds:.0f} s"


def details(names, facts):
    """What is to be known of each failure."""
    for name in names:
        found = facts.get(name, {})
        if found.get("status") in ("wrong", "fault"):
            yield f"{name}: {found['status']}: {found.get('wrong') or found.get('message')}"
            yield f"    kernels: {' '.join(found.get('kernels', []))}"
            yield from (f"    {place}" for place in found.get("at", []))


def main():
    args = options()
    if args.worker:
        sys.path.insert(0, str(HERE))
        from third_party_worker import serve

        sizes = args.length, args.full
        serve(args.worker, args.device, sizes, args.configs, args.seed)
        return 0
    start = time.monotonic()
    names = all_cases(args)
    if args.list:
        print("\n".join(names))
        return 0
    facts = run_all(args, names, "tilewright", start + args.limit)
    failed = [n for n in names if facts.get(n, {}).get("status") in ("wrong", "fault")]
    theirs = {}
    if args.against and failed:
        theirs = run_all(args, failed, args.against, time.monotonic() + args.limit)
    for name in theirs:
        if same_failure(facts[name], theirs[name]):
            facts[name]["status"] = "package"
            failed.remove(name)
    lines = table(args, names, facts, theirs)
    last = summary(args, names, facts, time.monotonic() - start)
    print("\n".join([*lines, "", *details(names, facts), last]))
    if args.out:
        Path(args.out).write_text(
            json.dumps({"tilewright": facts, args.against or "": theirs}, indent=1)
        )
    if args.save:
        target = HERE / "results" / f"third_party_{args.device}"
        Path(f"{target}.md").write_text("\n".join([last, "", *lines, ""]))
        Path(f"{target}.json").write_text(
            json.dumps({"tilewright": facts, args.against or "": theirs})
        )
    return int(bool(failed) or len(facts) < len(names))


if __name__ == "__main__":
    sys.exit(main())
