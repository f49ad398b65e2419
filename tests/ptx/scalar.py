"""What one thread computes: arithmetic, comparisons, conversions, bits."""

import numpy as np
from tests.ptx.values import KINDS, Fault, bits_of, seen, width

_INTEGER = tuple("sub")


def is_float(kind):
    return kind[0] in "fe" or kind in ("bf16", "tf32")


#: what instructions may say besides their types
_MODIFIERS = {"lo", "hi", "wide", "rn", "rz", "rm", "rp", "ftz", "full", "approx", "NaN"}


def _typed(fn, also=()):
    """An operation on values of the last type of an instruction; `also` are modifiers that it knows itself.

    Of two types, as in `fma.rn.f32.f16` of sm_100 and later chips, the second is that of all operands but the last one.
    """

    def run(mods, *operands):
        if mods[-2:-1] == ("f32",) and mods[-1] in ("f16", "bf16"):
            wide = [bits_of(seen(v, mods[-1]).astype(np.float32)) for v in operands[:-1]]
            mods, operands = mods[:-1], (*wide, operands[-1])
        kind = mods[-1]
        unknown = set(mods[:-1]) - _MODIFIERS - {*also}
        if unknown:
            raise Fault(f"a modifier that the emulator does not know: {unknown}")
        if kind.endswith("x2"):
            return _pairs(fn, kind[:-2], mods, operands)
        return bits_of(fn(mods, kind, *(seen(v, kind) for v in operands)))

    return run


def _pairs(fn, kind, mods, operands):
    halves = []
    for shift in (0, 16):
        parts = [seen(v >> np.uint64(shift), kind) for v in operands]
        halves.append(bits_of(fn(mods, kind, *parts)))
    return halves[0] | halves[1] << np.uint64(16)


