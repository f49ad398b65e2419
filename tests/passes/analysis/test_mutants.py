"""The enumeration notices mistakes in the fact analysis: each mutant is wrong somewhere, or knows less.

A mutant is killed by the checks of `enumeration`: an unsound result, or results that allow more (or fewer) values
than those of the analysis. Some mutants compute the same; `EQUIVALENT` says why.
"""

import pytest
from tests.passes.analysis import enumeration
from tests.passes.analysis.equivalent import EQUIVALENT
from tests.passes.analysis.mutants import load, mutants, transfer_on
from tests.passes.analysis.test_transfer import OPENNESS

from tilewright.passes.analysis.facts import lattice, transfer

#: helpers of `transfer` -> the functions that use them; other functions use none
USERS = {
    "_sum": ("add", "mul", "shift_left"),
    "_leaves": ("signed_sum_wraps", "signed_product_wraps", "signed_shift_wraps"),
    "_quotient": ("divide_signed",),
    "_exact_zeros": ("divide_signed", "divide_unsigned"),
    "_divisor": ("divide_signed", "remainder_signed"),
}
SMALL = 8
"""Abstract operands tried in pairs at 4 bits, beside the usual ones."""
BY_LATTICE = ("bit_and", "remainder_signed", "shift_right_unsigned", "mul")
"""Functions that are tried on a mutant of the lattice, too."""


def _is_wrong(name, module):
    if name in enumeration.CONVERSIONS:
        return enumeration.wrong_conversion(4, module) is not None
    if name == "compare":
        return enumeration.wrong_comparison(4, SMALL, module) is not None
    if name in enumeration.QUESTIONS:
        return enumeration.wrong_answer(name, 4, SMALL, module) is not None
    return enumeration.counterexample(name, 4, SMALL, module) is not None


def is_killed(function, make_tree, of_lattice):
    """Whether the checks of `test_transfer` notice a mutant of `function`."""
    names = USERS.get(function, (function,))
    try:
        module = load(make_tree(), "mutant")
        if of_lattice:
            if enumeration.openness("lattice", module) != OPENNESS["lattice"]:
                return True
            if enumeration.wrong_lattice(module) is not None:
                return True
            module, names = transfer_on(module), BY_LATTICE
        return any(
            enumeration.openness(name, module) != OPENNESS[name] or _is_wrong(name, module)
            for name in names
        )
    except Exception:  # a mutant that fails is noticed
        return True


CASES = [
    (name, function, make_tree, module is lattice)
    for module in (transfer, lattice)
    for function, name, make_tree in mutants(module)
]


def survivors(cases):
    return [
        name
        for name, function, make_tree, of_lattice in cases
        if not is_killed(function, make_tree, of_lattice)
    ]


@pytest.mark.slow
def test_mistakes_are_noticed():
    """One mutant in seven, from all functions."""
    some = CASES[::7]
    assert len(some) >= 100
    assert [name for name in survivors(some) if name not in EQUIVALENT] == []


@pytest.mark.long
def test_all_mistakes_are_noticed():
    assert [name for name in survivors(CASES) if name not in EQUIVALENT] == []
