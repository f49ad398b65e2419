"""LLVM's passes over a kernel: which of them run, and what is stated instead of found out by the others."""

import re
import subprocess
import sys

import pytest
from llvmlite import binding

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia import llvm_passes, ptx
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

HOPPER = target_info("sm_90a")


def straight(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.exp(tl.load(x + o, mask=o < n)), mask=o < n)


def looping(x, y, n, B: tl.constexpr):
    a = tl.zeros((B,), tl.float32)
    for i in range(0, n, B):
        a += tl.load(x + i + tl.arange(0, B))
    tl.store(y + tl.arange(0, B), a)


def several_rows(x, y, n, B: tl.constexpr):
    places = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y + tl.arange(0, 16), tl.sum(tl.load(x + places), 0))


def texts(function, monkeypatch):
    """LLVM IR and PTX of a kernel."""
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "none")
    signature = {a: dtypes.pointer_type(dtypes.float32) for a in ("x", "y")}
    signature |= {"n": dtypes.int32, "B": constexpr(1024)}
    module = build(KernelFunction(function), signature, {"x": 16, "y": 16}).module
    return backend.compile(module, Options(num_warps=4), HOPPER).asm


@pytest.mark.parametrize(("function", "whole"), [(straight, False), (looping, True)])
def test_passes_over_modules_run_for_loops_that_may_be_unrolled(function, whole, monkeypatch):
    ran = []
    optimize = ptx.optimize
    monkeypatch.setattr(ptx, "optimize", lambda *given, whole: ran.append(whole))
    texts(function, monkeypatch)
    assert ran == [whole]
    monkeypatch.setattr(ptx, "optimize", optimize)
    assert "ret;" in texts(function, monkeypatch)["ptx"]


@pytest.mark.parametrize("function", [straight, several_rows])
def test_passes_over_functions_find_as_much(function, monkeypatch):
    """No more instructions than with all passes over the module."""
    few = texts(function, monkeypatch)["ptx"]
    monkeypatch.setattr(ptx, "passes_of_functions_suffice", lambda _: False)
    assert few.count(";") <= texts(function, monkeypatch)["ptx"].count(";")


def test_loops_that_are_left_alone_need_no_passes_over_modules():
    body = 'loop:\n  %c = icmp eq i32 %n, 0\n  br i1 %c, label %"loop", label %"left"'
    assert not llvm_passes.passes_of_functions_suffice(body)
    assert llvm_passes.passes_of_functions_suffice(f"{body}, !llvm.loop !1")
    assert llvm_passes.passes_of_functions_suffice('entry:\n  br label %"next"\nnext:\n  ret void')
    assert not llvm_passes.passes_of_functions_suffice("\n" * 10_000)


def test_indices_have_ranges():
    call = '  %"x" = call i32 @"llvm.nvvm.read.ptx.sreg.{}"()'
    expected = {
        "tid.x": "0, 128",
        "tid.y": "0, 1",
        "ctaid.x": "0, 2147483647",
        "ctaid.z": "0, 65535",
    }
    expected |= {"nctaid.x": "1, -2147483648", "nctaid.y": "1, 65536"}
    for name, limits in expected.items():
        first, end = limits.split(", ")
        ranged = llvm_passes.with_ranges(call.format(name), 128)
        assert ranged == call.format(name).replace("call", f"call range(i32 {first}, {end})")
    other = call.format("clock")
    assert llvm_passes.with_ranges(other, 128) == other


@pytest.mark.parametrize(("version", "given"), [((22, 1, 0), 1), ((20, 1, 0), 0)])
def test_only_a_known_llvm_is_asked_to_leave_out_a_pass(version, given, monkeypatch):
    options = []
    monkeypatch.setattr(binding, "set_option", lambda _, option: options.append(option))
    monkeypatch.setattr(binding, "llvm_version_info", version)
    llvm_passes.leave_out_strength_reduction()
    assert options == ["-opt-disable=slsr"] * given


SAYS_WHAT_RUNS = """
from llvmlite import binding
from tilewright.backends.base import Options
from tilewright.backends.nvidia import ptx
from tilewright.backends.nvidia.target import target_info
binding.set_option("test", "-opt-disable-enable-verbosity")
text = 'target triple = "nvptx64-nvidia-cuda"\\ndefine ptx_kernel void @k()\\n{\\n  ret void\\n}\\n'
ptx.to_ptx(text, target_info("sm_90a"), Options(num_warps=1), 32)
"""


def test_code_generation_leaves_out_strength_reduction():
    """It compares all addresses of a block with each other."""
    arguments = [sys.executable, "-c", SAYS_WHAT_RUNS]
    told = subprocess.run(arguments, capture_output=True, text=True, check=True).stderr
    assert re.search("NOT running pass slsr", told)
    assert len(re.findall("NOT running", told)) == 1


def test_accesses_to_shared_memory_state_their_alignment(monkeypatch):
    asm = texts(several_rows, monkeypatch)
    found = re.findall(r"(?:load|store) i32.*addrspace\(3\).*align (\d+)", asm["llvm"])
    assert found and max(map(int, found)) == 16
