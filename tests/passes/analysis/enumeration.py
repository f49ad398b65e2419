"""Exhaustive proof of the fact analysis' transfer functions at small widths.

Each function gets abstract operands, and its result must hold whatever the operation computes from any of
their members. `SPECIFICATIONS` says what each operation computes, on plain numbers and apart from the compiler.
"""

import functools
import itertools

import numpy as np

from tilewright.passes.analysis.facts import lattice, transfer

ANY = 1 << 20
"""Stands for an unspecified result, which may be any value."""


def signed(pattern, bits):
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divide(a, b, bits):
    x, y = signed(a, bits), signed(b, bits)
    return ANY if y == 0 or (y == -1 and x == -(1 << bits - 1)) else truncated(x, y)


def _remainder(a, b, bits):
    quotient = _divide(a, b, bits)
    return ANY if quotient == ANY else signed(a, bits) - quotient * signed(b, bits)


def _shift(function):
    return lambda a, b, bits: ANY if b >= bits else function(a, b, bits)


def _by_sign(function):
    return lambda a, b, bits: function(signed(a, bits), signed(b, bits))


#: name of a transfer function -> (unsigned patterns, width) -> result modulo 2^width, or ANY
SPECIFICATIONS = {
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "shift_left": _shift(lambda a, b, bits: a << b),
    "shift_right_signed": _shift(lambda a, b, bits: signed(a, bits) >> b),
    "shift_right_unsigned": _shift(lambda a, b, bits: a >> b),
    "divide_signed": _divide,
    "divide_unsigned": lambda a, b, bits: ANY if b == 0 else a // b,
    "remainder_signed": _remainder,
    "remainder_unsigned": lambda a, b, bits: ANY if b == 0 else a % b,
    "bit_and": lambda a, b, bits: a & b,
    "bit_or": lambda a, b, bits: a | b,
    "bit_xor": lambda a, b, bits: a ^ b,
    "minimum_signed": _by_sign(min),
    "maximum_signed": _by_sign(max),
    "minimum_unsigned": lambda a, b, bits: min(a, b),
    "maximum_unsigned": lambda a, b, bits: max(a, b),
}

#: with the last argument true, operands for which this fails are promised not to occur
PROMISES = {
    "add": lambda a, b, bits: fits(signed(a, bits) + signed(b, bits), bits),
    "sub": lambda a, b, bits: fits(signed(a, bits) - signed(b, bits), bits),
    "mul": lambda a, b, bits: fits(signed(a, bits) * signed(b, bits), bits),
    "shift_left": lambda a, b, bits: b >= bits or fits(signed(a, bits) << b, bits),
    "divide_signed": lambda a, b, bits: signed(b, bits) > 0,
    "remainder_signed": lambda a, b, bits: signed(b, bits) > 0,
}

#: name of a predicate -> what it must be true of
QUESTIONS = {
    "signed_sum_wraps": lambda a, b, bits: not fits(signed(a, bits) + signed(b, bits), bits),
    "signed_difference_wraps": lambda a, b, bits: not fits(signed(a, bits) - signed(b, bits), bits),
    "signed_product_wraps": lambda a, b, bits: not fits(signed(a, bits) * signed(b, bits), bits),
    "signed_shift_wraps": lambda a, b, bits: b >= bits or not fits(signed(a, bits) << b, bits),
}


def fits(number, bits):
    return -(1 << bits - 1) <= number < 1 << bits - 1


