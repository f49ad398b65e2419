"""What a kernel is called in machine code, where names are shorter of letters than in Python."""

from __future__ import annotations

#: C's mathematics, which code on a CPU calls; each also with the f of single precision
_MATHEMATICS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmod", "hypot", "ldexp", "lgamma", "log",
    "log10", "log1p", "log2", "pow", "remainder", "rint", "round", "roundeven", "sin", "sincos",
    "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
)  # fmt: skip
#: words of PTX, and functions that every kernel may call
_TAKEN = frozenset((
    "_", "WARP_SZ", "printf", "vprintf", "malloc", "free", "memcpy", "memmove", "memset", "abort",
    *_MATHEMATICS, *(f"{name}f" for name in _MATHEMATICS),
))  # fmt: skip


def symbol_of(name: str) -> str:
    """The symbol of a kernel called `name`: the name itself, unless that is taken or not ASCII.

    LLVM ends the process for letters that PTX does not have, and a kernel called `sinf` would take
    the place of the function.
    """
    plain = "".join(c if c.isascii() else f"_u{ord(c):x}" for c in name)
    taken = plain in _TAKEN or plain.startswith(("__nv_", "tw_"))
    return f"kernel_{plain}" if taken else plain