def _fma(mods, kind, a, b, c):
    if kind == "f64":
        wide = np.longdouble
    else:
        wide = np.float64
    if kind == "f32" and "rz" in mods:
        return _toward_zero(a.astype(wide) * b, c.astype(wide))
    result = (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(KINDS[kind])
    if "sat" in mods:  # NaN becomes 0
        result = np.where(np.isnan(result), 0, np.clip(result, 0, 1)).astype(KINDS[kind])
    return result


def _toward_zero(x, y):
    """`x + y` of fp64 numbers, rounded once to fp32: libdevice's `fmodf` needs it."""
    total = x + y
    back = total - x
    rest = (x - (total - back)) + (y - back)  # what `total` lacks, exactly
    nearest = total.astype(np.float32)
    size = np.abs(nearest.astype(np.float64))
    lacking = np.sign(total) * rest < 0
    above = (size > np.abs(total)) | ((size == np.abs(total)) & lacking)
    return np.where(above, np.nextafter(nearest, np.float32(0)), nearest)


def _divided(mods, kind, a, b):
    if is_float(kind):
        return a / b
    zero = b == 0
    safe = np.where(zero, 1, b).astype(b.dtype)
    quotient = np.abs(a.astype(object)) // np.abs(safe.astype(object)) if kind == "s64" else None
    if quotient is None:
        wide = a.astype(np.int64 if kind[0] == "s" else np.uint64)
        other = safe.astype(wide.dtype)
        quotient = np.abs(wide) // np.abs(other) if kind[0] == "s" else wide // other
    sign = np.where((a < 0) != (safe < 0), -1, 1) if kind[0] == "s" else 1
    return (quotient * sign).astype(np.int64 if kind[0] == "s" else np.uint64).astype(a.dtype)


def _remainder(mods, kind, a, b):
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    return (a - _divided(mods, kind, a, safe) * safe).astype(a.dtype)


def _bounded(pick, number_wins, with_nan):
    """Minimum or maximum, of floats as PTX has them: -0.0 is less than 0.0, whichever comes first."""

    def run(mods, kind, a, b):
        chosen = (with_nan if "NaN" in mods else number_wins) if is_float(kind) else pick
        found = chosen(a, b)
        if is_float(kind):
            sign = np.minimum if pick is np.maximum else np.maximum
            signed = np.where(sign(np.signbit(a), np.signbit(b)), -0.0, 0.0).astype(found.dtype)
            found = np.where((a == 0) & (b == 0), signed, found)
        return np.maximum(found, found.dtype.type(0)) if "relu" in mods else found

    return run


def _multiply(mods, kind, a, b):
    if is_float(kind):
        return a * b
    if mods[0] == "lo":
        return (a * b).astype(a.dtype)
    if mods[0] == "wide":
        double = KINDS[kind[0] + str(16 * width(kind))]
        return a.astype(double) * b.astype(double)
    bits = 8 * width(kind)
    return _cast_object((a.astype(object) * b.astype(object)) >> bits, kind)


def _cast_object(values, kind):
    mask = (1 << 8 * width(kind)) - 1
    raw = np.array([int(v) & mask for v in values], np.uint64)
    return seen(raw, kind)


def _mad(mods, *operands):
    kind = mods[-1]
    a, b = (seen(v, kind) for v in operands[:2])
    product = _multiply(mods, kind, a, b)
    c = np.ascontiguousarray(operands[2].astype(f"u{product.dtype.itemsize}")).view(product.dtype)
    return bits_of((product + c).astype(product.dtype))


def _shift_left(mods, a, count):
    kind = mods[-1].replace("b", "u")
    bits = 8 * width(kind)
    by = seen(count, "u32")
    value = seen(a, kind)
    return bits_of(
        np.where(by >= bits, 0, value << np.minimum(by, bits - 1).astype(value.dtype)).astype(
            value.dtype
        )
    )


def _shift_right(mods, a, count):
    kind = mods[-1].replace("b", "u")
    bits = 8 * width(kind)
    by, value = seen(count, "u32"), seen(a, kind)
    moved = value >> np.minimum(by, bits - 1).astype(value.dtype)
    gone = 0 if kind[0] == "u" else np.where(value < 0, -1, 0)
    return bits_of(np.where(by >= bits, gone, moved).astype(value.dtype))


def _funnel(mods, a, b, count):
    left = mods[0] == "l"
    c = seen(count, "u32").astype(np.uint64)
    c = c & np.uint64(31) if "wrap" in mods else np.minimum(c, np.uint64(32))
    both = (seen(b, "u32").astype(np.uint64) << np.uint64(32)) | seen(a, "u32").astype(np.uint64)
    moved = (both << c) >> np.uint64(32) if left else both >> c
    return moved & np.uint64(0xFFFFFFFF)


def _permuted(mods, a, b, selector):
    """Bytes by number (PTX ISA, `prmt`)."""
    both = (seen(b, "u32").astype(np.uint64) << np.uint64(32)) | seen(a, "u32").astype(np.uint64)
    total = np.zeros_like(both)
    for i in range(4):
        pick = selector >> np.uint64(4 * i) & np.uint64(15)
        byte = both >> (np.uint64(8) * (pick & np.uint64(7))) & np.uint64(255)
        sign = np.where(byte >> np.uint64(7), np.uint64(255), np.uint64(0))
        total |= np.where(pick & np.uint64(8), sign, byte) << np.uint64(8 * i)
    return total


def _extracted(mods, a, start, length):
    value, kind = a & np.uint64(0xFFFFFFFFFFFFFFFF if "64" in mods[-1] else 0xFFFFFFFF), mods[-1]
    start, length = start & np.uint64(255), length & np.uint64(255)
    mask = (np.uint64(1) << length) - np.uint64(1)
    found = value >> start & mask
    if kind[0] == "s":
        top = found >> (length - np.uint64(1)) & np.uint64(1)
        found = np.where(top != 0, found | ~mask, found)
    return seen(found, kind.replace("b", "u")).view(f"u{width(kind)}").astype(np.uint64)


def _inserted(mods, a, b, start, length):
    mask = ((np.uint64(1) << (length & np.uint64(255))) - np.uint64(1)) << (start & np.uint64(255))
    return (b & ~mask) | ((a << (start & np.uint64(255))) & mask)


def _leading(mods, a):
    kind = mods[-1].replace("b", "u")
    size = 8 * width(kind)
    return np.array([size - int(v).bit_length() for v in seen(a, kind)], np.uint64)


def _ones(mods, a):
    return np.array([int(v).bit_count() for v in seen(a, mods[-1].replace("b", "u"))], np.uint64)


def _reversed(mods, a):
    width = int(mods[-1][1:])
    return np.array([int(f"{int(v):0{width}b}"[::-1], 2) for v in seen(a, f"u{width}")], np.uint64)


def _convert(mods, *operands):
    *how, target, source = mods
    if target.endswith("x2"):
        return _convert_pair(how, target[:-2], source, operands)
    value = seen(operands[0], source)
    if target == "tf32":  # to nearest, away from zero
        return operands[0] + np.uint64(0x1000) & np.uint64(0xFFFFE000)
    if is_float(target):
        if "rni" in how or "rzi" in how or "rmi" in how or "rpi" in how:
            value = _integral(how, value)
        return bits_of(_to_float(how, value, target))
    if is_float(source):
        whole = _integral(how, value.astype(np.float64))
        limits = np.iinfo(KINDS[target])
        whole = np.where(np.isnan(whole), 0, whole)
        inside = np.clip(whole, float(limits.min), float(limits.max))
        made = [min(max(int(v), limits.min), limits.max) for v in inside]
        return bits_of(np.array(made, KINDS[target]))
    if "sat" in how:
        limits = np.iinfo(KINDS[target])
        value = np.clip(value, limits.min, limits.max)
    made = value.astype(KINDS[target])
    return made.astype(np.int64).view(np.uint64) if target[0] == "s" else bits_of(made)


def _to_float(how, value, target):
    if "rz" in how and KINDS[target] != np.float64:
        wide = value.astype(np.longdouble)  # exact of 64-bit integers, too
        made = wide.astype(KINDS[target])
        over = np.abs(made.astype(np.longdouble)) > np.abs(wide)
        raw = bits_of(made) - over.astype(np.uint64)
        return seen(raw, target)
    if target in ("e4m3", "e5m2") and value.dtype == np.float64:
        value = value.astype(np.float32)
    return value.astype(KINDS[target])


def _integral(how, value):
    fn = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    return next((fn[h](value) for h in how if h in fn), value)


def _convert_pair(how, target, source, operands):
    if source.endswith("x2"):
        halves = [
            seen(operands[0] >> np.uint64(8 * width(source[:-2]) * i), source[:-2]) for i in (0, 1)
        ]
    else:
        halves = [seen(v, source) for v in reversed(operands)]  # the first is the upper half
    size = np.uint64(8 * width(target))
    made = []
    for half in halves:
        value = half.astype(np.float32)
        if "satfinite" in how:
            limit = 448.0 if target == "e4m3" else 57344.0
            value = np.clip(value, -limit, limit)
        made.append(bits_of(_to_float(how, value, target)))
    return made[0] | made[1] << size


COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip


def compared(mods, a, b):
    """Predicates; comparisons of floats that end in "u" hold for what is not a number as well."""
    name, kind = mods[0], mods[-1]
    kind = kind.replace("b", "u") if kind[0] == "b" and kind != "bf16" else kind
    x, y = seen(a, kind), seen(b, kind)
    nan = (np.isnan(x) | np.isnan(y)) if is_float(kind) else np.zeros(len(x), bool)
    if name == "num":
        return ~nan
    if name == "nan":
        return nan
    if name in COMPARISONS:
        return COMPARISONS[name](x, y) & ~nan if name != "ne" or is_float(kind) else x != y
    return COMPARISONS[name[:-1]](x, y) | nan


def _near(fn):
    def run(mods, kind, a):
        return fn(a.astype(np.float64)).astype(a.dtype)

    return _typed(run)


def _bitwise(fn):
    def run(mods, *operands):
        return bits_of(fn(*(seen(v, mods[-1].replace("b", "u")) for v in operands)))

    return run


OPERATIONS = {
    "add": _typed(lambda m, k, a, b: a + b),
    "sub": _typed(lambda m, k, a, b: a - b),
    "mul": _typed(_multiply), "mad": _mad, "fma": _typed(_fma, ("sat",)),
    "div": _typed(_divided), "rem": _typed(_remainder),
    "abs": _typed(lambda m, k, a: np.abs(a)), "neg": _typed(lambda m, k, a: (-a).astype(a.dtype)),
    "min": _typed(_bounded(np.minimum, np.fmin, np.minimum), ("relu",)),
    "max": _typed(_bounded(np.maximum, np.fmax, np.maximum), ("relu",)),
    "copysign": _typed(lambda m, k, a, b: np.copysign(b, a)),
    "and": _bitwise(np.bitwise_and), "or": _bitwise(np.bitwise_or), "xor": _bitwise(np.bitwise_xor),
    "not": _bitwise(np.bitwise_not),
    "shl": _shift_left, "shr": _shift_right, "shf": _funnel, "prmt": _permuted,
    "bfe": _extracted, "bfi": _inserted, "clz": _leading, "popc": _ones, "brev": _reversed, "cvt": _convert,
    "ex2": _near(np.exp2), "lg2": _near(np.log2), "rcp": _near(lambda a: 1 / a),
    "sqrt": _near(np.sqrt), "rsqrt": _near(lambda a: 1 / np.sqrt(a)), "sin": _near(np.sin),
    "cos": _near(np.cos), "tanh": _near(np.tanh),
}  # fmt: skip
