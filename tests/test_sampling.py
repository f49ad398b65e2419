"""The mark `sampled`: which cases of a test `make test` runs."""

from itertools import product
from types import SimpleNamespace

import pytest
from tests.conftest import _sample


class Case:
    def __init__(self, **params):
        self.callspec = SimpleNamespace(params=params)


@pytest.mark.parametrize("count", [1, 4, 12, 23])
def test_each_value_of_each_parameter_is_in_the_sample(count):
    targets, shapes = ["sm_80", "sm_90a"], [(1, 2), (3, 4), (5, 6), (7, 8)]
    cases = [Case(target=t, shape=s, number=n) for t, s, n in product(targets, shapes, range(5))]
    kept = _sample(cases, count)
    assert count <= len(kept) <= max(count, 5 if count >= 4 else 1)
    assert kept == _sample(cases, count)
    for name, values in (("target", targets), ("shape", shapes), ("number", range(5))):
        if len(values) <= count:
            assert {case.callspec.params[name] for case in kept} == set(values)


def test_a_list_of_cases_is_thinned():
    cases = [Case(case=object()) for _ in range(60)]
    assert len(_sample(cases, 15)) == 15
