"""pdb stops inside kernels: by `breakpoint()`, by file and line, and when they fail."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import numpy as np
import tilewright
import tilewright.language as tl

@tilewright.jit
def inner(x):
    y = x + 1
    return y * 2

@tilewright.jit
def kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n){stop}
    z = inner(x)
    tl.store(o_ptr + offsets, z, mask=offsets < n)

x = np.arange(4, dtype=np.float32)
o = np.zeros(4, np.float32)
kernel[(1,)](x, o, 4, BLOCK=4)
print("result", o)
"""


@pytest.fixture
def debugged(tmp_path):
    def run(commands, stop="", arguments=(), variable="TILEWRIGHT_INTERPRET"):
        file = tmp_path / "program.py"
        file.write_text(PROGRAM.format(stop=stop))
        environment = {**os.environ, variable: "1", "PYTHONBREAKPOINT": ""}
        if variable != "TILEWRIGHT_INTERPRET":
            environment.pop("TILEWRIGHT_INTERPRET", None)
        result = subprocess.run(
            [sys.executable, *arguments, str(file)],
            input=textwrap.dedent(commands), env=environment, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        return result.stdout + result.stderr

    return run


@pytest.mark.parametrize("variable", ["TILEWRIGHT_INTERPRET", "TRITON_INTERPRET"])
def test_breakpoint_in_a_kernel(debugged, variable):
    commands = "p x\np BLOCK, n\np tl.sum(x)\np offsets + 1\nc\n"
    output = debugged(commands, "\n    breakpoint()", variable=variable)
    assert re.search(r"program\.py\(1[56]\)kernel\(\)", output)  # from 3.13 on at the call itself
    assert "<fp32[4] [0. 1. 2. 3.]>" in output
    assert "(4, <i32 4>)" in output
    assert "<fp32 6.0>" in output
    assert "<i32[4] [1 2 3 4]>" in output
    assert "result [2. 4. 6. 8.]" in output


def test_stepping_into_a_helper(debugged):
    output = debugged("b 8\nc\np x\nn\np y\nup\nc\nq\n", arguments=("-m", "pdb"))
    assert "program.py(8)inner()" in output
    assert "<fp32[4] [1. 2. 3. 4.]>" in output
    assert "result [2. 4. 6. 8.]" in output


def test_changing_a_tile(debugged):
    output = debugged("b 15\nc\nx = tl.zeros_like(x)\nc\nq\n", arguments=("-m", "pdb"))
    assert "result [2. 2. 2. 2.]" in output


def test_step_enters_helpers(debugged):
    output = debugged("b 15\nc\ns\np x\nc\nq\n", arguments=("-m", "pdb"))
    assert re.search(r"--Call--\s+> \S*program\.py\(\d+\)inner\(\)", output)
    assert "<fp32[4] [0. 1. 2. 3.]>" in output


def test_step_shows_lines_of_kernels_only(debugged):
    output = debugged("s\n" * 8 + "c\n", "\n    breakpoint()")
    frames = re.findall(r"> (\S+)\(\d+\)(\w+)\(\)", output)
    assert [name for _, name in frames].count("inner") >= 3
    assert {os.path.basename(file) for file, _ in frames} == {"program.py"}
