"""Operands whose mask changes only between vectors are copied asynchronously: lower bounds of columns, among others."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def from_column(a_ptr, b_ptr, c_ptr, first_ptr, columns, FORM: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """C = A @ B[:, first : first + BN]; columns outside of B count as 0, also those before it."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    column = tl.load(first_ptr) * 8 + n
    if FORM == "limits":
        inside = (column >= 0) & (column < columns)
    elif FORM == "last":
        inside = (column > -1) & (column <= columns - 1)
    else:
        inside = (0 <= column) & (columns > column)  # noqa: SIM300 - the order is what is tested
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(
            b_ptr + (start + k)[:, None] * columns + column[None, :], mask=inside[None, :], other=0
        )
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], acc)


K, BM, BN, BK = 64, 64, 32, 16


def compiled(target, divisible, form="limits"):
    pointers = {
        "a_ptr": "*fp16:16",
        "b_ptr": "*fp16:16",
        "c_ptr": "*fp32:16",
        "first_ptr": "*i32:16",
    }
    signature = {**pointers, "columns": "i32:16" if divisible else "i32"}
    constants = {"FORM": form, "K": K, "BM": BM, "BN": BN, "BK": BK}
    return from_column.compile(signature, constants, target=target, num_warps=4, num_stages=2)


@pytest.mark.sampled(4, full=3)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("divisible", [True, False])
@pytest.mark.parametrize("form", ["limits", "last", "swapped"])
def test_columns_before_and_behind_the_matrix(target, divisible, form):
    made = compiled(target, divisible, form)
    assert ("cp.async.cg.shared.global" in made.asm["ptx"]) or target == "sm_90a"
    columns = 48 if divisible else 45
    rng = np.random.default_rng(2)
    a = rng.standard_normal((BM, K)).astype(np.float16)
    b = rng.standard_normal((K, columns)).astype(np.float16)
    for first in (-2, 0, 3, 5):
        arrays = [a, b, np.zeros((BM, BN), np.float32), np.full(4, first, np.int32)]
        found = run_ptx(made, [*arrays, columns], (1,))[2].reshape(BM, BN)
        wide = np.zeros((K, 16 + columns + BN + 40))
        wide[:, 16 : 16 + columns] = b
        wanted = a.astype(np.float64) @ wide[:, 16 + 8 * first :][:, :BN]
        np.testing.assert_allclose(found, wanted, atol=1e-3, err_msg=f"first {first}")


@pytest.mark.parametrize("divisible", [True, False])
@pytest.mark.parametrize("form", ["limits", "last", "swapped"])
def test_only_whole_vectors_are_copied(divisible, form):
    """With 45 columns a vector of 8 begins inside the matrix and ends outside."""
    text = compiled("sm_80", divisible, form).asm["gpu"]
    assert text.count("gpu.async_copy") == (4 if divisible else 2)
