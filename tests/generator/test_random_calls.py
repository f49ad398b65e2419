"""Calls with everything that `tilewright.matmul` takes, on the CPU, against NumPy in float64.

dtypes, out_dtype, transposed, strided, reversed, repeated and misaligned operands, vectors, batches that broadcast, alpha,
beta and C, results in arrays with gaps, up to five steps after the product, infinities and NaN.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generator.random_calls import compare, element, random_call, reference

import tilewright as tw

SIZES = (0, 1, 2, 3, 7, 16, 17, 33, 64, 65, 100, 130)


def run_case(seed):
    call = random_call(seed, SIZES)
    a, b, out, options = call.arguments(lambda x: x.numpy)
    value, bound = reference(call)
    result = tw.matmul(a, b, out, **options)
    assert result.dtype == element(call.out_dtype), call
    wrong = compare(call, np.asarray(result), value, bound)
    assert not wrong, f"{call}: {wrong}"
    assert out is None or (result is out and call.out.outside_is_as_before), call


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_calls(seed):
    run_case(seed)


@pytest.mark.long
@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 1 << 30))
def test_many_random_calls(seed):
    run_case(seed)


@pytest.mark.long
@pytest.mark.parametrize("beyond", [-3, 40])
def test_more_products_than_32_bits_count(beyond):
    """Where K is near 2^31, the last step's indices are beyond it, and nothing may be read there."""
    k = 2**31 + beyond
    ones = np.ones((1, k), np.int8)
    for config in (None, tw.MatmulConfig(16, 16, 256)):
        assert int(tw.matmul(ones, ones.T, config=config)[0, 0]) == np.int64(k).astype(np.int32)


@pytest.mark.parametrize("extent", ["M", "N", "K"])
def test_indices_are_as_wide_as_extents_need(extent):
    """Every index along an axis of about 2^31 is a 64-bit number, in each form of program."""
    from tilewright.backends.registry import machine
    from tilewright.runtime.matmul import kernels_of

    sizes = {"m": 2, "n": 2, "k": 2} | {extent.lower(): 2**31 - 8}
    found = counted.prepared(machine("cpu"), sizes=sizes)
    assert found.contraction.indices_64bit and found.contraction.offsets_64bit
    assert not counted.prepared(
        machine("cpu"), sizes={"m": 2, "n": 2, "k": 2}
    ).contraction.indices_64bit
    assert kernels_of(found)


@tw.loop_nest
def counted(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]
