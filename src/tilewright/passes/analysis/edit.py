"""Small edits of blocks and of `scf` regions, with the checks that xDSL leaves to its callers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from tilewright.errors import PassError
from tilewright.ir.walk import closure
from tilewright.passes.analysis.effects import has_effect


def block_of(op: Operation) -> Block:
    """The block that holds `op`."""
    block = op.parent
    if block is None:
        raise PassError(f"{op.name} is in no block")
    return block


def end_of(block: Block) -> Operation:
    """The terminator of a block."""
    end = block.last_op
    if end is None:
        raise PassError("a block without operations")
    return end


def start_of(block: Block) -> Operation:
    """The first operation of a block."""
    first = block.first_op
    if first is None:
        raise PassError("a block without operations")
    return first


def outermost_in(block: Block, op: Operation) -> Operation:
    """The operation of `block` that is `op` or holds it."""
    found = block.find_ancestor_op_in_block(op)
    if found is None:
        raise PassError(f"{op.name} is not in that block")
    return found


def backward_slice(
    block: Block,
    values: Iterable[SSAValue],
    may_take: Callable[[Operation], bool] = lambda op: True,
    *,
    stop: Callable[[Operation], bool] = lambda op: False,
    carried: bool = False,
) -> tuple[list[Operation], list[BlockArgument]] | None:
    """The operations of `block` from which `values` are computed, in order, but for those at which to `stop`.

    With `carried`, `block` is the body of a loop and is followed into the iteration before; also returns the
    loop-carried values met. None if the slice has an operation that `may_take` rejects.
    """
    taken, arguments, pending = set[Operation](), list[BlockArgument](), list(values)
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(value, BlockArgument):
            if carried and owner is block and value.index > 0 and value not in arguments:
                arguments.append(value)
                pending.append(yielded(value))
        elif isinstance(owner, Operation) and owner.parent is block and owner not in taken:
            if stop(owner):
                continue
            if not may_take(owner):
                return None
            taken.add(owner)
            pending += used_in(owner)
    return [op for op in block.ops if op in taken], arguments


def used_in(op: Operation) -> list[SSAValue]:
    """All values that `op` and the operations in its regions use."""
    return [v for inner in op.walk() for v in inner.operands]


def initial(argument: BlockArgument) -> SSAValue:
    """The value of a loop-carried argument of an `scf.for` in the first iteration."""
    loop: Any = argument.block.parent_op()
    return loop.iter_args[argument.index - 1]


def yielded(argument: BlockArgument) -> SSAValue:
    """The value of a loop-carried argument of an `scf.for` in the next iteration."""
    return end_of(argument.block).operands[argument.index - 1]


def insert_before(new: Operation, op: Operation) -> None:
    """Put `new` right before `op`; if it is in a block already, it moves."""
    if new.parent is not None:
        new.detach()
    block_of(op).insert_op_before(new, op)


_Op = TypeVar("_Op", bound=Operation)


Mapping = dict[SSAValue, SSAValue]
"""Values of an operation -> their copies."""


def replace_values(old: Iterable[SSAValue], new: Iterable[SSAValue]) -> None:
    """Give the users of the values `old`, and their names, to the values `new`."""
    for before, after in zip(old, new, strict=True):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)


def replace_op(op: Operation, values: Iterable[SSAValue]) -> None:
    """Erase `op`; `values` replace its results."""
    replace_values(op.results, values)
    erase(op)


def branch(
    condition: SSAValue,
    ops: Sequence[Operation],
    results: Sequence[SSAValue] = (),
    otherwise: Sequence[Operation] = (),
    other_results: Sequence[SSAValue] = (),
) -> scf.IfOp:
    """An `scf.if`, in no block yet: `ops` if `condition`, else `otherwise`, and the values that each of them yields."""
    sides = ((ops, results), (otherwise, other_results))
    ended = [Block([*side, scf.YieldOp.create(operands=values)]) for side, values in sides]
    return scf.IfOp.create(
        operands=[condition],
        result_types=[v.type for v in results],
        regions=[Region(block) for block in ended],
    )


def with_operands(
    op: _Op,
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    regions: Sequence[Region] = (),
) -> _Op:
    """An operation like `op`, in no block yet, with other operands, result types and regions."""
    return type(op).create(
        operands=operands,
        result_types=types,
        properties=op.properties,
        attributes=op.attributes,
        regions=regions,
        location=op.location,
    )


def rebuild(op: _Op, operands: Sequence[SSAValue], types: Sequence[Attribute]) -> _Op:
    """`op` once more, right before it, with other operands and result types; its regions move over."""
    regions = [op.detach_region(region) for region in list(op.regions)]
    new = with_operands(op, operands, types, regions)
    insert_before(new, op)
    return new


def erase(op: Operation) -> None:
    """Take an operation without users out of its block."""
    op.detach()
    op.erase()


NO_UNROLL = "tile.no_unroll"
"""Attribute of an `scf.for`: a pass has chosen how many copies of its body there are."""


def post_order(function: FuncOp) -> list[Operation]:
    """All operations below `function`, each after those in its regions."""
    return list(function.body.walk(region_first=True))


def replace(old: Operation, new: Operation, results: Sequence[SSAValue | None]) -> None:
    """Erase `old`; `results` replace its results (None: unused). Inserts `new` if it is in no block."""
    new.location = old.location
    block = old.parent
    if block is None:
        raise ValueError("the operation is in no block")
    if new.parent is None:
        block.insert_op_before(new, old)
    for result, value in zip(old.results, results, strict=True):
        if value is not None:
            if value.name_hint is None:
                value.name_hint = result.name_hint
            result.replace_all_uses_with(value)
    block.erase_op(old)


def drop_block_args(block: Block, positions: Sequence[int]) -> None:
    for position in sorted(positions, reverse=True):
        block.erase_arg(block.args[position])


def rebuild_for(loop: scf.ForOp, inits: Sequence[SSAValue]) -> scf.ForOp:
    """`loop` with `inits` for carried values; the caller has made the block arguments and the yield fit."""
    return rebuild(loop, [*loop.operands[:3], *inits], [v.type for v in inits])


def with_counter(
    loop: scf.ForOp,
    bounds: tuple[SSAValue, SSAValue, SSAValue],
    value: Callable[[SSAValue], SSAValue],
) -> None:
    """Let a loop count in `bounds`; `value` gives what its counter was of the new one."""
    block = loop.body.block
    old, counter = block.args[0], block.insert_arg(bounds[0].type, 0)
    counter.name_hint = old.name_hint
    old.replace_all_uses_with(value(counter))
    block.erase_arg(old)
    new = scf.ForOp(*bounds, list(loop.iter_args), loop.detach_region(0))
    new.attributes.update(loop.attributes)
    replace(loop, new, list(new.results))


def without(values: Sequence[SSAValue], positions: Collection[int]) -> list[SSAValue]:
    return [v for i, v in enumerate(values) if i not in positions]


def kept_results(
    count: int, positions: Sequence[int], new: Sequence[SSAValue]
) -> list[SSAValue | None]:
    """`new` spread over `count` places, None at `positions`."""
    rest = iter(new)
    return [None if i in positions else next(rest) for i in range(count)]


def remove_carried(loop: scf.ForOp, values: dict[int, SSAValue]) -> scf.ForOp:
    """`loop` without the carried values at the positions in `values`.

    Inside and after the loop they are replaced by `values[position]`, which is defined before it.
    """
    block, last = loop.body.block, end_of(loop.body.block)
    places = list(values)
    for position, value in values.items():
        block.args[position + 1].replace_all_uses_with(value)
        loop.results[position].replace_all_uses_with(value)
    last.operands = without(list(last.operands), places)
    drop_block_args(block, [p + 1 for p in places])
    new = rebuild_for(loop, without(list(loop.iter_args), places))
    replace(loop, new, kept_results(len(loop.results), places, list(new.results)))
    return new


def unused_carried(loop: scf.ForOp) -> list[int]:
    """Positions of carried values that only serve to compute themselves."""
    block, last = loop.body.block, end_of(loop.body.block)
    dead = {p for p, result in enumerate(loop.results) if result.first_use is None}
    if not dead:
        return []

    def needed(value: SSAValue) -> Sequence[SSAValue]:
        if isinstance(value, BlockArgument):
            return [yielded(value)] if value.block is block and value.index else ()
        return used_in(value.owner) if isinstance(value.owner, Operation) else ()

    effects = [v for op in block.ops if has_effect(op) for v in used_in(op)]
    live = set(closure([*effects, *without(last.operands, dead)], needed))
    return [p for p in sorted(dead) if block.args[p + 1] not in live]
