"""Random programs give the same results in the interpreter and as native code."""

import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.random.programs import generate
from tests.run_on_copies import run_on_copies

import tilewright as tw
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(10)

PROGRAMS = int(os.environ.get("TILEWRIGHT_RANDOM_PROGRAMS", "90"))
SHARDS = max(6, PROGRAMS // 50)
"""Each of so few programs that a test ends long before its time is over, on a busy machine too."""


def interpreted(program):
    module = build(KernelFunction(program.function()), program.signature()).module
    return run_on_copies(module, list(program.arguments.values()), program.grid)


def native(program):
    copies = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in program.arguments.items()
    }
    tw.jit(program.function())[program.grid](*copies.values(), **program.constants)
    return [value for value in copies.values() if isinstance(value, np.ndarray)]


def check(program):
    program.compare(interpreted(program), native(program))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_interpreter_and_native_code_agree(shard, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")

    @settings(
        max_examples=max(1, PROGRAMS // SHARDS),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**40))
    def run(number):
        note(f"seed {number}")
        check(generate(random.Random(number * SHARDS + shard)))

    run()


def test_generation_is_reproducible():
    assert generate(random.Random(5)).source == generate(random.Random(5)).source


def test_values_fit_the_arrays():
    """`Writer.keep` raises where a statement makes a tile too large to be stored: once in 40,000 programs."""
    for seed in (6127187, *range(200)):
        generate(random.Random(seed))
