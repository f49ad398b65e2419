"""Random programs give the same results in the interpreter and as native code."""

import os
import random

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.interpreter.compare import run_on_copies
from tilewright.language.kernel_function import KernelFunction
from tilewright.testing.random_programs import generate

PROGRAMS = int(os.environ.get("TILEWRIGHT_RANDOM_PROGRAMS", "300"))
SHARDS = 10
TYPES = {"float32": dtypes.float32, "float16": dtypes.float16, "float64": dtypes.float64,
         "int32": dtypes.int32, "bfloat16": dtypes.bfloat16}  # fmt: skip


def interpreted(program):
    signature = {}
    for name, value in program.arguments.items():
        is_array = isinstance(value, np.ndarray)
        signature[name] = dtypes.pointer_type(TYPES[str(value.dtype)]) if is_array else dtypes.int32
    signature.update({name: constexpr(value) for name, value in program.constants.items()})
    module = build(KernelFunction(program.function()), signature).module
    return run_on_copies(module, list(program.arguments.values()), program.grid)


def native(program):
    copies = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in program.arguments.items()
    }
    tw.jit(program.function())[program.grid](*copies.values(), **program.constants)
    return [value for value in copies.values() if isinstance(value, np.ndarray)]


def check(program):
    for a, b in zip(interpreted(program), native(program), strict=True):
        if a.dtype == np.int32:
            np.testing.assert_array_equal(a, b, err_msg=program.source)
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = x[np.isfinite(x)]
        scale = max(1.0, float(np.abs(finite).max()) if finite.size else 1.0)
        np.testing.assert_allclose(
            x, y, rtol=program.tolerance, atol=program.tolerance * scale, err_msg=program.source
        )


@pytest.mark.parametrize("shard", range(SHARDS))
def test_interpreter_and_native_code_agree(shard, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")

    @settings(
        max_examples=max(1, PROGRAMS // SHARDS),
        deadline=None,
        database=None,
        derandomize=False,
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
    assert ml_dtypes.bfloat16 is not None
