# ruff: noqa: E402 - Triton reads the environment
"""Runs cases of benchmarks/third_party_speed.py beside each other, with clocks that stand still; prints JSON."""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "compare" / "fake")]
os.environ["TRITON_INTERPRET"] = "1"

import triton  # noqa: F401 - the stand-in, for all processes

import third_party_speed_dry as dry
from third_party_speed_pool import Case, Pool
from third_party_speed_report import markdown
from tilewright.compare import timing, worker

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


cases = run(worker.work, ["small.py"], seconds=1.0, hold=True)
for name in [n for n in sys.modules if n.partition(".")[0] == "triton"]:
    del sys.modules[name]
shown = {"timed": cases, "page": markdown(cases, {"GPU": "none"})}
shown["dry"] = run(dry.work, ["small.py"])
print(json.dumps(shown))
