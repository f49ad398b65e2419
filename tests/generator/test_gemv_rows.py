"""Several rows of a matrix read as one, where a vector is multiplied by it: on a CPU, and as a GPU would have it."""

import numpy as np
import pytest
from tests.generator.gpu_level import interpret

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.nvidia.target import target_info
from tilewright.errors import LaunchError
from tilewright.generator.choice import choose
from tilewright.generator.contraction import COLUMN, Contraction, Operand

pytestmark = pytest.mark.sampled(4, full=3)


def config(across, deep, joined, split=1, column=False):
    tile = (across, 1) if column else (1, across)
    return tw.MatmulConfig(*tile, deep, 1, 4, 3, split, form="gemv", rows_per_load=joined)


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize(
    ("k", "extent", "across", "deep", "joined", "split"),
    [(64, 301, 128, 16, 8, 2), (48, 129, 128, 4, 8, 1), (40, 1001, 256, 16, 4, 1), (34, 70, 64, 4, 2, 3),
     (16, 128, 128, 8, 8, 1), (8, 131, 128, 4, 8, 4)],
)  # fmt: skip
def test_on_a_cpu(column, batch, k, extent, across, deep, joined, split):
    rng = np.random.default_rng(1)
    vector, matrix = rng.standard_normal((*batch, 1, k)), rng.standard_normal((*batch, k, extent))
    given = config(across, deep, joined, split, column)
    if column:
        found = tw.matmul(matrix.swapaxes(-1, -2), vector.swapaxes(-1, -2), config=given)
        found = found.swapaxes(-1, -2)
    else:
        found = tw.matmul(vector, matrix, config=given)
    np.testing.assert_allclose(found, vector @ matrix, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("column", [False, True])
def test_as_a_gpu_would_have_it(target, column):
    """A bias and an old C come after all parts have been added up."""
    rng, (k, n) = np.random.default_rng(2), (64, 1031)
    a = rng.standard_normal((1, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    c = rng.standard_normal((1, n)).astype(np.float16)
    wanted = np.maximum(a.astype(np.float64) @ b + 2 * c.astype(np.float64), 0)
    left, right, old = (b.T, a.T, c.T) if column else (a, b, c)
    out = np.empty(old.shape, np.float32)
    for given in (None, config(512, 4, 8, 2, column)):
        out[...] = np.nan
        interpret(target_info(target), left, right, out, ["relu"], config=given, c=old, beta=2.0)
        assert np.abs(out.reshape(1, n) - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_what_is_chosen():
    half = Contraction(*[Operand(dtypes.float16)] * 3)
    gpu = target_info("sm_90a")
    assert choose(half, 1, 50257, 4096, gpu, packed=True).rows_per_load == 8
    assert choose(half, 1, 50258, 4096, gpu, packed=True).rows_per_load == 4
    assert choose(half, 1, 50257, 4096, gpu).rows_per_load == 1
    assert choose(half, 1, 50257, 4095, gpu, packed=True).rows_per_load == 1
    assert choose(half, 1, 50264, 4096, gpu, packed=True).rows_per_load == 1
    assert choose(half, 1, 1000, 4096, gpu, packed=True).rows_per_load == 1  # shorter than a tile
    # columns are counted in 32 bits, and a workspace holds what all batches sum up
    assert choose(half, 1, (1 << 28) + 1, 8, gpu, packed=True).rows_per_load == 1
    assert choose(half, 1, 1025, 8, gpu, 1 << 20, packed=True).rows_per_load == 1
    assert choose(half, 1, 1025, 8, gpu, 1 << 10, packed=True).rows_per_load == 8
    single = Contraction(*[Operand(dtypes.float32)] * 3)
    assert choose(single, 1, 50257, 4096, gpu, packed=True).rows_per_load == 4
    column = Contraction(Operand(dtypes.float16, COLUMN), *[Operand(dtypes.float16)] * 2)
    found = choose(column, 50257, 1, 4096, gpu, packed=True)
    assert found.rows_per_load == 8 and found.block_n == 1


def test_what_cannot_be():
    a, b = np.ones((1, 64)), np.ones((64, 300))
    with pytest.raises(LaunchError, match="multiples of 8 rows of 512"):
        tw.matmul(a, b, config=config(512, 4, 8))
    with pytest.raises(LaunchError, match="not for 60 of 300"):
        tw.matmul(a[:, :60], b[:60], config=config(64, 4, 8))
    with pytest.raises(LaunchError, match="without gaps"):
        tw.matmul(a, b[:, :200], config=config(64, 4, 8))
    with pytest.raises(LaunchError, match="not for 8 x 1 of a result of 1 x 300"):
        tw.matmul(a, b, config=config(8, 4, 2, column=True))
    with pytest.raises(LaunchError, match="not for 1 x 8 of a result of 300 x 1"):
        tw.matmul(b.T, a.T, config=config(8, 4, 2))
    with pytest.raises(LaunchError, match="form 'gemv'"):
        tw.MatmulConfig(rows_per_load=2)
