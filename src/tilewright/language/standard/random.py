"""Counter-based random numbers (`tl.rand` …): Philox of Salmon et al., SC'11.

The number depends on `seed` and `offset` alone, so that results do not depend on the grid.
"""

# Written in the kernel language, whose constexpr annotations are no Python types:
# pyright: reportAssignmentType=false, reportRedeclaration=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

from tilewright.language import core as tl
from tilewright.language.kernel_function import KernelFunction

N_ROUNDS_DEFAULT = tl.constexpr(10)


@KernelFunction
def philox_impl(
    c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT
) -> Any:
    """`n_rounds` rounds of Philox-4x32 (or 4x64) on the counter `c0 … c3` with key `k0, k1`."""
    if c0.dtype == tl.uint32:
        key_a: tl.constexpr = 0x9E3779B9
        key_b: tl.constexpr = 0xBB67AE85
        round_a: tl.constexpr = 0xD2511F53
        round_b: tl.constexpr = 0xCD9E8D57
    else:
        tl.static_assert(c0.dtype == tl.uint64, "philox needs uint32 or uint64 counters")
        key_a: tl.constexpr = 0x9E3779B97F4A7C15
        key_b: tl.constexpr = 0xBB67AE8584CAA73B
        round_a: tl.constexpr = 0xD2E7470EE14C6C93
        round_b: tl.constexpr = 0xCA5A826395121157
    for _ in tl.static_range(n_rounds):
        high_b = tl.umulhi(c2, round_b)
        high_a = tl.umulhi(c0, round_a)
        low_b = c2 * round_b
        low_a = c0 * round_a
        c0 = high_b ^ c1 ^ k0
        c2 = high_a ^ c3 ^ k1
        c1 = low_b
        c3 = low_a
        k0 = k0 + key_a
        k1 = k1 + key_b
    return c0, c1, c2, c3


@KernelFunction
def philox(
    seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT
) -> Any:
    """Four tiles of random bits (uint32, or uint64 when the counters are 64-bit)."""
    seed = tl.to_tensor(seed)
    tl.static_assert(seed.dtype.is_int(), "the seed of random numbers must be an integer")
    c0 = tl.to_tensor(c0)
    c1 = tl.to_tensor(c1)
    c2 = tl.to_tensor(c2)
    c3 = tl.to_tensor(c3)
    seed = seed.to(tl.uint64)
    if c0.dtype.primitive_bitwidth == 32:
        kind: tl.constexpr = tl.uint32
        key_low = seed.to(tl.uint32)
        key_high = (seed >> 32).to(tl.uint32)
    else:
        tl.static_assert(c0.dtype.primitive_bitwidth == 64, "counters are 32- or 64-bit integers")
        kind: tl.constexpr = tl.uint64
        key_low = seed
        key_high = seed * 0
    return philox_impl(
        c0.to(kind), c1.to(kind), c2.to(kind), c3.to(kind), key_low, key_high, n_rounds
    )


@KernelFunction
def randint4x(seed: Any, offset: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT) -> Any:
    """Four uint32 tiles of random bits in the shape of `offset`: cheaper than four `randint`s."""
    offset = tl.to_tensor(offset)
    low = offset.to(tl.uint32)
    zero = low * 0
    if offset.dtype.primitive_bitwidth > 32:
        high = (offset >> 32).to(tl.uint32)
    else:
        high = zero
    return philox(seed, low, high, zero, zero, n_rounds)


@KernelFunction
def randint(seed: Any, offset: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT) -> Any:
    """uint32 random bits in the shape of `offset`."""
    a, _b, _c, _d = randint4x(seed, offset, n_rounds)
    return a


@KernelFunction
def uint_to_uniform_float(x: Any) -> Any:
    """Random bits to fp32 in [0, 1)."""
    if x.dtype.primitive_bitwidth == 32:
        bits = x.to(tl.int32, bitcast=True)
        scale: tl.constexpr = 4.6566127342e-10  # just below 2**-31, so that 1.0 cannot appear
    else:
        bits = x.to(tl.int64, bitcast=True)
        scale: tl.constexpr = 1.0842020432385337e-19
    bits = tl.where(bits < 0, -bits - 1, bits)
    return bits * scale


@KernelFunction
def rand(seed: Any, offset: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT) -> Any:
    """fp32 uniform in [0, 1) in the shape of `offset`."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@KernelFunction
def rand4x(seed: Any, offsets: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT) -> Any:
    """Four tiles of fp32 uniform in [0, 1)."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return (
        uint_to_uniform_float(a),
        uint_to_uniform_float(b),
        uint_to_uniform_float(c),
        uint_to_uniform_float(d),
    )


@KernelFunction
def pair_uniform_to_normal(u1: Any, u2: Any) -> Any:
    """Two uniform tiles to two normal ones (Box and Muller)."""
    u1 = tl.maximum(1.0e-7, u1)
    angle = 6.283185307179586 * u2
    radius = tl.sqrt(-2.0 * tl.log(u1))
    return radius * tl.cos(angle), radius * tl.sin(angle)


@KernelFunction
def randn(seed: Any, offset: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT) -> Any:
    """fp32 normal (mean 0, variance 1) in the shape of `offset`."""
    a, b, _c, _d = randint4x(seed, offset, n_rounds)
    first, _second = pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))
    return first


@KernelFunction
def randn4x(seed: Any, offset: Any, n_rounds: tl.constexpr = N_ROUNDS_DEFAULT) -> Any:
    """Four tiles of fp32 normal numbers."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(u1, u2)
    n3, n4 = pair_uniform_to_normal(u3, u4)
    return n1, n2, n3, n4


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name for name, value in globals().items() if isinstance(value, KernelFunction)
]
