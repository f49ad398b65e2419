"""Which tiles may share a buffer: carried tiles, their initial, yielded and final values."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.types import position_of
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.cpu.analysis.buffers import SlotTable, dot_layouts
from tilewright.passes.cpu.analysis.classify import REMAPS, is_virtual
from tilewright.passes.cpu.analysis.hazards import crosses_lanes


def coalesce(block: Block, table: SlotTable) -> None:
    """Join values that share a slot, everywhere in `block`; then take the dots' layout wishes.

    Accumulators come first: a tile that one dot reads as an operand and another adds to is copied for the
    former, once, and would be copied twice for the latter.
    """
    _joins(block, table)
    dots = [op for op in block.walk() if isinstance(op, cpu.DotOp)]
    for op in dots:
        table.request(op.result, dot_layouts(op)[2])
    for op in dots:
        a, b, _ = dot_layouts(op)
        for value, layout in ((op.lhs, a), (op.rhs, b)):
            if isinstance(value.owner, Block) or not is_virtual(value.owner):
                table.request(value, layout)


def _joins(block: Block, table: SlotTable) -> None:
    for op in block.ops:
        if isinstance(op, cpu.DotOp):
            if _is_last_use(op.acc, op):
                table.join(op.acc, op.result)
        elif isinstance(op, scf.ForOp):
            _join_for(op, table)
        elif isinstance(op, scf.IfOp):
            _join_if(op, table)
        elif isinstance(op, scf.WhileOp):
            _join_while(op, table)


def _join_for(op: scf.ForOp, table: SlotTable) -> None:
    body = op.body.block
    yielded = end_of(body).operands
    for init, arg, result, value in zip(
        op.iter_args, body.args[1:], op.results, yielded, strict=True
    ):
        if not tile.is_tile(arg):
            continue
        table.join(result, arg)
        if _is_last_use(init, op):
            table.join(init, arg)
        if value is not arg and _single_use(value) and updates_in_place(arg, value, body):
            table.join(value, arg)
    _joins(body, table)


def _join_if(op: scf.IfOp, table: SlotTable) -> None:
    for region in op.regions:
        if not region.blocks:
            continue
        block = region.block
        for result, value in zip(op.results, end_of(block).operands, strict=True):
            defined_here = isinstance(value.owner, Operation) and value.owner.parent is block
            if tile.is_tile(result) and defined_here and _kept(value) and _single_use(value):
                table.join(value, result)
        _joins(block, table)


def _join_while(op: scf.WhileOp, table: SlotTable) -> None:
    before, after = op.before_region.block, op.after_region.block
    for i, (arg, result) in enumerate(zip(after.args, op.results, strict=True)):
        if tile.is_tile(arg):
            table.join(result, arg)
            passed = end_of(before).operands[i + 1]
            if passed.owner is before and _single_use(passed):
                table.join(arg, passed)
    _joins(before, table)
    _joins(after, table)


def _kept(value: SSAValue) -> bool:
    return isinstance(value.owner, Block) or not is_virtual(value.owner)


def _single_use(value: SSAValue) -> bool:
    return _kept(value) and value.has_one_use()


def _is_last_use(value: SSAValue, op: Operation) -> bool:
    """Whether `op` is the only user of a kept tile that is defined in `op`'s own block (a value
    from outside a loop would be needed again in the next iteration)."""
    home = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return tile.is_tile(value) and _single_use(value) and home is op.parent


def updates_in_place(old: SSAValue, new: SSAValue, block: Block, *, branch: bool = False) -> bool:
    """Whether `new`, made in `block`, may overwrite the buffer of `old`; in a `branch`, where `old` may have users
    elsewhere.

    No operation after the one that makes `new` may read `old`, and that one itself reads `old` only
    at the lane it writes.
    """
    maker = new.owner
    if not isinstance(maker, Operation) or maker.parent is not block or not _kept(new):
        return False
    position = {op: i for i, op in enumerate(block.ops)}
    for use in _real_uses(old):
        top = block.find_ancestor_op_in_block(use)
        if (top is None and not branch) or (top is not None and position[top] > position[maker]):
            return False
        if top is maker and not _reads_lanewise(old, new, maker):
            return False
    return True


def _real_uses(value: SSAValue) -> list[Operation]:
    """Users of a value, looking through virtual shape changes outside groups."""
    users: list[Operation] = []
    for use in value.uses:
        op = use.operation
        if is_virtual(op) and op.results and not isinstance(op.parent_op(), cpu.FusionGroupOp):
            users.extend(u for r in op.results for u in _real_uses(r))
        users.append(op)
    return users


def _reads_lanewise(old: SSAValue, new: SSAValue, maker: Operation) -> bool:
    if isinstance(maker, cpu.FusionGroupOp):
        direct = all(
            not isinstance(use.operation, (*REMAPS, tile.GatherOp, tile.ScanOp)) for use in old.uses
        )
        scans = any(isinstance(o, tile.ScanOp) for o in maker.walk())
        return direct and not scans and not crosses_lanes(old, maker)
    if isinstance(maker, cpu.DotOp):
        return maker.acc is old and maker.lhs is not old and maker.rhs is not old
    if isinstance(maker, scf.IfOp):
        index = position_of(new)
        for region in maker.regions:
            value = end_of(region.block).operands[index]
            written = _single_use(value) and updates_in_place(old, value, region.block, branch=True)
            if value is not old and not written:
                return False
        return True
    if isinstance(maker, scf.ForOp):
        return all(use.operation is maker for use in old.uses) and old.has_one_use()
    return False
