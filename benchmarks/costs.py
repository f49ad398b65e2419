"""The table of costs: launches, imports, compile times, the disk cache, memory.

    python benchmarks/costs.py [--only launch|import|compile|cache|memory] [--rounds 5]

Writes `benchmarks/results/costs.{json,md}`. Probes that need a fresh process run in `cost_probes.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import protocol

PROBES = Path(__file__).with_name("cost_probes.py")
COMPILE_BUDGET_MS = {"add": 40, "softmax": 70, "matmul": 150}


@dataclass
class Cost:
    """One line. It holds when `reached` is at most `target`."""

    key: str
    what: str
    target: float | None
    reached: float
    unit: str
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return "no target"
        return "holds" if self.reached <= self.target else "MISSED"


def probe(name: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run one probe in a new process."""
    result = subprocess.run(
        [sys.executable, str(PROBES), name, *arguments],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode:
        raise SystemExit(f"probe {name} {arguments} failed:\n{result.stderr}")
    return json.loads(result.stdout)


def medians(name: str, rounds: int, field: str, *arguments: str, **environment: str) -> float:
    return statistics.median(probe(name, *arguments, **environment)[field] for _ in range(rounds))


# ---- launches --------------------------------------------------------------------------------------


def microseconds(call: Callable[[], object], calls: int = 3000, rounds: int = 15) -> float:
    """Median over rounds of the mean time of a call, without the loop's own cost."""

    def mean(function: Callable[[], object]) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - start) / calls * 1e6

    call(), call()
    empty = min(mean(lambda: None) for _ in range(5))
    return statistics.median(mean(call) for _ in range(rounds)) - empty


def launch(rounds: int) -> Iterator[Cost]:
    import numpy as np

    from add_program import add_kernel

    what = "launch through kernel[grid](…), 5 arguments, one program"
    arrays = [np.zeros(1000, np.float32) for _ in range(3)]
    grid = (1,)

    def row(name: str, x: Any, y: Any, out: Any, **options: Any) -> Cost:
        def call() -> None:
            add_kernel[grid](x, y, out, 1000, BLOCK=1024, **options)

        return Cost("launch", f"{what}, {name}", 1.5, microseconds(call), "us")

    yield row("NumPy arrays", *arrays)
    if (torch := protocol.torch_or_none()) is not None:
        tensors = [torch.zeros(1000) for _ in range(3)]
        yield row("torch tensors", *tensors)
        x, y, out = tensors
        theirs = microseconds(lambda: torch.add(x, y, out=out))
        yield Cost("launch-peer", "torch.add(x, y, out=out) of 1000 elements", None, theirs, "us")
    yield Cost("launch-options", "the same with num_warps=4", None,
               row("", *arrays, num_warps=4).reached, "us")  # fmt: skip


def parallel(rounds: int) -> Iterator[Cost]:
    """On torch's threads under the policy that lets them spin, and on our own without torch."""
    for whose in ("torch", "own") if protocol.torch_or_none() else ("own",):
        found = probe("parallel", whose, OMP_WAIT_POLICY="active")["costs"]
        yield from (Cost(**fields) for fields in found)


def parallel_launch(torch: Any) -> Iterator[Cost]:
    """Two programs that wait for each other: the launch ends only if they run at the same time."""
    import numpy as np

    from concurrent_kernels import mark_kernel, meet_kernel
    from tilewright.runtime.drivers.cpu import driver

    if torch is not None:
        torch.set_num_threads(protocol.set_threads(None))
        torch.softmax(torch.zeros(1024, 1024), 1)
    counter, met = np.zeros(16, np.int64), np.zeros(16, np.int64)
    compiled = meet_kernel[(2,)](counter, met, 2, LIMIT=1 << 20)
    plan = dataclasses.replace(compiled.plan, program_cost=0.0)  # no serial cut-off
    kinds = ["address", "address", "int"]
    call, keep = driver().launcher(compiled._load(), plan, kinds)
    where, out = counter.ctypes.data, met.ctypes.data
    state = {"turn": int(counter[0]), "failed": 0}

    def together() -> None:
        state["turn"] += 2
        call((2,), where, out, state["turn"])
        if met[0] + met[1] != 2:
            state["failed"] += 1

    alone = mark_kernel[(2,)](met)
    mark, keep_mark = driver().launcher(
        alone._load(), dataclasses.replace(alone.plan, program_cost=0.0), ["address"]
    )
    pool = f"{driver().threads} {driver().pool_kind} threads"
    taken, plain = microseconds(together), microseconds(lambda: mark((2,), out))
    proof = (
        f"programs that wait for each other: {state['failed']} launches ran them one after another"
    )
    yield Cost("parallel", f"parallel launch, two programs, {pool}", 3.0, plain, "us", proof)
    yield Cost(
        "parallel-meet", "the same, until both programs have seen each other", None, taken, "us"
    )
    if torch is not None:
        yield torch_between(torch, lambda: mark((2,), out))
    del keep, keep_mark  # what the calls above read


