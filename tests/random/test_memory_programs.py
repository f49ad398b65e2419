"""Random programs of wrapping arithmetic and in-place accesses agree in all engines."""

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.random.engines import compare, save
from tests.random.memory_programs import generate

pytestmark = pytest.mark.sampled(4)

PROGRAMS = int(os.environ.get("TILEWRIGHT_MEMORY_PROGRAMS", "24"))
SHARDS = max(4, PROGRAMS // 50)
FOUND = os.environ.get("TILEWRIGHT_FOUND_PROGRAMS", "")
"""Where scripts of programs that differ go; else with the test's temporary files."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_engines_agree(shard, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))

    @settings(
        max_examples=max(1, PROGRAMS // SHARDS),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.integers(0, 2**40),
        st.sampled_from(("sm_80", "sm_90a")),
        st.sampled_from((1, 2, 4, 8)),
        st.integers(1, 4),
    )
    def run(number, target, warps, stages):
        program = generate(random.Random(number * SHARDS + shard))
        options = (target, warps, stages)
        try:
            compare(program, *options)
        except Exception as error:
            path = save(program, options, error, FOUND or tmp_path)
            error.add_note(f"shown by: python {path}")
            raise

    run()


def test_generation_is_reproducible():
    assert generate(random.Random(5)) == generate(random.Random(5))
