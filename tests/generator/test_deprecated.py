"""Deprecated names of fields, forms and words of configurations are still understood."""

import dataclasses
import json
from pathlib import Path

import pytest

import tilewright.generator
from tilewright import dtypes
from tilewright.generator import Contraction, MatmulConfig, Operand
from tilewright.generator.config import Panels

NEW = MatmulConfig(
    1, 64, 8, 1, 4, 3, 2, persistent=True, use_tma=False, wgmma_rs=False, form="gemv",
    rows_per_load=8, tma_multicast=True,
)  # fmt: skip
OLD = {
    "block_m": 1, "block_n": 64, "block_k": 8, "group_m": 1, "num_warps": 4, "num_stages": 3,
    "split_k": 2, "persistent": True, "boxes": False, "through_registers": False, "form": "vector",
    "join_rows": 8, "pairs": True, "panels": None,
}  # fmt: skip


def test_stored_configurations_are_read_without_a_word(recwarn):
    assert MatmulConfig.from_dict(OLD) == NEW == MatmulConfig.from_dict(dataclasses.asdict(NEW))
    assert (
        MatmulConfig.from_text("1x64x8 g1 w4 s3 k2 j8 persistent pairs threads turned vector")
        == NEW
    )
    assert MatmulConfig.from_text(NEW.text) == NEW
    tables = list((Path(tilewright.generator.__file__).parent / "tuned").glob("*.json"))
    entries = [e for t in tables for e in json.loads(t.read_text())["entries"].values()]
    assert entries and all(MatmulConfig.from_dict(e["config"]) for e in entries)
    assert all(MatmulConfig.from_text(e["model"]) for e in entries)
    assert not [w for w in recwarn if issubclass(w.category, DeprecationWarning)]


def test_constructors_take_old_names_and_warn():
    with pytest.warns(DeprecationWarning, match="'boxes' is now called 'use_tma'"):
        assert MatmulConfig(boxes=False) == MatmulConfig(use_tma=False)
    with pytest.warns(DeprecationWarning, match="'vector' is now called 'gemv'"):
        assert MatmulConfig(1, 64, form="vector").form == "gemv"
    with pytest.warns(DeprecationWarning, match="'panels' is now called 'prepack'"):
        assert MatmulConfig(panels=Panels(32)).prepack == Panels(32)
    with pytest.warns(DeprecationWarning, match="'through_registers' is now called 'wgmma_rs'"):
        assert dataclasses.replace(NEW, through_registers=True).wgmma_rs
    with pytest.warns(DeprecationWarning, match="'join_rows' is now called 'rows_per_load'"):
        assert NEW.with_(join_rows=4).rows_per_load == 4
    half = Operand(dtypes.float16)
    with pytest.warns(DeprecationWarning, match="'scaled' is now called 'has_alpha'"):
        assert Contraction(half, half, half, scaled=True) == Contraction(
            half, half, half, has_alpha=True
        )


def test_old_attributes_are_read_and_warn():
    with pytest.warns(DeprecationWarning, match="'pairs' is now called 'tma_multicast'"):
        assert NEW.pairs
    half = Operand(dtypes.float16)
    with pytest.warns(DeprecationWarning, match="'units' is now called 'size_divisors'"):
        assert Contraction(half, half, half).units == ()
