"""Fit the polynomials of `backends/llvm/math` (weighted least squares, iterated to minimax).

Run it to print the coefficients that stand in the source, lowest power first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def minimax(
    target: Callable[[np.ndarray], np.ndarray],
    weight: Callable[[np.ndarray], np.ndarray],
    low: float,
    high: float,
    degree: int,
) -> tuple[list[float], float]:
    """Coefficients of p with |p - target| * weight nearly level on [low, high], and that maximum."""
    nodes = np.cos(np.pi * (np.arange(6000) + 0.5) / 6000)
    x = nodes * (high - low) / 2 + (high + low) / 2
    y, w = target(x), weight(x)
    basis = np.stack([x**k for k in range(degree + 1)], 1) * w[:, None]
    level = np.ones_like(x)
    for _ in range(300):
        c = np.linalg.lstsq(basis * np.sqrt(level)[:, None], y * w * np.sqrt(level), rcond=None)[0]
        error = np.abs(basis @ c - y * w)
        level *= error / error.max() + 1e-3
        level /= level.sum()
    return list(c), float(error.max())


def main() -> None:
    half = math.log(2) / 2 * 1.0001
    erf = np.vectorize(math.erf)
    erfc = np.vectorize(math.erfc)
    one = np.ones_like
    fits = {
        # exp(r) = 1 + r + r^2 p(r)
        "EXP": (lambda x: (np.expm1(x) - x) / x**2, lambda x: x**2, -half, half, 4),
        # e^r - 1 = r + r^2 p(r)
        "EXPM1": (lambda x: (np.expm1(x) - x) / x**2, lambda x: np.abs(x**2 / np.expm1(x)), -half, half, 5),
        # arctan(x) = x p(x^2), arcsin(x) = x p(x^2)
        "ATAN": (lambda z: np.arctan(np.sqrt(z)) / np.sqrt(z), one, 1e-12, 1.0, 12),
        "ASIN": (lambda z: np.arcsin(np.sqrt(z)) / np.sqrt(z), one, 1e-12, 0.25, 9),
        # 2^r = 1 + r p(r)
        "EXP2": (lambda x: np.expm1(x * math.log(2)) / x, lambda x: np.abs(x), -0.5001, 0.5001, 5),
        # log(1 + f) = f - f^2/2 + f^3 p(f)
        "LOG": (
            lambda x: (np.log1p(x) - x + x**2 / 2) / x**3,
            lambda x: np.abs(x**3 / np.log1p(x)),
            math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8,
        ),
        # the same for 1 + f in [2/3, 4/3): LOG of `math/ptx`
        "LOG of ptx": (
            lambda x: (np.log1p(x) - x + x**2 / 2) / x**3,
            lambda x: np.abs(x**3 / np.log1p(x)),
            -1 / 3, 1 / 3, 7,
        ),
        # log(1 + f) = t + t v p(v), t = 2 f / (2 + f), v = t^2, 1 + f in [sqrt(1/2), sqrt(2)): POW of `math/ptx`
        "POW of ptx": (
            lambda v: (2 * np.arctanh(np.sqrt(v) / 2) / np.sqrt(v) - 1) / v, lambda v: v,
            1e-3, 0.3435**2, 3,
        ),
        # sin(r) = r + r z p(z), z = r^2
        "SIN": (lambda z: (np.sin(np.sqrt(z)) / np.sqrt(z) - 1) / z, lambda z: z, 1e-9, (math.pi / 4) ** 2 * 1.001, 3),
        # cos(r) = 1 - z/2 + z^2 p(z)
        "COS": (lambda z: (np.cos(np.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, 1e-4, (math.pi / 4) ** 2 * 1.001, 3),
        # tanh(x) = x + x z p(z) for |x| < 0.625
        "TANH": (lambda z: (np.tanh(np.sqrt(z)) / np.sqrt(z) - 1) / z, lambda z: z, 1e-9, 0.391, 4),
        # erf(x) = x + x p(z) for |x| < 0.92
        "ERF_SMALL": (lambda z: erf(np.sqrt(z)) / np.sqrt(z) - 1, one, 1e-12, 0.8465, 5),
        # erf(x) = 1 - exp(-(x p(x))) for x in [0.92, 4]
        "ERF_LARGE": (lambda x: -np.log(erfc(x)) / x, lambda x: x * erfc(x) / erf(x), 0.9199, 4.0, 7),
        # log2 of the normal distribution's tail Φ(-x), in x Φ(x): `generator/epilogue.py`
        "TAIL": (
            lambda x: np.log2(erfc(x * math.sqrt(0.5)) / 2), lambda x: erfc(x * math.sqrt(0.5)) / 2,
            0.0, 5.5, 7,
        ),
    }  # fmt: skip
    for name, (target, weight, low, high, degree) in fits.items():
        coefficients, error = minimax(target, weight, low, high, degree)
        print(f"{name} = ({', '.join(f'{c:.10e}' for c in coefficients)})  # {error:.1e}")


if __name__ == "__main__":
    main()
