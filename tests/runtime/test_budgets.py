"""What must not be loaded and how much memory may be used. Times are for `benchmarks/costs.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "matplotlib", "pandas", "typer", "xdsl", "llvmlite"}
#: a program with a launch; prints what it loaded and what came out
PROGRAM = """
import json, sys
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def add_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + 1, mask=offsets < n)

x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
kernel = add_kernel[(1,)](x, out, 1000, BLOCK=1024)
print(json.dumps({"modules": list(sys.modules), "cached": kernel.from_cache,
                  "right": bool((out == x + 1).all())}))
"""
#: MB by which the peak of resident memory grows while the online softmax is compiled
MEMORY = """
import sys
sys.path.insert(0, {examples!r})
import numpy, seeds_loader
import tilewright.backends.cpu.backend, tilewright.frontend, tilewright.passes.pipeline
kernel = seeds_loader.load("softmax", stand_in=True).kernel_softmax_online

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

with open("/proc/self/clear_refs", "w") as stream:
    stream.write("5")
before = status("VmRSS")
kernel.warmup("*fp32", 4096, "*fp32", 4096, 4096, grid=(4,), BLOCK_SIZE=4096, CACHE_OPT=True)
print((status("VmHWM") - before) / 1024)
"""


def run(program: str, cache: Path, folder: Path) -> str:
    """Run a program in a process of its own, with its own disk cache."""
    file = folder / "program.py"
    file.write_text(program)
    environment = os.environ | {"TILEWRIGHT_CACHE_DIR": str(cache)}
    for name in ("TILEWRIGHT_ALWAYS_COMPILE", "TILEWRIGHT_INTERPRET", "TRITON_INTERPRET"):
        environment.pop(name, None)
    result = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout


def packages(modules: list[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_import_pulls_in_nothing_heavy(tmp_path):
    names = "import json, sys, tilewright as tw, tilewright.language as tl; tw.jit; print(json.dumps(list(sys.modules)))"
    assert not packages(json.loads(run(names, tmp_path / "cache", tmp_path))) & HEAVY


def test_the_ir_stack_stays_out_on_a_cache_hit(tmp_path):
    first, second = (json.loads(run(PROGRAM, tmp_path / "cache", tmp_path)) for _ in range(2))
    assert (first["right"], first["cached"]) == (True, False)
    assert (second["right"], second["cached"]) == (True, True)
    assert "xdsl" in packages(first["modules"])
    assert packages(second["modules"]) & HEAVY == {"llvmlite"}
    stack = ("tilewright.frontend", "tilewright.ir.", "tilewright.dialects", "tilewright.passes")
    assert not [name for name in second["modules"] if name.startswith(stack)]
    assert "llvmlite.ir" not in second["modules"] or "llvmlite.ir" in _llvmlite_itself(tmp_path)


def _llvmlite_itself(folder: Path) -> list[str]:
    """What llvmlite's binding loads of its own accord."""
    program = "import json, sys, llvmlite.binding; print(json.dumps(list(sys.modules)))"
    return json.loads(run(program, folder / "cache", folder))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_memory_of_a_compile(tmp_path):
    examples = Path(__file__).resolve().parents[2] / "examples"
    grown = float(run(MEMORY.format(examples=str(examples)), tmp_path / "cache", tmp_path))
    assert grown <= 150


def test_a_launch_that_hits_goes_straight_to_native_code(monkeypatch):
    import numpy as np
    from tests.runtime import kernels

    x, y, out = (np.zeros(64, np.float32) for _ in range(3))
    kernels.add_kernel[(1,)](x, y, out, 64, BLOCK=64)
    slow_ways = []
    fast = kernels.add_kernel._run.__globals__
    monkeypatch.setitem(fast, "_tw_slow", lambda *arguments: slow_ways.append(arguments))
    kernels.add_kernel[(1,)](x, y, out, 64, BLOCK=64)
    assert not slow_ways
    kernels.add_kernel[(1,)](x, y, out, 64, BLOCK=32)
    assert slow_ways
