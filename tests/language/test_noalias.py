"""`jit(noalias=…)`: what the compiler does with the promise that an argument does not alias."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends import registry
from tilewright.errors import KernelTypeError


def sum_rows(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for row in range(rows):
        total = tl.load(out + lanes) + tl.load(x + row * BLOCK + lanes)
        tl.store(out + lanes, total)


careful = tw.jit(sum_rows)
promised = tw.jit(noalias=["out"])(sum_rows)


def compiled(kernel):
    types = {"x": "*fp32:16", "out": "*fp32:16", "rows": "i32", "BLOCK": tl.constexpr(64)}
    return kernel.compile(types, None, registry.get("cpu").target())


def test_the_sum_stays_in_registers_only_with_the_promise():
    """Without it every row is compared with the result's addresses and stored."""
    careful_code, promised_code = (compiled(k).asm["cpu"] for k in (careful, promised))
    assert "tile.ptr_to_int %out" in careful_code and "iter_args" not in careful_code
    assert "tile.ptr_to_int %out" not in promised_code and "iter_args" in promised_code


@pytest.mark.parametrize("kernel", [careful, promised])
def test_results(kernel):
    x = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)
    out = np.ones(64, np.float32)
    kernel[(1,)](x, out, 7, BLOCK=64)
    np.testing.assert_allclose(out, 1 + x.sum(0))


def test_caches_tell_the_kernels_apart():
    assert careful.cache_key != promised.cache_key


def test_a_name_that_is_no_parameter():
    with pytest.raises(KernelTypeError, match="noalias names 'y', which is not a parameter"):
        tw.jit(noalias=("y",))(sum_rows)


@tw.jit(noalias=["arrays.out"])
def sum_rows_of_tuple(arrays, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for row in range(rows):
        total = tl.load(arrays.out + lanes) + tl.load(arrays.x + row * BLOCK + lanes)
        tl.store(arrays.out + lanes, total)


class Arrays(NamedTuple):
    x: Any
    out: Any


def test_a_pointer_in_a_tuple():
    x, out = np.arange(7 * 64, dtype=np.float32).reshape(7, 64), np.ones(64, np.float32)
    compiled = sum_rows_of_tuple[(1,)](Arrays(x, out), 7, BLOCK=64)
    assert "iter_args" in compiled.asm["cpu"]
    np.testing.assert_allclose(out, 1 + x.sum(0))
