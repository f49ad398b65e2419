"""Deprecated spellings of passes, options, fields and command-line options still work, and warn."""

import dataclasses

import pytest

from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.passes import registry, renamed
from tilewright.passes.manager import without_disabled


@pytest.mark.parametrize("old", renamed.PASSES)
def test_every_old_name_of_a_pass_means_the_new_one(old):
    with pytest.warns(DeprecationWarning, match=f"'{old}' is now called"):
        assert registry.lookup(old).name == renamed.PASSES[old]


@pytest.mark.parametrize(
    ("name", "old"), [(name, old) for name, table in renamed.OPTIONS.items() for old in table]
)
def test_every_old_option_means_the_new_one(name, old):
    new = renamed.OPTIONS[name][old].replace("-", "_")
    fields = {f.name: f for f in dataclasses.fields(registry.lookup(name))}
    value = fields[new].default
    text = {True: "false", False: "true"}.get(value, 7) if isinstance(value, bool) else 7
    with pytest.warns(DeprecationWarning, match=f"'{old}' of pass '{name}' is now called"):
        (made,) = registry.parse_pipeline(f"{name}{{{old}={text}}}")
    assert getattr(made, new) != value


def test_passes_are_switched_off_by_their_old_names():
    with pytest.warns(DeprecationWarning, match="now called"):
        old, dropped = without_disabled(
            nvidia_passes(), ("store-boxes", "pipeline-loads{boxes=false}")
        )
    new, also = without_disabled(
        nvidia_passes(), ("lower-stores-to-tma", "pipeline-loads{tma=false}")
    )
    assert (old, dropped) == (new, also)


def test_new_names_do_not_warn(recwarn):
    assert renamed.current_specs(("simplify", "swizzle-shared{mode=pad}")) == (
        "simplify", "swizzle-shared{mode=pad}",
    )  # fmt: skip
    assert not [w for w in recwarn if issubclass(w.category, DeprecationWarning)]
