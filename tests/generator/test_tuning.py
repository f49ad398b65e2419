"""The search around the model's choice and the tables of what it found, with invented times."""

import json
import math

import pytest
from benchmarks import tuning_search

from tilewright.backends import registry
from tilewright.dtypes import float16
from tilewright.errors import LaunchError
from tilewright.generator import Contraction, MatmulConfig, Operand, choice, tuning
from tilewright.generator.choice import configuration
from tilewright.generator.model import Workload, choose

HOPPER = registry.machine("sm_90a")
WORK = Workload(2048, 2048, 2048)


def test_candidates_stand_around_the_models_choice():
    found = tuning_search.candidates(WORK, HOPPER, configuration)
    model = configuration(choose(WORK, HOPPER).tiling)
    assert found[0] == model
    assert len(set(found)) == len(found) <= 16
    assert {c.num_stages for c in found} >= {model.num_stages - 1, model.num_stages + 1}
    assert len({(c.block_m, c.block_n, c.split_k) for c in found}) == 8
    assert any(c.persistent for c in found)


def test_the_best_is_measured_twice():
    configs = tuning_search.candidates(WORK, HOPPER, configuration)
    asked = []

    def measure(given):
        asked.append(list(given))
        # the third looks fastest at first and is not
        return [
            math.inf if c == configs[1] else 0.5 if c == configs[2] and len(asked) == 1
            else 0.8 if c == configs[3] else 1.0 for c in given
        ]  # fmt: skip

    result = tuning_search.tune(configs, measure)
    assert result.model == configs[0] and result.best == configs[3]
    assert result.ratio == pytest.approx(0.8)
    assert configs[2] in asked[1] and configs[0] in asked[1] and len(asked[1]) <= 5
    with pytest.raises(LaunchError, match="none of the configurations"):
        tuning_search.tune(configs, lambda given: [math.inf] * len(given))


def test_measured_tables_are_read():
    tables = list(tuning._FOLDER.glob("*.json"))
    entries = [e for t in tables for e in json.loads(t.read_text())["entries"].values()]
    assert entries
    for text in (entry[name] for entry in entries for name in ("config", "model")):
        assert MatmulConfig.from_text(text).text == text


def test_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "_FOLDER", tmp_path)
    tuning._table.cache_clear()
    assert tuning.found(WORK, "row row", HOPPER) is None
    model, best = MatmulConfig(), MatmulConfig(128, 256, 64, num_warps=8)
    result = tuning_search.Tuned(model, best, ((model, 2.0), (best, 1.0)))
    path = tmp_path / "some-gpu.json"
    key = tuning.key_of(WORK, "row row")
    tuning_search.write_table(path, HOPPER, {"device": "some GPU"}, {key: result})
    tuning_search.write_table(path, HOPPER, {"device": "some GPU"}, {"other": result})
    assert tuning.found(WORK, "row row", HOPPER) == best
    assert tuning.found(WORK, "row column", HOPPER) is None
    assert tuning.found(WORK, "row row", registry.machine("sm_80")) is None
    half = Operand(float16)
    contraction = Contraction(half, half, half)
    size = (2048, 2048, 2048, HOPPER)
    assert choice.choose(contraction, *size) == best
    assert choice.choose(contraction, *size, tuned=False) != best
    assert choice.explain(contraction, *size).endswith(f"and taken: {best.text}")
    assert "a vector" in choice.explain(contraction, 1, 2048, 2048, HOPPER)
    monkeypatch.undo()
    tuning._table.cache_clear()
