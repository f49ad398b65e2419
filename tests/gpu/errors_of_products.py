"""How far a product of tensor cores may be from float64."""

from __future__ import annotations

#: an instruction adds 16 products of fp16 or bf16 (8-bit elements: more) to the sums
_STEP = 16


def assert_product(c, a, b, *, added=None, roundings=()):
    """Each element of `c` [M, N] is near that of `a` [M, K] times `b` [K, N], both exact in their types.

    An instruction may drop what lies two bits below fp32's last place of the largest term, so that a step
    of k costs 2^-21 of the sum of magnitudes at most. `added`: an array that the sums began with.
    `roundings`: dtypes that the sums are rounded to, one after the other, half an ulp each.
    """
    import torch

    a, b = a.double(), b.double()
    wanted, magnitudes = a @ b, a.abs() @ b.abs()
    if added is not None:
        wanted, magnitudes = wanted + added.double(), magnitudes + added.double().abs()
    allowed = (-(-a.shape[1] // _STEP) + 1) * 2.0**-21 * magnitudes
    for dtype in roundings:
        allowed = allowed + torch.finfo(dtype).eps / 2 * (wanted.abs() + allowed)
    over = (c.double() - wanted).abs() - allowed
    assert bool((over <= 0).all()), f"{float(over.max()):.3g} over what is allowed"
