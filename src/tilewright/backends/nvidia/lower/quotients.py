"""Quotients of single precision whose divisors are known to be neither small nor large: one reciprocal for two.

Reciprocals and powers go through a unit that takes 8 cycles for a warp, an eighth as fast as multiplications
(CUDA programming guide, "Arithmetic instructions"). Where the product of two divisors of a thread cannot overflow,
`1/a = b r` and `1/b = a r` with `r = 1/(a b)`: what sigmoid-shaped functions need, three results of that unit for
two elements instead of four.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from tilewright.backends.llvm.math import ptx
from tilewright.backends.llvm.types import Value
from tilewright.dialects import tile
from tilewright.passes.analysis.emit import uniform_constant

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

_LARGEST_PRODUCT = 126.0
"""log2 of what a product may be for its reciprocal to be a normal number."""
_ROUNDING = 0.01


def shared_inverses(gen: KernelCodegen, op: Operation) -> list[Value]:
    """Quotients of as many registers as share reciprocals, from the first on; none where divisors are not known.

    At most 2.5 ulp off: the reciprocal is 1, three products are 0.5 each.
    """
    if op.name != "arith.divf" or tile.element_of(op.results[0]) != f32:
        return []
    limit = _bound(op.operands[1])
    if limit is None or 2 * limit > _LARGEST_PRODUCT:
        return []
    b = gen.builder
    above, below = (gen.parts(value) for value in op.operands)
    made: list[Value] = []
    for i in range(0, len(below) - 1, 2):
        pair: list[Any] = below[i : i + 2]
        inverse = ptx.reciprocal(b, b.fmul(*pair))
        for j, other in ((i, pair[1]), (i + 1, pair[0])):
            made.append(b.fmul(above[j % len(above)], b.fmul(other, inverse)))
    return made


def _bound(divisor: SSAValue) -> float | None:
    """log2 of what a divisor does not exceed, if it is at least 1 and never NaN: a power of something that
    `minnumf` limits (which leaves no NaN either), plus a number."""
    total = divisor.owner
    if not isinstance(total, arith.AddfOp):
        return None
    for power, number in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
        exponent, plus = _exponent(power), uniform_constant(number)
        if exponent is None or plus is None or exponent > _LARGEST_PRODUCT:
            continue
        if 1.0 <= plus <= 2.0**_LARGEST_PRODUCT:
            return math.log2(2.0**exponent + plus) + _ROUNDING
    return None


def _exponent(power: SSAValue) -> float | None:
    """What the exponent of 2 in a power does not exceed."""
    op = power.owner
    if not isinstance(op, Operation) or op.name not in ("math.exp2", "math.exp"):
        return None
    limited = op.operands[0].owner
    if not isinstance(limited, arith.MinnumfOp):
        return None
    bounds = [uniform_constant(limited.lhs), uniform_constant(limited.rhs)]
    known = [float(each) for each in bounds if each is not None and each == each]
    if not known:
        return None
    return max(0.0, min(known) * (1.0 if op.name == "math.exp2" else 1 / math.log(2)))
