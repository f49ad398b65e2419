"""How everything here is timed and judged: one protocol for all tables.

Contestants get the same preallocated, touched buffers of random data and the same number of threads
under the same OMP settings. Each is timed in blocks of its own (two pools of threads that alternate
call by call fight): two warm-ups, then at least 10 calls and 5 ms; the block's time is the median of
its calls. Five rounds, the order of the contestants alternating; the result is the median of rounds.

Import this module before torch: it fixes the OMP settings that libgomp reads when it is loaded.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
for _folder in ("src", "examples"):
    if str(ROOT / _folder) not in sys.path:
        sys.path.insert(0, str(ROOT / _folder))

WARMUPS, CALLS, ROUNDS = 2, 10, 5
BLOCK_SECONDS = 5e-3
#: a peer that needs longer than this a call is timed by one call, which the note says
SLOW_SECONDS = 1.0
#: calls shorter than this are timed several at once, for the clock itself costs 50 ns
SHORT_SECONDS = 50e-6

Call = Callable[[], object]


def set_threads(threads: int | None) -> int:
    """Fix the number of threads of both sides and the OMP settings; gives the number."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = threads or (len(affinity(0)) if affinity else os.cpu_count() or 1)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(count)
    # with the default policy a wait after some idle milliseconds can cost milliseconds in a virtual
    # machine: the waiting thread spins on the core that the woken one needs
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return count


def torch_or_none() -> Any:
    """torch where it is installed."""
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


# ---- timing ----------------------------------------------------------------------------------------


