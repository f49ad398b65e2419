"""Correct kernels pass all checks, as Python and as IR."""

import numpy as np
import pytest
from tests.debug import correct_kernels


@pytest.mark.parametrize("case", correct_kernels.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("interpret", ["1", "ir"])
def test_all_checks_pass(case, interpret, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    monkeypatch.setenv("TILEWRIGHT_DEBUG_CHECKS", "all")
    result, expected = case()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
