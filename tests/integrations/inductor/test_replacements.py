"""Functions of torch that are replaced, and restored."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import pytest

from tilewright.integrations.inductor.replacements import LoweringReplacement, Replacement, copied


class Base:
    def number(self):
        return 1


class Derived(Base):
    pass


def limited(device):
    if device == "cpu":
        return helper()
    return "general"


def helper():
    return "special"


def test_replacements(monkeypatch):
    module = ModuleType("tilewright_test_module")
    module.Derived, module.function = Derived, helper
    monkeypatch.setitem(sys.modules, module.__name__, module)
    method = Replacement(
        module.__name__, "Derived.number", lambda m, old: lambda self: old(self) + 1
    )
    function = Replacement(module.__name__, "function", lambda m, old: lambda: old() + "!")
    absent = Replacement(module.__name__, "Gone.number", lambda m, old: pytest.fail("made"))
    for _ in range(2):  # the second time does nothing
        for each in (method, function, absent):
            each.install()
    assert Derived().number() == 2 and Base().number() == 1 and module.function() == "special!"
    for each in (method, function, absent):
        each.uninstall()
    assert "number" not in vars(Derived) and Derived().number() == 1
    assert module.function is helper


def test_copies_of_functions():
    assert copied(limited, {"cpu": "none"})("cpu") == "general"
    assert copied(limited, helper=lambda: "ours")("cpu") == "ours"
    assert limited("cpu") == "special"
    with pytest.raises(LookupError, match="does not contain 'tpu'"):
        copied(limited, {"tpu": "none"})


def registered(decomp_fn):
    """As torch's `register_lowering` makes a lowering."""

    @functools.wraps(decomp_fn)
    def wrapped(*args):
        return decomp_fn(*args)

    return wrapped


def test_lowerings_are_replaced_behind_their_wrappers(monkeypatch):
    module = ModuleType("tilewright_test_lowerings")
    module.product = registered(limited)
    table = {"product": module.product}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    lowering = LoweringReplacement(
        module.__name__, "product", lambda m, old: lambda device: f"not {old(device)}"
    )
    lowering.install()
    lowering.install()
    assert table["product"]("cpu") == "not special"
    lowering.uninstall()
    assert table["product"]("cpu") == "special"
