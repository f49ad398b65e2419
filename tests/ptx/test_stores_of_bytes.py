"""Tiles of 8-bit elements are stored by TMA, too; a thread writes two neighbors of an accumulator at once."""

import ml_dtypes
import numpy as np
import pytest
from tests.engines import run
from tests.ptx import launch
from tests.tiled_products import one_tile, product

KINDS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "int8": np.int8}


@pytest.fixture
def programs(monkeypatch):
    """PTX that the emulator has executed."""
    found = []
    execute = launch.run_ptx

    def recorded(artifact, *rest, **named):
        found.append(artifact.asm["ptx"])
        return execute(artifact, *rest, **named)

    monkeypatch.setattr(launch, "run_ptx", recorded)
    return found


@pytest.mark.parametrize("kernel", [product, one_tile], ids=["loop", "program"])
@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(64, 128), (80, 96)])
def test_products_of_bytes(programs, kernel, order, kind, m, n):
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((m, 32), (32, n)))
    out = np.full((m, n) if order == "rows" else (n, m), 7).astype(KINDS[kind])
    strides = (n, 1) if order == "rows" else (1, m)
    grid = (-(-m // 64) * -(-n // 64) if kernel is one_tile else 1,)
    made = run("sm_90a", kernel, grid, a, b, out, m, n, 32, *strides, 64, 64, 32)[2]
    wanted = (a.astype(np.float64) @ b).astype(KINDS[kind])
    made = made if order == "rows" else made.T
    np.testing.assert_array_equal(made.astype(np.float32), wanted.astype(np.float32))
    (text,) = programs
    assert ("cp.async.bulk.tensor.2d.global" in text) == (order == "rows")
    assert order == "columns" or not {"st.shared.b8", "st.shared.v2.b8"} & set(text.split())
