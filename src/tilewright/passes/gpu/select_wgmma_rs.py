"""`select-wgmma-rs`: pass MN-major 4-byte operands to `wgmma` through registers.

`wgmma` reads tf32 from shared memory only if it is K-major; a row-major B and a column-major A are MN-major.
Transposing such a tile in shared memory reads and writes it once more. The instruction's left operand, however,
may come from registers (RS), in any major order: threads load A column by column as stored; for B, the transposed
dot `(A @ B)^T = B^T @ A^T` has it as the left operand. That saves the writes of the transposition, a third of
the shared-memory traffic of a 128 x 256 x 32 dot (ADR 10).

Appends `.rs` or `.rs.swap_ab` to the instruction of a dot if both operands are loaded for this dot only and one is
MN-major. If both are, the larger one passes through registers and the other is transposed.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %c: tensor<64x64xf32>) {
            %one = arith.constant 1 : i64
            %a = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
            %b = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
        -   %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
        +   %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32.rs.swap_ab"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
            func.return
          }

Requires `select-mma` and `raise-access`. Ensures: dots that accumulate onto each other, through loops and
elementwise operations, have the same instruction and so the same accumulator layout; dots whose result is an
operand of another dot (attention) are unchanged. With the pass disabled, such operands are transposed in shared
memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, incoming, outgoing
from tilewright.layouts.fragments import WgmmaInstruction, parse_wgmma
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.passes.gpu.analysis.staging import copy_obstacle
from tilewright.passes.gpu.select_mma import ATTRIBUTE, instruction_of, is_wgmma
from tilewright.targets import TargetInfo


class SelectWgmmaRs(Pass):
    relevant_ops = ("tile.dot",)
    requires = ("select-mma", "promote-shared", "raise-access")

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        dots = [op for op in module.walk() if isinstance(op, tile.DotOp) and is_wgmma(op)]
        wanted = {op: _through(op) for op in dots}
        for op, instruction in wanted.items():
            together = _added_up(op)
            if instruction is None or together is None:
                continue
            if all(wanted.get(other) == instruction for other in together):
                op.attributes[ATTRIBUTE] = StringAttr(str(instruction))


def _through(op: tile.DotOp) -> WgmmaInstruction | None:
    """The RS form of the instruction, if an operand would have to be transposed otherwise."""
    instruction = parse_wgmma(instruction_of(op))
    size = tile.element_bytes(op.lhs)
    dims = [_loaded_along(value, op) for value in (op.lhs, op.rhs)]
    if instruction.any_major or size != 4 or dims == [1, 0]:
        return None
    m, n = tile.shape_of(op.result)
    match dims:
        case [0, 0]:
            order = "a"
        case [1, 1]:
            order = "b"
        case [0, 1]:
            order = "ab" if m >= n else "ba"
        case _:
            return None
    for operand in order:
        found, warps = replace(instruction, through=operand), warps_of(op)
        partition = partition_wgmma(found, m, n, warps)
        if partition is not None and partition.k_steps_per_batch(max_registers_per_thread(warps)):
            return found
    return None


def _loaded_along(value: SSAValue, op: tile.DotOp) -> int | None:
    """The dimension along which an operand lies in memory, of one that is loaded for the dot alone."""
    load = value.owner
    if not isinstance(load, tile.LoadViewOp) or load.parent is not op.parent:
        return None
    alone = value.has_one_use()
    plain = alone and copy_obstacle(load, op, Facts(), wide=False) is None
    return contiguous_dim(load) if plain else None


def _added_up(op: tile.DotOp) -> set[tile.DotOp] | None:
    """The dots that share an accumulator chain with `op`; None if a result of the chain is an operand of
    another dot."""
    dots: set[tile.DotOp] = set()
    near: list[SSAValue] = []
    for value in closure([cast(SSAValue, op.result)], lambda _: near):
        near[:] = _made_of(value)
        for use in value.uses:
            user = use.operation
            if isinstance(user, tile.DotOp):
                if use.index != 2:
                    return None
                near.append(user.result)
            else:
                near.extend(_follows(user, use.index, value))
        if isinstance(value.owner, tile.DotOp):
            dots.add(value.owner)
    return dots


def _made_of(value: SSAValue) -> list[SSAValue]:
    """Tiles of the same shape that one comes from."""
    owner, passed = value.owner, incoming(value)
    if passed is not None or isinstance(owner, Block):
        return passed or []
    if isinstance(owner, tile.DotOp):
        return [owner.acc]
    if is_pure_elementwise(owner):
        return [v for v in owner.operands if _like(v, value)]
    return []


def _follows(user: Operation, index: int, value: SSAValue) -> list[SSAValue]:
    """Tiles of the same shape that a use makes of one."""
    if is_pure_elementwise(user):
        return [v for v in user.results if _like(v, value)]
    return outgoing(user, index) or []


def _like(value: SSAValue, other: SSAValue) -> bool:
    return tile.is_tile(value) and tile.shape_of(value) == tile.shape_of(other)
