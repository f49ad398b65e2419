# ruff: noqa: E402 - Triton reads the environment
"""Runs cases of benchmarks/third_party_speed.py beside each other, with clocks that stand still; prints JSON."""

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "compare" / "fake")]
os.environ["TRITON_INTERPRET"] = "1"

import triton  # noqa: F401 - the stand-in, for all processes

import third_party_speed_dry as dry
from third_party_speed_pool import Case, Pool
from third_party_speed_report import markdown
from tilewright.compare import timing, worker
from tilewright.compare.replay import Row

worker._on_gpu = lambda launch: True
timing.fastest = lambda functions, seconds: len([f() for f in functions]) - 1
timing.time_against = lambda *_: timing.Times((200.0, 400.0), (1.0, 1.0), 0.5, 0.4, 0.6, 3)


def run(work, names, **options):
    """Records of cases that run a program."""
    cases = {}
    finished = lambda case: cases.update({case.name: case.record()})
    programs = Path(__file__).parent
    todo = [Case(f"own/{n}", worker.Job(str(programs / n), (), "", **options)) for n in names]
    Pool(work, 1, 600, 300, 60, finished).run(todo)
    return cases


def stuck(job):
    """Does not come back from its second kernel, which is left out the next time."""
    say = worker.Events(job.events)
    names = [name for name in ("one", "two") if name not in job.skipped]
    rows = [asdict(Row(name)) for name in names]
    say("recorded", kernels=rows)
    for row in rows:
        say("start", kernel=row["kernel"])
        if row["kernel"] == "two":
            time.sleep(60)
        say("row", row={**row, "status": "agrees"})
    say("done")


def hungry(job):
    """Has memory enough for one process."""
    try:
        os.close(os.open(LOCK, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return worker.Events(job.events)("failed", error="torch.OutOfMemoryError: …")
    time.sleep(0.2)
    os.unlink(LOCK)
    return worker.Events(job.events)("done")


LOCK = os.path.join(tempfile.gettempdir(), f"hungry-{os.getpid()}")


def limited(work, jobs, case_limit=60.0):
    """Failures and statuses of two cases."""
    cases = {}
    pool = Pool(work, jobs, 600, case_limit, 60, lambda c: cases.update({c.name: c.record()}))
    pool.run([Case(f"own/{i}", worker.Job("", (), "")) for i in range(2)])
    return [[c["failure"], [row["status"] for row in c["rows"]]] for c in cases.values()]


cases = run(worker.work, ["small.py"], seconds=1.0, hold=True)
for name in [n for n in sys.modules if n.partition(".")[0] == "triton"]:
    del sys.modules[name]
shown = {"timed": cases, "page": markdown(cases, {"GPU": "none"})}
shown["stuck"], shown["hungry"] = limited(stuck, 2, case_limit=0.5), limited(hungry, 2)
shown["dry"] = run(dry.work, ["small.py"])
print(json.dumps(shown))
