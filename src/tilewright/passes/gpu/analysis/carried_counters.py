"""Rewrite loop-carried induction variables in terms of the loop counter.

Persistent kernels carry a second tile index for their epilogue (`tile_c += programs`), so that a compiler can overlap
the epilogue with the loads of the next tile. Computed from the loop counter, it is not a loop-carried dependence.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tilewright.passes.analysis.edit import end_of, start_of
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.regions import remove_carried


def derive_carried_counters(loop: scf.ForOp) -> scf.ForOp:
    """Return the loop without carried integers that advance by the same amount in each iteration.

    Applies to loops that count 0, 1, 2 …, and to integers whose final value has no users.
    """
    if constant_int(loop.lb) != 0 or constant_int(loop.step) != 1:
        return loop
    body, derived = loop.body.block, dict[int, SSAValue]()
    for position, init in enumerate(loop.iter_args):
        carried = body.args[position + 1]
        kind, amount = carried.type, _amount(carried, end_of(body).operands[position], loop)
        if (
            amount is None
            or not isinstance(kind, IntegerType)
            or loop.results[position].first_use is not None
        ):
            continue
        emitter = Emitter(start_of(body))
        counter = emitter.resize(body.args[0], kind, True)
        advanced = emitter.binary(arith.MuliOp, counter, amount)
        value = emitter.binary(arith.AddiOp, init, advanced)
        carried.replace_all_uses_with(value)
        derived[position] = init
    return remove_carried(loop, derived) if derived else loop


def _amount(carried: SSAValue, following: SSAValue, loop: scf.ForOp) -> SSAValue | None:
    """Return the step per iteration of a loop-carried integer, or None."""
    op = following.owner
    if not isinstance(op, arith.AddiOp):
        return None
    amounts = [v for v in op.operands if v is not carried]
    if carried not in op.operands or len(amounts) != 1 or defined_inside(amounts[0], loop):
        return None
    return amounts[0]