@functools.cache
def operands(bits):
    """Abstract operands: intervals between corners of the type, read either way, and multiples."""
    full, half = 1 << bits, 1 << bits - 1
    near = {-half, -half + 1, -half + 2, -half // 2, -3, -2, -1, 0, 1, 2, 3, bits - 1, bits, half // 2, half - 2, half - 1}  # fmt: skip
    corners = sorted(c for c in near if -half <= c < half)
    unsigned = sorted({c % full for c in corners} | {half, half + 1, full - 2, full - 1})
    found = []
    for low, high in itertools.combinations_with_replacement(corners, 2):
        found.append(lattice.signed_range(bits, low, high))
    for low, high in itertools.combinations_with_replacement(unsigned, 2):
        found.append(lattice.unsigned_range(bits, low, high))
    found += [lattice.multiple(power, bits) for power in range(bits + 1)]
    found += [lattice.signed_range(bits, 0, half - 1, 1), lattice.signed_range(bits, -half, -1, 1)]
    return list(dict.fromkeys(found))


@functools.cache
def sample(bits, count):
    """Some of the operands: those that functions make a difference of, and others from all over the list."""
    half = 1 << bits - 1
    numbers = dict.fromkeys([0, 1, 2, -1, -2, half // 2, bits, bits - 1, -half, half - 1])
    chosen = [lattice.constant(n, bits) for n in numbers]
    chosen += [
        lattice.top(bits),
        lattice.multiple(1, bits),
        lattice.signed_range(bits, -half, -1, 1),
    ]
    for ends in (
        (0, half - 1),
        (1, half - 1),
        (1, bits),
        (-half + 1, -2),
        (-half, -1),
        (-3, 2),
        (0, bits - 1),
    ):
        chosen += [lattice.signed_range(bits, *ends), lattice.signed_range(bits, *ends, 1)]
    chosen += [lattice.signed_range(bits, 2, half - 1), lattice.signed_range(bits, 2, half - 1, 1)]
    chosen += [
        lattice.unsigned_range(bits, 1, half + 1),
        lattice.unsigned_range(bits, half - 1, half),
    ]
    all_of_them = operands(bits)
    step = max(1, len(all_of_them) // count)
    return list(dict.fromkeys([*chosen, *all_of_them[::step]]))


@functools.cache
def members(fact):
    """The bit patterns that a fact allows, as a mask over all of them."""
    return np.array([fact.contains(p) for p in range(1 << fact.bits)])


def cached(table):
    """A function of (name, bits) that tabulates an operation over all pairs of patterns."""

    @functools.cache
    def rows(name, bits):
        count = 1 << bits
        return np.array(
            [[int(table[name](a, b, bits)) for b in range(count)] for a in range(count)]
        )

    return rows


results, promised, answers = cached(SPECIFICATIONS), cached(PROMISES), cached(QUESTIONS)


def holds(fact, bits, values):
    """Whether a fact of `bits` bits holds of all values, of which ANY may be anything."""
    if fact.bits != bits:
        return False
    if (values == ANY).any():
        return bool(members(fact).all())
    return bool(members(fact)[values & ((1 << bits) - 1)].all())


def counterexample(name, bits, count, module=transfer):
    """Operands for which a binary transfer function of `module` is wrong, or None."""
    function = getattr(module, name)
    table = results(name, bits)
    variants = [()] if name not in PROMISES else [(), (True,)]
    for more in variants:
        allowed = promised(name, bits).astype(bool) if more else None
        for a, b in itertools.product(sample(bits, count), repeat=2):
            values = table[np.ix_(members(a), members(b))]
            if allowed is not None:
                values = values[allowed[np.ix_(members(a), members(b))]]
            if values.size and not holds(function(a, b, *more), bits, np.unique(values)):
                return name, more, a, b, function(a, b, *more)
    return None


def wrong_answer(name, bits, count, module=transfer):
    """Operands for which a predicate denies what may happen, or None."""
    function, table = getattr(module, name), answers(name, bits)
    for a, b in itertools.product(sample(bits, count), repeat=2):
        if table[np.ix_(members(a), members(b))].any() and not function(a, b):
            return name, a, b
    return None


def wrong_conversion(bits, module=transfer):
    """An operand for which a unary transfer function is wrong, or None."""
    half = 1 << bits - 1
    for a in operands(bits):
        patterns = np.flatnonzero(members(a))
        values = np.array([signed(int(p), bits) for p in patterns])
        wide, narrow = bits + 2, bits - 2
        cases = [
            ("absolute", module.absolute(a), bits, np.where(values == -half, -half, abs(values))),
            ("extend_signed", module.extend_signed(a, wide), wide, values),
            ("extend_unsigned", module.extend_unsigned(a, wide), wide, patterns),
            ("truncate", module.truncate(a, narrow), narrow, patterns),
        ]
        for name, fact, width, expected in cases:
            if not holds(fact, width, expected):
                return name, a, fact
    return None


_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def wrong_comparison(bits, count, module=transfer):
    """A predicate and operands that it is decided wrongly for, or None."""
    half = 1 << bits - 1
    for a, b in itertools.product(sample(bits, count), repeat=2):
        x, y = np.flatnonzero(members(a)), np.flatnonzero(members(b))
        for predicate in PREDICATES:
            if predicate[0] == "s":
                x, y = (x + half) % (2 * half) - half, (y + half) % (2 * half) - half
            outcome = _COMPARISONS[predicate.lstrip("su")](x[:, None], y[None, :])
            fact = module.compare(predicate, a, b)
            if not holds(fact, 1, np.unique(outcome).astype(int)):
                return predicate, a, b, fact
            x, y = np.flatnonzero(members(a)), np.flatnonzero(members(b))
    return None


# ---- precision ------------------------------------------------------------------------------------------


def size(fact):
    """How much a fact leaves open: in its ranges, its divisor, and altogether."""
    ranges = (fact.smax - fact.smin) + 2 * (fact.umax - fact.umin)
    return 5 * ranges + 3 * (fact.bits - fact.zeros) + int(members(fact).sum())


def openness(name, module=transfer, bits=4, count=8):
    """How much the results of a function leave open, over its operands: less is better."""
    if name == "lattice":
        return _of_lattice(module, bits)
    function = getattr(module, name)
    pairs = itertools.product(sample(bits, count), repeat=2)
    if name in QUESTIONS:
        return sum(bool(function(a, b)) for a, b in pairs)
    if name == "absolute":
        return sum(size(function(a)) for a in operands(bits))
    if name in CONVERSIONS:
        width = 2 if name == "truncate" else 6
        return sum(size(function(a, width)) for a in operands(bits))
    if name == "compare":
        return sum(size(function(predicate, a, b)) for a, b in pairs for predicate in PREDICATES)
    variants = [()] if name not in PROMISES else [(), (True,)]
    return sum(size(function(a, b, *more)) for a, b in pairs for more in variants)


CONVERSIONS = ("absolute", "extend_signed", "extend_unsigned", "truncate")


def _of_lattice(module, bits):
    total = 0
    for a, b in itertools.product(sample(bits, 40), repeat=2):
        joined = module.join(a, b)
        for fact in (joined, module.widen(a, joined), module.meet(a, b)):
            total += size(fact)
    full, half = 1 << bits, 1 << bits - 1
    grid = [0, 1, half - 2, half - 1, half, half + 3, full - 1]
    ranges = list(itertools.combinations_with_replacement(grid, 2))
    for (smin, smax), (umin, umax), zeros in itertools.product(ranges, ranges, (0, 1)):
        total += size(module.reduced(bits, smin - half, smax - half, umin, umax, zeros))
    for low, high in itertools.combinations_with_replacement(range(-full, full), 2):
        for fact in (
            module.of_range(bits, low, high, abs(low) % 3), module.signed_range(bits, low, high),
            module.unsigned_range(bits, low, high),
        ):  # fmt: skip
            total += size(fact)
    for number in range(-full, full):
        total += size(module.constant(number, bits)) + module.trailing_zeros(number, bits)
    return total + sum(size(module.multiple(p, bits)) for p in range(bits + 1))


def wrong_lattice(module=lattice, bits=4, count=40):
    """What of the lattice is wrong, or None."""
    for a, b in itertools.product(sample(bits, count), repeat=2):
        both, common = members(a) | members(b), members(a) & members(b)
        for name, larger in (
            ("join", module.join(a, b)),
            ("widen", module.widen(a, module.join(a, b))),
        ):
            if (both & ~members(larger)).any():
                return name, a, b, larger
        if common.any() and (common & ~members(module.meet(a, b))).any():
            return "meet", a, b, module.meet(a, b)
    full, half = 1 << bits, 1 << bits - 1
    for low, high in itertools.combinations_with_replacement(range(-full, full), 2):
        numbers = np.arange(low, high + 1)
        ranges = (
            (module.of_range(bits, low, high), numbers),
            (module.signed_range(bits, low, high), numbers[(numbers >= -half) & (numbers < half)]),
            (module.unsigned_range(bits, low, high), numbers[(numbers >= 0) & (numbers < full)]),
        )
        for fact, values in ranges:
            if values.size and not holds(fact, bits, values):
                return "range", low, high, fact
    return None
