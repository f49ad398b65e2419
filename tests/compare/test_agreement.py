"""Copies of arguments, differences of results, and what counts as agreement."""

import math

import pytest

torch = pytest.importorskip("torch")

from tilewright.compare.agreement import Difference, compare_tensors, verdict  # noqa: E402
from tilewright.compare.snapshot import Copier, bytes_in  # noqa: E402


def test_copies_keep_strides_and_aliases():
    memory = torch.arange(24.0)
    a, b = memory[4:16].view(3, 4).t(), memory.to(torch.float64)
    c, d, (e,) = Copier()((a, b, (memory[:2],)))
    assert torch.equal(c, a) and c.stride() == a.stride()
    assert torch.equal(d, b)
    assert bytes_in((a, {"b": [b]})) == 12 * 4 + 24 * 8
    c.fill_(-1)
    assert memory[4] == 4
    assert e.untyped_storage().data_ptr() == c.untyped_storage().data_ptr()


def test_copies_of_inference_tensors_can_be_written_to():
    with torch.inference_mode():
        copy = Copier()(torch.ones(3))
    copy.zero_()
    assert not Copier()(copy).zero_().any()


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float8_e5m2", "complex64", "float64"])
def test_equal_values(dtype):
    x = torch.arange(8).to(getattr(torch, dtype))
    found = compare_tensors([x], [x.clone()])
    assert found is not None and found.error == 0 and found.excess == 0


@pytest.mark.parametrize(
    ("x", "y", "excess"),
    [
        ([1.0, math.nan, math.inf], [1.0, math.nan, math.inf], 0),
        ([1.0, 2.0], [1.0, math.nan], math.inf),
        ([math.inf], [-math.inf], math.inf),
        ([math.inf], [1.0], math.inf),
        ([0.0], [0.0], 0),
        ([1.0], [0.0], math.inf),
    ],
)
def test_special_values(x, y, excess):
    found = compare_tensors([torch.tensor(x)], [torch.tensor(y)])
    assert found is not None and found.excess == excess


def test_quantized_values():
    x = torch.arange(-120, 120)
    y = x.clone()
    y[60] += 1
    assert compare_tensors([x.to(torch.int8)], [y.to(torch.int8)]).excess < 1
    assert compare_tensors([x], [y]).excess == math.inf


def test_tolerance_by_type():
    x = torch.ones(100)
    near = compare_tensors([x * 1.001], [x])
    assert near is not None and 0 < near.excess < 1
    assert compare_tensors([x.double() * 1.001], [x.double()]).excess > 1
    assert compare_tensors([x.int() + 1], [x.int()]).excess == math.inf
    both = compare_tensors([x, x.int() + 1], [x, x.int()])
    assert both is not None and both.index == 1


def test_verdicts():
    good, bad = Difference(1e-4, 2e-3, 0, "float32"), Difference(0.1, 2e-3, 0, "float32")
    same, wrong = Difference(0.0, 0.0, 0, "int32"), Difference(1.0, 0.0, 0, "int32")
    assert verdict(None, None) == verdict(good, None) == verdict(same, same) == "agrees"
    assert verdict(bad, good) == verdict(wrong, same) == "differs"
    assert verdict(bad, bad) == verdict(wrong, wrong) == "nondeterministic"