def torch_between(torch: Any, ours: Callable[[], object]) -> Cost:
    """A parallel torch call with our launches in between, over the same with torch's own instead."""
    x = torch.randn(1024, 1024)
    out, small = torch.empty_like(x), torch.randn(1 << 16)
    other = torch.empty_like(small)

    def turns(between: Callable[[], object]) -> float:
        times = []
        for _ in range(150):
            between()
            start = time.perf_counter()
            torch.softmax(x, 1, out=out)
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    pairs = [(turns(ours), turns(lambda: torch.add(small, small, out=other))) for _ in range(9)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    note = (
        "time of torch.softmax(1024 x 1024) between our launches over that between torch.add calls"
    )
    return Cost("torch-between", "torch calls between parallel launches", 1.05, ratio, "x", note)


# ---- processes -------------------------------------------------------------------------------------


def imports(rounds: int) -> Iterator[Cost]:
    probe("imports")
    results = [probe("imports") for _ in range(rounds)]
    heavy = sorted({name for result in results for name in result["heavy"]})
    note = f"pulls in: {', '.join(heavy) or 'nothing heavy'}"
    yield Cost(
        "import",
        "import tilewright, ms",
        250,
        statistics.median(r["ms"] for r in results),
        "ms",
        note,
    )


def compiles(rounds: int) -> Iterator[Cost]:
    from cost_probes import KERNELS

    for which in KERNELS:
        taken = medians("compile", rounds, "ms", which, TILEWRIGHT_ALWAYS_COMPILE="1")
        budget = COMPILE_BUDGET_MS[which.split()[0]]
        yield Cost(
            "compile", f"cold compile, process warm, verification off: {which}", budget, taken, "ms"
        )


def cache(rounds: int) -> Iterator[Cost]:
    with tempfile.TemporaryDirectory() as folder:
        place = {"TILEWRIGHT_CACHE_DIR": folder, "TILEWRIGHT_ALWAYS_COMPILE": "0"}
        probe("first-results", **place)
        probe("process-start", **place)
        results = [probe("first-results", **place) for _ in range(rounds)]
        stack = {m for result in results for m in result["ir stack"]}
        for i, which in enumerate(results[0]["ms"]):
            taken = statistics.median(result["ms"][which] for result in results)
            first = ", with the start of the driver" if i == 0 else ""
            yield Cost("cached", f"first launch from the disk cache after llvmlite's import: {which}{first}",
                       5.0, taken, "ms", "" if not stack else f"IR stack loaded: {len(stack)} modules")  # fmt: skip
        starts = []
        for _ in range(2 * rounds):
            begun = time.monotonic()
            result = probe("process-start", **place)
            starts.append((result["now"] - begun) * 1e3)
            stack |= set(result["ir stack"])
        bare, numpy = (
            _process(code, rounds) for code in ("pass", "import numpy, llvmlite.binding")
        )
        note = f"of which Python's start {bare:.0f} ms, with NumPy and llvmlite imported {numpy:.0f} ms"
        note += "; the IR stack is " + ("not imported" if not stack else "IMPORTED")
        yield Cost("start", "process start to first result, from the disk cache", 150,
                   statistics.median(starts), "ms", note)  # fmt: skip


def _process(code: str, rounds: int) -> float:
    """Milliseconds of a whole process that runs one line."""
    times = []
    for _ in range(rounds):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append((time.monotonic() - begun) * 1e3)
    return statistics.median(times)


def memory(rounds: int) -> Iterator[Cost]:
    from cost_probes import KERNELS

    for which in KERNELS:
        taken = medians("memory", min(rounds, 3), "mb", which, TILEWRIGHT_ALWAYS_COMPILE="1")
        yield Cost("memory", f"peak memory of compiling, over imports: {which}", 150, taken, "MB")


FAMILIES: dict[str, Callable[[int], Iterator[Cost]]] = {
    "launch": launch, "parallel": parallel, "import": imports, "compile": compiles, "cache": cache, "memory": memory,
}  # fmt: skip


def table(costs: list[Cost]) -> str:
    lines = ["| cost | must reach | reached | verdict | |", "|---|---|---|---|---|"]
    for c in costs:
        target = f"<= {c.target:g} {c.unit}" if c.target is not None else "–"
        lines.append(f"| {c.what} | {target} | {c.reached:.2f} {c.unit} | {c.verdict} | {c.note} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], choices=list(FAMILIES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    protocol.set_threads(None)
    facts = protocol.machine_facts()
    costs: list[Cost] = []
    for name, function in FAMILIES.items():
        if not options.only or name in options.only:
            for cost in function(options.rounds):
                costs.append(cost)
                print(f"{cost.what}: {cost.reached:.2f} {cost.unit} "
                      f"({cost.verdict}, target {cost.target}) {cost.note}", flush=True)  # fmt: skip
    if not options.no_write and not options.only:
        notes = protocol.RESULTS / "costs_notes.md"
        text = "\n\n".join([
            "# Costs", "Made by `benchmarks/costs.py`.", protocol.facts_table(facts), table(costs),
            notes.read_text(encoding="utf-8").rstrip() if notes.is_file() else "",
        ])  # fmt: skip
        rows = [dataclasses.asdict(c) | {"verdict": c.verdict} for c in costs]
        protocol.write("costs", {"machine": facts, "costs": rows}, text)
        print(f"written: {protocol.RESULTS / 'costs'}.md and .json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