def block(
    call: Call,
    calls: int = CALLS,
    seconds: float = BLOCK_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Median seconds of a call in one block of at least `calls` calls and `seconds` seconds."""
    once = _warm_up(call, clock)
    if once > SLOW_SECONDS:
        return once
    batch = 1 if once > SHORT_SECONDS else max(1, int(SHORT_SECONDS / max(once, 1e-7)))
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) * batch < calls or time.perf_counter() - begun < seconds:
        start = clock()
        for _ in range(batch):
            call()
        times.append((clock() - start) / batch)
    return statistics.median(times)


def _warm_up(call: Call, clock: Callable[[], float]) -> float:
    """Seconds of the last of three calls; of the first if that is already very slow."""
    once = 0.0
    for _ in range(WARMUPS + 1):
        start = clock()
        call()
        once = clock() - start
        if once > SLOW_SECONDS:
            break
    return once


def measure(
    contestants: Mapping[str, Call],
    rounds: int = ROUNDS,
    calls: int = CALLS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of a call of each contestant.

    Args:
        calls: at least so many in a block.
        clock: `time.thread_time` on a busy machine, for what runs on the calling thread alone.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name in list(contestants)[:: 1 if turn % 2 == 0 else -1]:
            if not (times[name] and times[name][0] > SLOW_SECONDS):
                times[name].append(block(contestants[name], calls, clock=clock))
    return {name: statistics.median(values) for name, values in times.items()}


def fastest(contestants: Mapping[str, Call]) -> str:
    """The contestant with the shortest single call (a first look before a proper measurement)."""
    best: dict[str, float] = {}
    for name, call in contestants.items():
        call()
        start = time.perf_counter()
        call()
        best[name] = time.perf_counter() - start
        if best[name] < 0.02:
            best[name] = block(call, CALLS, 0.01)
    return min(best, key=lambda name: best[name])


# ---- rows ------------------------------------------------------------------------------------------


@dataclass
class Point:
    """One size of a row. `ratio` is the peer's time over ours; times in microseconds."""

    size: str
    ours_us: float
    peer_us: float | None
    ratio: float | None
    floor: float | None = None
    note: str = ""
    allowance_us: float | None = None
    """Where set, the point holds when ours <= peer + allowance, and does not enter the geomean."""

    @property
    def holds(self) -> bool:
        if self.allowance_us is not None and self.peer_us is not None:
            return self.ours_us <= self.peer_us + self.allowance_us
        return self.ratio is None or self.floor is None or self.ratio >= self.floor

    @property
    def limit(self) -> str:
        """What it must reach, as text."""
        if self.allowance_us is not None:
            return f"peer + {self.allowance_us:g} us"
        return "–" if self.floor is None else f"{self.floor:g}"


@dataclass
class Row:
    """One line of the table of targets: it holds when its geomean and all floors do."""

    key: str
    work: str
    target: float | None
    points: list[Point] = field(default_factory=list)
    note: str = ""
    skipped: str = ""

    @property
    def geomean(self) -> float | None:
        ratios = self._ratios()
        return math.exp(sum(math.log(r) for r in ratios) / len(ratios)) if ratios else None

    @property
    def lowest(self) -> float | None:
        return min(self._ratios(), default=None)

    def _ratios(self) -> list[float]:
        return [p.ratio for p in self.points if p.ratio and p.allowance_us is None]

    @property
    def holds(self) -> bool | None:
        """None where there was nothing to compare with."""
        if self.skipped or self.geomean is None:
            return None
        return (self.target is None or self.geomean >= self.target) and all(
            p.holds for p in self.points
        )

    def verdict(self) -> str:
        if self.skipped:
            return self.skipped
        if self.holds is None:
            return "no peer"
        missed = [p.size for p in self.points if not p.holds]
        text = "holds" if self.holds else "MISSED"
        return text + (f" (under the floor: {', '.join(missed)})" if missed else "")


# ---- the machine, and what is written ------------------------------------------------------------


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_slug() -> str:
    """The processor's name as part of a file's name: `intel-xeon-platinum-8480c`."""
    words = re.sub(r"\(\w+\)|@.*|\bCPU\b|\bProcessor\b|\d+-Core", " ", cpu_model(), flags=re.I)
    return "-".join(re.findall(r"[a-z0-9]+", words.lower()))


def machine_facts() -> dict[str, Any]:
    """What the numbers depend on: CPU, features, threads, OMP settings, versions."""
    import llvmlite
    import numpy
    import xdsl

    import tilewright
    from tilewright.backends.cpu.target import current_target

    torch = torch_or_none()
    target = current_target()
    shown = [
        f for f in target.features if f.startswith(("avx", "amx", "fma", "f16c", "sve", "neon"))
    ]
    return {
        "cpu": cpu_model(),
        "scheduling model": target.cpu,
        "features": " ".join(shown),
        "vector bits": target.vector_bits,
        "L1 / L2 bytes": f"{target.l1_bytes} / {target.l2_bytes}",
        "threads": int(os.environ.get("OMP_NUM_THREADS", target.cores)),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "not set"),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        "versions": f"Python {platform.python_version()}, tilewright {tilewright.__version__}, "
        f"xDSL {xdsl.__version__}, llvmlite {llvmlite.__version__}, NumPy {numpy.__version__}, "
        f"torch {torch.__version__ if torch else 'not installed'}",
        "load at the start": f"{os.getloadavg()[0]:.2f}",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }  # fmt: skip


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def summary(rows: list[Row]) -> str:
    """The table of targets in Markdown."""
    lines = ["| row | work | target | reached | lowest | verdict |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.key} | {row.work} | {number(row.target)} | {number(row.geomean)} | "
        f"{number(row.lowest)} | {row.verdict()} |"
        for row in rows
    ]
    return "\n".join(lines)


def details(row: Row) -> str:
    """The sizes of one row in Markdown."""
    lines = [f"### {row.key}: {row.work}", ""]
    if row.note:
        lines += [row.note, ""]
    if row.skipped:
        return "\n".join([*lines, row.skipped, ""])
    lines += ["| size | ours, us | peer, us | ratio | floor | |", "|---|---|---|---|---|---|"]
    for p in row.points:
        mark = "" if p.holds else "**under** "
        lines.append(
            f"| {p.size} | {p.ours_us:.1f} | {number(p.peer_us, 1)} | {number(p.ratio)} | {p.limit} "
            f"| {mark}{p.note} |"
        )
    return "\n".join([*lines, ""])


def write(name: str, data: Any, markdown: str, folder: Path = RESULTS) -> None:
    """`<name>.json` and `.md`, in `benchmarks/results` or another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(markdown.rstrip() + "\n", encoding="utf-8")


def row_data(row: Row) -> dict[str, Any]:
    """A row as JSON."""
    return asdict(row) | {"geomean": row.geomean, "lowest": row.lowest, "verdict": row.verdict()}


def facts_table(facts: Mapping[str, Any]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts.items())])
