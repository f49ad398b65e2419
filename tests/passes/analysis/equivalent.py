"""Mutants that compute the same as the analysis, and why."""

_SHIFTED = (
    "the other end is the lower one where the sign is known to matter; else both readings agree"
)
_ZERO = "the quotient of 0 is 0 with either sign, and no divisor is 0"
_BOUNDED = "the join is bounded there already"

EQUIVALENT = {
    "transfer.shift_left: .smin -> .umin #1": _SHIFTED,
    "transfer.shift_right_signed: .smin -> .umin #2": _SHIFTED,
    "transfer._quotient: a < 0: other comparison 0 #1": _ZERO,
    "transfer._quotient: b < 0: other comparison 0 #1": _ZERO,
    "transfer._quotient: 0 -> 1 #1": _ZERO,
    "transfer._quotient: 0 -> 1 #2": _ZERO,
    "transfer.divide_unsigned: .umin -> .umax #2": "both are equal where it is used",
    "transfer.maximum_signed: .smax -> .umax #1": _BOUNDED,
    "transfer.maximum_signed: .smax -> .umax #2": _BOUNDED,
    "transfer.extend_unsigned: unsigned_range -> signed_range #1": "a wider type holds it either way",
    "transfer.compare: a -> b #5": "None is no constant of the other operand, either",
    "lattice.reduced: if zeros: True #1": "a shortcut: multiples of 1",
    "lattice.reduced: smin > smax or umin > umax: and/or #1": "after tightening, neither is empty alone",
    "lattice.join: if a == b: False #1": "a shortcut",
    "lattice.join: a -> b #2": "both are equal there",
}
