"""Described products ahead of time: a contraction as a C function of sizes, strides and pointers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright import dtypes
from tilewright.backends import registry
from tilewright.backends.base import TargetInfo
from tilewright.dtypes import constexpr, pointer_type
from tilewright.generator.choice import choose
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import COLUMN, ROW, Contraction
from tilewright.generator.program import AXES, INTEGER, POINTER, Program
from tilewright.runtime.export import Exported, export_kernel
from tilewright.runtime.generated import kernels
from tilewright.runtime.specialize import ArgumentType, slot_kind


def export_matmul(
    contraction: Contraction,
    folder: str | Path,
    name: str | None = None,
    *,
    sizes: tuple[int, int, int],
    batch: int = 1,
    target: str | TargetInfo = "cpu",
    config: MatmulConfig | None = None,
    aligned: bool = True,
) -> Exported:
    """Write a product as a C header and an object file (CPU) or a C file (GPU) into `folder`.

    The C function takes any sizes. `sizes` and `batch` say for which M, N, K and how many products the
    tiles are chosen, unless `config` gives them (K is never split, and nothing packed before: a function is one
    launch).

    Args:
        aligned: take addresses to be multiples of 16 bytes, and K, N and strides multiples of 16
            elements; the function refuses others. Without it any numbers do, more slowly.

    Raises LaunchError for a name that C does not take, UnsupportedTarget for a target that there is
    not, CompilationError for an epilogue function.
    """
    machine = registry.machine(target) if isinstance(target, str) else target
    chosen = config or choose(contraction, *sizes, machine, batch, packed=False)
    (kernel,) = kernels(contraction, chosen.with_(split_k=1, panels=None))
    options = {} if machine.name == "cpu" else kernel.launch_options()
    compiled = kernel.compile(
        argument_types(kernel.program, aligned), target=machine, options=options
    )
    grid, sizes_of_grid = _grid(kernel.program, machine)
    return export_kernel(compiled, folder, name or kernel.program.name, grid, sizes_of_grid)


def argument_types(program: Program, aligned: bool) -> Mapping[str, Any]:
    """Types of a program's parameters, for `compile`: strides of 1 are known.

    `aligned`: addresses are multiples of 16 bytes, K, N and strides multiples of 16.
    """
    contraction = program.contraction
    integer = dtypes.int64 if contraction.wide else dtypes.int32
    ones = _unit_strides(contraction)
    found: dict[str, Any] = {}
    for p in program.parameters:
        if p.name in ones:
            found[p.name] = constexpr(1)
        elif p.kind == POINTER:
            found[p.name] = ArgumentType(pointer_type(p.dtype), "address", aligned)
        elif p.kind == INTEGER:
            # rows can be as many as they like: nothing is read along them in one piece
            multiple = aligned and p.name != "M" and not p.name.startswith("batch")
            found[p.name] = ArgumentType(integer, "int", multiple)
        else:
            found[p.name] = ArgumentType(p.dtype, slot_kind(p.dtype))
    return found


def _unit_strides(contraction: Contraction) -> set[str]:
    """Names of strides that are 1."""
    ones = {
        f"{what}_{AXES[what][1 if item.order == ROW else 0]}"
        for what, item in contraction.matrices
        if item.order in (ROW, COLUMN)
    }
    for i, extra in enumerate(contraction.extras):
        if extra.axes:
            ones.add(f"x{i}_{extra.axes[-1]}")
    return ones


def _grid(program: Program, machine: TargetInfo) -> tuple[str, tuple[str, ...]]:
    """The number of programs as an expression, and the sizes in it that are no arguments."""
    block_m, block_n = program.tile
    batches = [f"batch{i}" for i in range(program.contraction.batch_rank)]
    tiles = " * ".join([f"cdiv(M, {block_m})", f"cdiv(N, {block_n})", *batches])
    known = {p.name for p in program.parameters}
    if program.config.persistent:
        tiles = f"min({tiles}, {max(1, machine.cores)})"
    return tiles, tuple(n for n in batches if n not in known)
