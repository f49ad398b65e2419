"""Functions that random programs call: to combine elements, and with constants as arguments."""

FUNCTIONS = {
    "larger": """@jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


""",
    "recur": """@jit
def recur(a, b, c, d):
    return a * c, b * c + d


""",
    "either": """@jit
def either(a, b):
    return a ^ b


""",
    "lowest": """@jit
def lowest(a, b):
    return tl.minimum(a, b)


""",
    "spread": """@jit
def spread(a, b, c, d, e, f):
    return tl.minimum(a, d), tl.maximum(b, e), c + f


""",
    "mixed": """@jit
def mixed(v, other, MODE: tl.constexpr, TIMES: tl.constexpr):
    if MODE == 0:
        return v - other
    for i in tl.static_range(TIMES):
        v = v + other * (i - 1)
    return v


""",
    "twice": """@jit
def twice(v, limit):
    if limit > 3:
        return v + v
    return v - 1


""",
}
"""Name -> source. A name is a helper's own."""
