"""LLVM's optimizations of a kernel before code generation: those that our own lowering leaves work for.

LLVM's pipeline for modules runs eight combinations of instructions over a kernel, half of the time that it takes. Three of
them are for what kernels do not have: calls between functions, and loops that LLVM unrolls. Where there is nothing
of either, the passes over one function suffice. What else the passes over a module find out is stated instead:
ranges of special registers (`with_ranges`) and alignments (`lower.shared_alignment`).
"""

from __future__ import annotations

import re
from typing import Any

from llvmlite import binding

_MANY_LINES = 2500
"""Lines of a kernel that gains from another combination of instructions: a router's sort of 64 keys has 3 % fewer (3,585 lines)."""
_CAN_LEAVE_OUT = 22
"""The LLVM that has been tried to know the option: it ends a process that gives it an option that it does not know."""
_NO_STRENGTH_REDUCTION = "-opt-disable=slsr"
_MAX_GRID = {"x": 2**31 - 1, "y": 65535, "z": 65535}
_SPECIAL = re.compile(r'call i32 @"llvm\.nvvm\.read\.ptx\.sreg\.(n?ctaid|tid)\.([xyz])"\(\)')
_TARGET = re.compile(r'label %"?([^",\s]+)')


def with_ranges(text: str, threads: int) -> str:
    """A module's text with the ranges of thread and CTA indices, for CTAs of `threads` threads along x."""

    def ranged(call: re.Match[str]) -> str:
        name, axis = call[1], call[2]
        if name == "tid":
            first, end = 0, threads if axis == "x" else 1
        else:
            first = int(name == "nctaid")
            end = _MAX_GRID[axis] + first
        # as LLVM prints them: signed, with the end outside
        end -= 2**32 if end >= 2**31 else 0
        return call[0].replace("call i32", f"call range(i32 {first}, {end}) i32")

    return _SPECIAL.sub(ranged, text)


def passes_of_functions_suffice(text: str) -> bool:
    """Whether a module without functions that are called needs no passes over modules."""
    return text.count("\n") < _MANY_LINES and not _may_unroll(text)


def _may_unroll(text: str) -> bool:
    """Whether a module's text has a loop that LLVM is not told to leave alone."""
    seen, targets = set[str](), set[str]()
    for line in text.split("\n"):
        if line.endswith(":"):
            seen.add(line[:-1].strip('"'))
        elif line.startswith("  br ") and "!llvm.loop" not in line:
            targets.update(_TARGET.findall(line))
            if not targets.isdisjoint(seen):
                return True
            targets.clear()
    return False


def leave_out_strength_reduction() -> None:
    """Let LLVM's code generation for NVIDIA not look for addresses that differ by a constant stride.

    It compares all addresses of a block with each other: of 128 gathers that takes 8.8 of 9.2 seconds. Only code generation
    for GPUs has this pass (`slsr`), so that the option, which the process has once, changes no other compilation.
    """
    if binding.llvm_version_info[0] >= _CAN_LEAVE_OUT:
        binding.set_option("tilewright", _NO_STRENGTH_REDUCTION)


def optimize(module: Any, machine: Any, whole: bool) -> None:
    """Run LLVM's passes over a module: all of them if it is `whole`, else those over functions."""
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_unrolling = True
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    builder = binding.create_pass_builder(machine, tuning)
    if whole:
        builder.getModulePassManager().run(module, builder)
        return
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
