"""Fit the polynomials of `semantics/special_tables.py` and print that file.

Each is a Chebyshev expansion of a function in extended precision, cut off where the rest no longer matters to
fp32 or fp64 and written in powers of the variable scaled to [-1, 1]. Needs mpmath.

    python scripts/fit_special.py > src/tilewright/semantics/special_tables.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 60
NODES = 64


def powers(f: Callable[[Any], Any], low: Any, high: Any, tolerance: Any) -> list[Any]:
    """Coefficients of f over [low, high] in t = (2 x - low - high) / (high - low), lowest power first."""
    at = [mp.cos(mp.pi * (2 * k + 1) / (2 * NODES)) for k in range(NODES)]
    values = [f((low + high) / 2 + (high - low) / 2 * x) for x in at]
    c = [
        2
        / mp.mpf(NODES)
        * sum(v * mp.cos(mp.pi * j * (2 * k + 1) / (2 * NODES)) for k, v in enumerate(values))
        for j in range(NODES)
    ]
    c[0] /= 2
    least = min(abs(v) for v in values)
    degree = next(d for d in range(2, NODES) if sum(map(abs, c[d + 1 :])) < tolerance * least)
    return in_powers(c[: degree + 1])


def in_powers(c: list[Any]) -> list[Any]:
    """A sum of Chebyshev polynomials as a polynomial."""
    t = [[mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]]
    while len(t) < len(c):
        following = [mp.mpf(0)] + [2 * v for v in t[-1]]
        for i, v in enumerate(t[-2]):
            following[i] -= v
        t.append(following)
    result = [mp.mpf(0)] * len(c)
    for factor, polynomial in zip(c, t, strict=False):
        for i, v in enumerate(polynomial):
            result[i] += factor * v
    return result


def unscaled(c: list[Any], low: Any, high: Any) -> list[Any]:
    """The polynomial in x itself, for one whose coefficients are then all positive."""
    a, b = 2 / (high - low), -(high + low) / (high - low)
    result = [c[-1]]
    for value in reversed(c[:-1]):
        shifted = [mp.mpf(0)] + [a * v for v in result]
        for i, v in enumerate(result):
            shifted[i] += b * v
        shifted[0] += value
        result = shifted
    return result


def inverse_erf(w: Any) -> Any:
    """erfinv(x) / x where 1 - x^2 = e^-w."""
    x = mp.sqrt(-mp.expm1(-w))
    q = mp.exp(-w) / (1 + x)  # 1 - x
    start = mp.sqrt(w) * mp.mpf("0.9") if w > 1 else x * mp.mpf("0.886")
    return mp.findroot(lambda z: mp.log(mp.erfc(z)) - mp.log(q), start) / x


def scaled_erfc(q: Any) -> Any:
    """(1 + 2x) e^(x^2) erfc(x) where q = (x - 3) / (x + 3)."""
    x = 3 * (1 + q) / (1 - q)
    if x < 50:
        return (1 + 2 * x) * mp.erfc(x) * mp.exp(x * x)
    series = sum(mp.fac2(2 * n - 1) * (-1 / (2 * x * x)) ** n for n in range(1, 12)) + 1
    return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * series


def bessel_near(n: int) -> Callable[[Any], Any]:
    """i0(x) or i1(x) / (x / 2) where t = (x / 2)^2."""
    return lambda t: mp.besseli(n, 2 * mp.sqrt(t)) / mp.sqrt(t) ** n


def bessel_far(n: int) -> Callable[[Any], Any]:
    """e^-x sqrt(x) i_n(x) where r = 1 / x."""
    return lambda r: mp.besseli(n, 1 / r) * mp.exp(-1 / r) * mp.sqrt(1 / r)


def main() -> None:
    root = lambda s: inverse_erf(s * s) / s  # noqa: E731
    six = mp.sqrt(6)
    pieces = {
        "ERFINV": ("32 64", inverse_erf, mp.mpf(10) ** -30, mp.mpf(6)),
        "ERFINV_ROOT": ("32 64", root, six, mp.mpf(4)),
        "ERFINV_FAR": ("32", root, mp.mpf(4), mp.mpf("10.4")),
        "ERFINV_FAR_64": ("64", root, mp.mpf(4), mp.mpf(8)),
        "ERFINV_LAST_64": ("64", root, mp.mpf(8), mp.mpf("27.4")),
        "ERFCX": ("32 64", scaled_erfc, mp.mpf(-1), mp.mpf(1)),
        "I0": ("32 64", bessel_near(0), mp.mpf(0), mp.mpf(16)),
        "I1": ("32 64", bessel_near(1), mp.mpf(0), mp.mpf(16)),
        "I0_FAR": ("32 64", bessel_far(0), mp.mpf(1) / 720, mp.mpf(1) / 8),
        "I1_FAR": ("32 64", bessel_far(1), mp.mpf(1) / 720, mp.mpf(1) / 8),
    }
    print(
        '"""Polynomials of special functions: (low, high, coefficients), made by `scripts/fit_special.py`."""'
    )
    print("\n# fmt: off")
    for name, (widths, f, low, high) in pieces.items():
        start, end = low, high
        for width in widths.split():
            low, high = start, end
            c = powers(f, low, high, mp.mpf(2) ** (-27 if width == "32" else -57))
            if name in ("I0", "I1"):
                c, low, high = unscaled(c, low, high), mp.mpf(-1), mp.mpf(1)
            digits = 10 if width == "32" else 18
            stem = name.removesuffix("_64")
            print(f"{stem}_{width} = ({mp.nstr(low, 18)}, {mp.nstr(high, 18)}, (")
            texts = [mp.nstr(v, digits, min_fixed=1, max_fixed=0) for v in c]
            for i in range(0, len(texts), 4):
                print(f"    {', '.join(texts[i : i + 4])},")
            print("))")


if __name__ == "__main__":
    main()
