"""Random programs agree in the interpreter of the IR, as native code, on the PTX emulator and, some of them, as Python.

They are of integers of every width in tiles of up to four dimensions (`tile`), over rows (`row`), loops with products
(`product`), and of wrapping arithmetic and in-place accesses (`memory`).
"""

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.random import memory_programs, product_programs, row_programs, tile_programs
from tests.random.engines import compare, save

FAMILIES = {"tile": tile_programs, "row": row_programs, "product": product_programs}
FOUND = os.environ.get("TILEWRIGHT_FOUND_PROGRAMS", "")
"""Where scripts of programs that differ go; else with the test's temporary files."""


def count(family, usual):
    """How many programs of a family to try."""
    return int(os.environ.get(f"TILEWRIGHT_{family.upper()}_PROGRAMS", usual))


def seeds(family, usual):
    first = int(os.environ.get(f"TILEWRIGHT_{family.upper()}_SEED", "0"))
    return [(family, first + i) for i in range(count(family, usual))]


SHARDS = max(4, count("memory", 24) // 50)


@pytest.fixture
def agree(tmp_path, monkeypatch):
    """Compares the engines, and writes a script where they differ."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))

    def check(program, *options, **engines):
        try:
            compare(program, *options, **engines)
        except Exception as error:
            path = save(program, options, error, FOUND or tmp_path)
            error.add_note(f"shown by: python {path}")
            raise

    return check


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "family, seed", [*seeds("tile", 24), *seeds("row", 12), *seeds("product", 12)]
)
def test_engines_agree(family, seed, agree):
    rng = random.Random(seed)
    program = FAMILIES[family].generate(rng)
    options = (rng.choice(("sm_80", "sm_90a")), rng.choice((1, 2, 4, 8)), rng.randrange(1, 5))
    agree(program, *options, **({} if family == "tile" else {"engines": ("", "ptx")}))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_engines_agree_on_memory(shard, agree):
    @settings(
        max_examples=max(1, count("memory", 24) // SHARDS),
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
        program = memory_programs.generate(random.Random(number * SHARDS + shard))
        agree(program, target, warps, stages)

    run()


@pytest.mark.parametrize("programs", [memory_programs, product_programs, row_programs])
def test_generation_is_reproducible(programs):
    assert programs.generate(random.Random(5)) == programs.generate(random.Random(5))
