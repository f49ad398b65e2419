"""The transfer functions of the fact analysis are sound: exhaustively at small widths, sampled at large ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.passes.analysis import enumeration
from tests.passes.analysis.enumeration import ANY, PROMISES, QUESTIONS, SPECIFICATIONS

from tilewright.passes.analysis.facts import lattice, transfer

pytestmark = pytest.mark.sampled(3, full=2)

WIDTHS = ((4, 40), (5, 20), (8, 4))
"""Bits, and how many abstract operands are tried in pairs."""


@pytest.mark.parametrize(("bits", "count"), WIDTHS)
@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_results_hold(name, bits, count):
    assert enumeration.counterexample(name, bits, count) is None


OPENNESS = {
    "add": 425352,
    "sub": 430588,
    "mul": 427216,
    "shift_left": 565940,
    "shift_right_signed": 278083,
    "shift_right_unsigned": 275488,
    "divide_signed": 429056,
    "divide_unsigned": 153115,
    "remainder_signed": 419373,
    "remainder_unsigned": 186792,
    "bit_and": 129586,
    "bit_or": 167735,
    "bit_xor": 231962,
    "minimum_signed": 149509,
    "maximum_signed": 130491,
    "minimum_unsigned": 118643,
    "maximum_unsigned": 144335,
    "signed_sum_wraps": 781,
    "signed_difference_wraps": 746,
    "signed_product_wraps": 996,
    "signed_shift_wraps": 1168,
    "absolute": 17326,
    "extend_signed": 74916,
    "extend_unsigned": 23794,
    "truncate": 7418,
    "compare": 165795,
    "lattice": 3149632,
}
"""How much the results leave open at 4 bits (`enumeration.openness`): the analysis knows no less than this."""


@pytest.mark.parametrize("name", OPENNESS)
def test_results_are_precise(name):
    module = lattice if name == "lattice" else transfer
    assert enumeration.openness(name, module) == OPENNESS[name]


@pytest.mark.parametrize(("bits", "count"), WIDTHS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_wrapping_is_noticed(name, bits, count):
    assert enumeration.wrong_answer(name, bits, count) is None


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_conversions_hold(bits):
    assert enumeration.wrong_conversion(bits) is None


@pytest.mark.parametrize(("bits", "count"), ((1, 9), (4, 16), (6, 8)))
def test_comparisons_hold(bits, count):
    assert enumeration.wrong_comparison(bits, count) is None


@pytest.mark.parametrize("bits", [4, 5])
def test_lattice(bits):
    """Joins and widenings contain both operands, meets what is in both; widening ends."""
    facts = enumeration.sample(bits, 60)
    for a in facts:
        for b in facts:
            both = enumeration.members(a) | enumeration.members(b)
            common = enumeration.members(a) & enumeration.members(b)
            for larger in (lattice.join(a, b), lattice.widen(a, lattice.join(a, b))):
                assert not (both & ~enumeration.members(larger)).any()
            if common.any():
                assert not (common & ~enumeration.members(lattice.meet(a, b))).any()
    for a in facts:
        steps, current = 0, a
        for b in facts * 2:
            following = lattice.widen(current, lattice.join(current, b))
            steps += following != current
            current = following
        assert steps <= 4 + bits


@st.composite
def described(draw, bits):
    """A value and a fact that holds of it."""
    half = 1 << bits - 1
    near = (
        st.integers(-half, half - 1)
        | st.integers(-9, 9)
        | st.sampled_from([-half, half - 1, 1 << 16, 64])
    )
    value = draw(near) << draw(st.sampled_from([0, 0, 0, 4, 16]))
    value = (value + half) % (2 * half) - half
    ends = [draw(near), draw(near), value]
    fact = lattice.signed_range(bits, min(ends), max(ends))
    if draw(st.booleans()):
        unsigned = [e % (2 * half) for e in ends]
        fact = lattice.meet(fact, lattice.unsigned_range(bits, min(unsigned), max(unsigned)))
    zeros = draw(st.integers(0, lattice.trailing_zeros(value % (2 * half), bits)))
    fact = lattice.meet(fact, lattice.multiple(zeros, bits))
    assert fact.contains(value)
    return value, fact


@pytest.mark.parametrize("bits", [32, 64])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_wide_results_hold(bits, data):
    (x, a), (y, b) = data.draw(described(bits)), data.draw(described(bits))
    p, q = x % (1 << bits), y % (1 << bits)
    for name, meaning in SPECIFICATIONS.items():
        number = meaning(p, q, bits) if not (name == "shift_left" and q >= bits) else ANY
        if number == ANY:
            continue
        function = getattr(transfer, name)
        assert function(a, b).contains(number), name
        if name in PROMISES and PROMISES[name](p, q, bits):
            assert function(a, b, True).contains(number), name
    for name, meaning in QUESTIONS.items():
        assert getattr(transfer, name)(a, b) or not meaning(p, q, bits), name
