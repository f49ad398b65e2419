"""Pipeline text, switches, verification, observation."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.errors import PassError
from tilewright.ir.text import parse_ir
from tilewright.passes import base, manager, registry
from tilewright.passes.base import Pass, print_pipeline
from tilewright.passes.manager import run_pipeline, without_disabled
from tilewright.passes.pipeline import shared_passes
from tilewright.passes.registry import parse_pipeline
from tilewright.targets.info import GENERIC

TEXT = """
func.func @k(%p: !tile.ptr<i32>, %x: i32) {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  tile.store %p, %a : !tile.ptr<i32>, i32
  tile.store %p, %b : !tile.ptr<i32>, i32
  func.return
}
"""


@dataclass(frozen=True)
class Knobs(Pass):
    name: ClassVar[str] = "knobs"
    requires: ClassVar[tuple[str, ...]] = ("cse",)
    flag: bool = False
    factor: int = 1
    ratio: float = 0.5
    label: str = ""
    order: tuple[int, ...] = ()
    names: tuple[str, ...] = ("a",)

    def apply(self, module, target):
        pass


@dataclass(frozen=True)
class Break(Pass):
    name: ClassVar[str] = "break"
    requires: ClassVar[tuple[str, ...]] = ("knobs",)

    def apply(self, module, target):
        store = next(op for op in module.walk() if op.name == "tile.store")
        store.operands = [store.operands[1], store.operands[1]]


@pytest.fixture(autouse=True)
def knobs(monkeypatch):
    known = registry.lookup
    extra = {"knobs": Knobs, "break": Break}
    for module in (registry, manager):
        monkeypatch.setattr(module, "lookup", lambda name: extra.get(name) or known(name))


SHARED = shared_passes()  # imports the passes: not inside a strategy, which is timed
options = st.builds(
    Knobs,
    flag=st.booleans(),
    factor=st.integers(),
    ratio=st.floats(allow_nan=False),
    label=st.text(),
    order=st.lists(st.integers(), max_size=3).map(tuple),
    names=st.lists(st.text(), max_size=3).map(tuple),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(options | st.sampled_from(SHARED), max_size=4))
def test_pipeline_text_round_trip(passes):
    known = registry.lookup
    registry.lookup = lambda name: Knobs if name == "knobs" else known(name)
    try:
        assert registry.parse_pipeline(print_pipeline(passes)) == tuple(passes)
    finally:
        registry.lookup = known


def test_defaults_are_not_printed():
    assert (
        print_pipeline((Knobs(), Knobs(factor=4, order=(1, 2))))
        == "knobs,knobs{factor=4 order=1,2}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cze", "unknown pass 'cze'"),
        ("cse cse", "comma is missing"),
        ("knobs{colour=1}", "no option colour"),
        ("knobs{factor}", "has no value"),
        ("knobs{factor=x}", "is not of type int"),
        ("knobs{factor=1,2}", "takes one value"),
        ("knobs{factor=1", "not closed"),
        ("cse;licm", "cannot read"),
    ],
)
def test_bad_pipeline_text(text, message):
    with pytest.raises(PassError, match=message):
        registry.parse_pipeline(text)


def test_near_names_are_offered():
    with pytest.raises(PassError) as caught:
        registry.parse_pipeline("simplfy")
    assert "simplify" in caught.value.help


def test_disabling_drops_dependents():
    passes = (*registry.parse_pipeline("simplify,cse,knobs"), Break())
    left, dropped = without_disabled(passes, ["cse"])
    assert [p.name for p in left] == ["simplify"]
    assert dropped == ("cse", "knobs", "break")
    with pytest.raises(PassError, match="unknown pass"):
        without_disabled(passes, ["csee"])


def test_observer_and_stop_after():
    seen = []
    module = parse_ir(TEXT)
    result = run_pipeline(
        module,
        registry.parse_pipeline("cse,simplify,cse,licm"),
        GENERIC,
        observer=lambda name, seconds, changed, module: seen.append((name, changed)),
        stop_after="cse:2",
    )
    assert seen == [("cse", True), ("simplify", False), ("cse", False)]
    assert result.ran == ("cse", "simplify", "cse")
    with pytest.raises(PassError, match="does not have it"):
        run_pipeline(module, registry.parse_pipeline("cse"), GENERIC, stop_after="licm")


def test_a_pass_that_breaks_the_ir_is_named():
    with pytest.raises(PassError, match="after break"):
        run_pipeline(parse_ir(TEXT), (Break(),), GENERIC, verify="each")
    with pytest.raises(PassError, match="break"):
        run_pipeline(parse_ir(TEXT), (Break(),), GENERIC)


def test_shared_pipeline_has_no_options_that_differ_from_defaults():
    text = print_pipeline(shared_passes())
    assert registry.parse_pipeline(text) == shared_passes()
    assert all(dataclasses.is_dataclass(p) for p in shared_passes())
    assert base.tokenize(text)


@dataclass(frozen=True)
class Settles(Pass):
    name: ClassVar[str] = "settles"
    fallback_options: ClassVar[dict] = {"cse": {"wide": False, "depth": 2}, "licm": {"depth": 3}}
    wide: bool = True
    depth: int = 1

    def apply(self, module, target):
        pass


@dataclass(frozen=True)
class Needed(Settles):
    name: ClassVar[str] = "needed"
    mandatory_reason: ClassVar[str] = "nothing stands without it"


def test_passes_take_other_options_where_another_is_off():
    passes = (*parse_pipeline("cse,licm"), Settles())
    kept, _ = without_disabled(passes, ("cse",))
    assert kept[-1] == Settles(wide=False, depth=2) and kept[-1].spec.startswith("settles{")
    kept, _ = without_disabled(passes, ("licm",))
    assert kept[-1] == Settles(depth=3)
    kept, _ = without_disabled(passes, ())
    assert kept[-1] == Settles()


def test_a_pass_that_cannot_be_off():
    with pytest.raises(PassError, match="needed cannot be switched off: nothing stands without it"):
        without_disabled((Needed(),), ("needed",))


def test_an_entry_with_options_leaves_the_pass_in():
    passes = (*parse_pipeline("cse,licm"), Knobs(), Knobs(factor=3))
    known = registry.lookup
    registry.lookup = lambda name: Knobs if name == "knobs" else known(name)
    try:
        kept, dropped = without_disabled(passes, ('knobs{factor=7 label="x"}', "licm"))
        assert kept[1:] == (Knobs(factor=7, label="x"), Knobs(factor=7, label="x"))
        assert dropped == ("licm",)
        with pytest.raises(PassError, match="no option colour"):
            without_disabled(passes, ("knobs{colour=1}",))
    finally:
        registry.lookup = known
    with pytest.raises(PassError, match="unknown pass 'nobs'"):
        without_disabled(passes, ("nobs{factor=1}",))
