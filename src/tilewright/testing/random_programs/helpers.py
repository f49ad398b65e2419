"""Functions that random programs call: to combine elements, and with constants as arguments."""

FUNCTIONS = {
    "larger": """@tw.jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


""",
    "recur": """@tw.jit
def recur(a, b, c, d):
    return a * c, b * c + d


""",
    "either": """@tw.jit
def either(a, b):
    return a ^ b


""",
    "lowest": """@tw.jit
def lowest(a, b):
    return tl.minimum(a, b)


""",
    "spread": """@tw.jit
def spread(a, b, c, d, e, f):
    return tl.minimum(a, d), tl.maximum(b, e), c + f


""",
    "mixed": """@tw.jit
def mixed(v, other, MODE: tl.constexpr, TIMES: tl.constexpr):
    if MODE == 0:
        return v - other
    for i in tl.static_range(TIMES):
        v = v + other * (i - 1)
    return v


""",
    "twice": """@tw.jit
def twice(v, limit):
    if limit > 3:
        return v + v
    return v - 1


""",
}
"""Name -> source. A name is a helper's own."""
