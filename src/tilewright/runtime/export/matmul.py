"""Described matmuls ahead of time: a contraction as a C function of sizes, strides and pointers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright import dtypes
from tilewright.backends import registry
from tilewright.dtypes import constexpr, pointer_type
from tilewright.errors import LaunchError
from tilewright.generator.choice import choose
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import COLUMN, ROW, Contraction
from tilewright.generator.program import (
    AXES,
    INTEGER,
    PACKING,
    PARTIAL,
    POINTER,
    WHOLE,
    Program,
    programs,
)
from tilewright.runtime.export import Exported, export_parts
from tilewright.runtime.export.interface import Part
from tilewright.runtime.matmul.kernels import kernels
from tilewright.runtime.specialize import ArgumentType, slot_kind
from tilewright.targets import TargetInfo


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
    """Write a matmul as a C header and an object file (CPU) or a C file (GPU) into `folder`.

    The C function takes any sizes, and its parameters do not depend on tiles. `sizes` and `batch` say for which
    M, N, K and how many matmuls the tiles are chosen, unless `config` gives them. Where K is split, or
    operands are packed once for all programs, the function allocates what its kernels hand on to each other,
    and launches them in order.

    The result may share no memory with `a` or `b` (nor with itself, by strides); it may be `c` or an array of
    the epilogue, element by element. On a CPU the code relies on it, and cannot check it.

    Args:
        aligned: take addresses to be multiples of 16 bytes, and K, N and strides multiples of 16
            elements; the function refuses others. Without it any numbers do, more slowly.

    Raises LaunchError for a name that C does not take, UnsupportedTarget for a target that there is
    not, CompilationError for an epilogue function.
    """
    machine = registry.machine(target) if isinstance(target, str) else target
    chosen = config or choose(contraction, *sizes, machine, batch)
    if chosen.rows_per_load > 1:
        raise LaunchError("export_matmul: join_rows is for known sizes, the C function takes any")
    if machine.is_gpu:
        chosen = chosen.with_(prepack=None)
    parts, planned = [], kernels(contraction, chosen, not machine.is_gpu)
    for kernel in planned:
        options = kernel.launch_options() if machine.is_gpu else {}
        types = argument_types(kernel.program, aligned)
        compiled = kernel.compile(types, target=machine, options=options)
        parts.append(Part(compiled, _grid(kernel.program, machine)))
    (plain,) = programs(contraction, chosen.with_(split_k=1, prepack=None, persistent=False))
    known = {p.name for kernel in planned for p in kernel.program.parameters}
    return export_parts(
        parts,
        folder,
        name or plain.name,
        sizes=[n for n in (f"batch{i}" for i in range(contraction.batch_rank)) if n not in known],
        workspaces=_workspaces(planned[-1].program),
        order=[p.name for p in plain.parameters],
    )


def argument_types(program: Program, aligned: bool) -> Mapping[str, Any]:
    """Types of a program's parameters, for `compile`: strides of 1 are known.

    `aligned`: addresses are multiples of 16 bytes, K, N and strides multiples of 16.
    """
    contraction = program.contraction
    integer = dtypes.int64 if contraction.offsets_64bit else dtypes.int32
    ones = _unit_strides(contraction)
    found: dict[str, Any] = {}
    for p in program.parameters:
        if p.name in ones:
            found[p.name] = constexpr(1)
        elif p.kind == POINTER:
            own = p.name in _MADE
            found[p.name] = ArgumentType(pointer_type(p.dtype), "address", aligned or own)
        elif p.kind == INTEGER:
            if p.name.startswith("batch"):
                found[p.name] = ArgumentType(dtypes.int64, "int", False)
                continue
            # the number of rows may be any: no access is contiguous along them
            found[p.name] = ArgumentType(integer, "int", aligned and p.name != "M")
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


#: workspaces of the C function, which begin on a cache line
_MADE = ("work", "panels_a", "panels_b")


def _grid(program: Program, machine: TargetInfo) -> tuple[str, ...]:
    """The number of programs as expressions."""
    if program.part in PACKING:
        return (_packed_tiles(program, PACKING[program.part]),)
    block_m, block_n = program.tile
    tiles = " * ".join([f"cdiv(M, {block_m})", f"cdiv(N, {block_n})", *_batches(program)])
    if program.part == PARTIAL:
        return tiles, str(program.config.split_k)
    if program.config.persistent and program.part == WHOLE:
        cores = machine.cores
        if program.config.tma_multicast:
            cores //= 2
            pairs = [f"cdiv(M, {2 * block_m})", f"cdiv(N, {block_n})", *_batches(program)]
            tiles = " * ".join(pairs)
        tiles = f"min({tiles}, {max(1, cores)})"
    return (tiles,)


def _batches(program: Program) -> list[str]:
    return [f"batch{i}" for i in range(program.contraction.batch_rank)]


def _packed_tiles(program: Program, name: str) -> str:
    """The number of tiles that an operand is packed in."""
    extent, block = ("M", program.config.block_m) if name == "a" else ("N", program.config.block_n)
    varies = dict(program.contraction.matrices)[name].batch
    own = [size for size, each in zip(_batches(program), varies, strict=True) if each]
    return " * ".join([f"cdiv({extent}, {block})", f"cdiv(K, {program.config.block_k})", *own])


def _workspaces(last: Program) -> dict[str, str]:
    """Bytes of each workspace of a function's kernels, as C expressions."""
    config, sums = last.config, last.contraction.accumulator_type
    if config.prepack is not None:
        element = config.block_k * last.packed.itemsize
        blocks = {"a": config.block_m, "b": config.block_n}
        return {
            f"panels_{n}": f"{_packed_tiles(last, n)} * {block * element}"
            for n, block in blocks.items()
        }
    if config.parts > 1:
        parts = " * ".join(["M", "N", *_batches(last)])
        return {"work": f"{parts} * {config.parts * sums.itemsize}"}
    return {}
