"""Wrong uses of `jit`, `autotune` and `heuristics` give one clear error or warning, at the line of the caller."""

import functools
import warnings

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import KernelTypeError, LaunchError


def scale(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2.0, mask=offsets < n)


CONFIGS = [tw.Config({"BLOCK": 16})]


@pytest.mark.parametrize("given", [int, len, 3, KernelTypeError, functools.partial(scale, 1)])
def test_jit_takes_functions_only(given):
    with pytest.raises(KernelTypeError, match="jit expects a Python function"):
        tw.jit(given)


@pytest.mark.parametrize(
    "decorator",
    [tw.autotune(configs=CONFIGS, key=["n"]), tw.heuristics({"BLOCK": lambda _: 16})],
)
def test_jit_stands_next_to_the_function(decorator):
    with pytest.raises(KernelTypeError, match="@autotune and @heuristics stand above it"):
        tw.jit(decorator(tw.jit(scale)))
    with pytest.raises(LaunchError, match="expects a kernel, got <function scale"):
        decorator(scale)


@pytest.mark.parametrize("option", ["do_not_specialize", "do_not_specialize_on_alignment"])
@pytest.mark.parametrize("name", ["m", 3])
def test_unknown_names_are_warned_of(option, name):
    with pytest.warns(UserWarning, match=f"jit: {option} names {name!r}") as caught:
        tw.jit(**{option: ["n", 0, name]})(scale)
    assert caught[0].filename == __file__


def test_unknown_keys_are_warned_of_at_the_line_of_the_caller():
    with pytest.warns(UserWarning, match="autotune: key names 'm'") as caught:
        tw.autotune(configs=CONFIGS, key=["n", "m"])(tw.jit(scale))
    assert caught[0].filename == __file__


def test_one_name_may_stand_without_a_list():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = tw.jit(do_not_specialize="n", noalias="x_ptr")(scale)
    assert kernel.do_not_specialize == ("n",)
    assert kernel.noalias == ("x_ptr",)
    x = np.zeros(16, np.float32)
    kernel[(1,)](x, 1, BLOCK=16)
    assert x.tolist() == [2.0] + [0.0] * 15


def test_negated_views_are_rejected():
    torch = pytest.importorskip("torch")
    x = torch.complex(torch.ones(16), torch.ones(16)).conj().imag
    with pytest.raises(LaunchError, match=r"pass x\.resolve_neg\(\)"):
        tw.jit(scale)[(1,)](x, 16, BLOCK=16)
