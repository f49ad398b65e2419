"""Random programs of integers of every width in tiles of up to four dimensions agree in all engines."""

import os
import random

import pytest
from tests.random.engines import compare, save
from tests.random.tile_programs import generate

pytestmark = pytest.mark.sampled(8)

PROGRAMS = int(os.environ.get("TILEWRIGHT_TILE_PROGRAMS", "24"))
FIRST = int(os.environ.get("TILEWRIGHT_TILE_SEED", "0"))
FOUND = os.environ.get("TILEWRIGHT_FOUND_PROGRAMS", "")
"""Where scripts of programs that differ go; else with the test's temporary files."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_engines_agree(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    rng = random.Random(seed)
    program = generate(rng)
    options = (rng.choice(("sm_80", "sm_90a")), rng.choice((1, 2, 4, 8)), rng.randrange(1, 5))
    try:
        compare(program, *options)
    except Exception as error:
        path = save(program, options, error, FOUND or tmp_path)
        error.add_note(f"shown by: python {path}")
        raise
