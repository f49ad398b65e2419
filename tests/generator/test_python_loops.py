"""Spellings of loops that are products, against Python itself; and those that are none, each with one error."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import CompilationError, LaunchError


def extents_of_arrays(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def lengths(A, B, C):
    for i in range(len(A)):
        for j in range(B.shape[-1]):
            for k in range(len(B)):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]


def from_zero(A, B, C):
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def from_zero_by_columns(A, B, C):
    for j in range(B.shape[1]):
        for i in range(A.shape[0]):
            C[i, j] = 0
            for k in range(A.shape[1]):
                C[i, j] = B[k, j] * A[i, k] + C[i, j]


def parts_of_arrays(A, B, C):
    M = 12
    M = M - 2
    for i in range(1, M):
        for j in range(2, 7, 2):
            for k in range(3, 2 * 4 + 1):
                C[i, j] += A[i, k] * B[k, j]


def halves(A, B, C):
    H = A.shape[0] // 2
    for k in range(0, A.shape[1], 3):
        for i in range(H, A.shape[0]):
            for j in range(B.shape[1] - 1):
                C[i, j] += A[i, k] * B[k, j]


def in_a_name(A, B, C):
    M, K = A.shape
    for i in range(M):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(K):
                s += A[i, k] * B[k, j]
            C[i, j] = s


def in_a_name_and_added(A, B, C):
    for j in range(7):
        for i in range(12):
            total = 0
            for k in range(9):
                total = total + B[k, j] * A[i, k]
            C[i, j] += total


def nothing_at_all(A, B, C):
    for i in range(5, 3):
        for j in range(B.shape[1] - 20):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


SPELLINGS = (
    extents_of_arrays, lengths, from_zero, from_zero_by_columns, parts_of_arrays, halves, nothing_at_all,
    in_a_name, in_a_name_and_added,
)  # fmt: skip


@pytest.mark.parametrize("function", SPELLINGS, ids=lambda f: f.__name__)
def test_spellings(function):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape) for shape in ((12, 9), (9, 7), (12, 7)))
    wanted = c.copy()
    function(a, b, wanted)
    tw.loop_nest(function)(a, b, c)
    np.testing.assert_allclose(c, wanted, rtol=1e-12, atol=1e-12)


def test_what_was_in_the_result_is_not_read_where_sums_begin_with_zero():
    a, b, c = np.ones((3, 2)), np.ones((2, 4)), np.full((3, 4), np.nan)
    tw.loop_nest(from_zero)(a, b, c)
    assert (c == 2).all()


def zero_at_every_step(A, B, C):
    for i in range(12):
        for k in range(9):
            for j in range(7):
                C[i, j] = 0
                C[i, j] = B[k, j] * A[i, k] + C[i, j]


def zero_outside_of_its_loops(A, B, C):
    for k in range(9):
        for i in range(12):
            for j in range(7):
                C[i, j] += B[k, j] * A[i, k]
            C[i, 0] = 0


def zero_elsewhere(A, B, C):
    for i in range(12):
        for j in range(7):
            C[j, i] = 0
            for k in range(9):
                C[i, j] += B[k, j] * A[i, k]


def zero_too_often(A, B, C):
    for k in range(9):
        for i in range(12):
            C[i, k] = 0
            for j in range(7):
                C[i, j] += B[k, j] * A[i, k]


def other_number(A, B, C):
    for i in range(12):
        for j in range(7):
            C[i, j] = 1.0
            for k in range(9):
                C[i, j] += B[k, j] * A[i, k]


def backwards(A, B, C):
    for i in range(5, 0, -1):
        for j in range(7):
            for k in range(9):
                C[i, j] += A[i, k] * B[k, j]


def scaled(A, B, C):
    for i in range(12):
        for j in range(7):
            for k in range(9):
                C[i, j] += 2.0 * A[i, k] * B[k, j]


def subtracted(A, B, C):
    for i in range(12):
        for j in range(7):
            for k in range(9):
                C[i, j] -= A[i, k] * B[k, j]


def decaying(A, B, C):
    for i in range(12):
        for j in range(7):
            for k in range(9):
                C[i, j] = 0.5 * C[i, j] + A[i, k] * B[k, j]


def in_a_name_from_one(A, B, C):
    for i in range(12):
        for j in range(7):
            s = 1.0
            for k in range(9):
                s += A[i, k] * B[k, j]
            C[i, j] = s


def in_a_name_used_twice(A, B, C):
    for i in range(12):
        for j in range(7):
            s = 0.0
            for k in range(9):
                s += A[i, k] * B[k, j]
            C[i, j] = s
            C[j, i] = s


def stored_by_the_last_index(A, B, C):
    for i in range(12):
        for j in range(7):
            s = 0.0
            for k in range(9):
                s += A[i, k] * B[k, j]
            C[i, k] = s


def over_the_rows(A, B, C):
    for i in range(12):
        s = 0.0
        for j in range(7):
            for k in range(9):
                s += A[i, k] * B[k, j]
        C[i, 0] = s


def with_a_condition(A, B, C):
    for i in range(12):
        for j in range(7):
            for k in range(9):
                if k < i:
                    C[i, j] += A[i, k] * B[k, j]


def one_index_twice(A, B, C):
    for i in range(12):
        for i in range(7):
            for k in range(9):
                C[i, i] += A[i, k] * B[k, i]


def no_range(A, B, C):
    for i in range():
        C[i, i] += A[i, i] * B[i, i]


def no_such_axis(A, B, C):
    for i in range(A.shape[2]):
        for j in range(7):
            for k in range(9):
                C[i, j] += A[i, k] * B[k, j]


def whole_arrays(A, B, C):
    C += A @ B


MISTAKES = {
    zero_at_every_step: "the innermost body stores 2 times",
    zero_outside_of_its_loops: "affine.store between the loops: the nest must be perfect",
    zero_elsewhere: "another element than that of the sum is set to 0",
    zero_too_often: "another element than that of the sum is set to 0",
    other_number: "`1.0` has no place in a sum of products",
    backwards: "the step of a loop must be a positive constant",
    scaled: "`2.0` has no place in a sum of products",
    subtracted: "is neither a loop nor a sum",
    decaying: "`0.5` has no place in a sum of products",
    in_a_name_from_one: "only elements of arrays are assigned",
    in_a_name_used_twice: "only elements of arrays are assigned",
    stored_by_the_last_index: "only elements of arrays are assigned",
    over_the_rows: "a subscript is not the index of a loop by itself",
    with_a_condition: "`if k < i:` is neither a loop nor a sum",
    one_index_twice: "a loop index occurs twice in a subscript of the result",
    no_range: "with one to three numbers",
    no_such_axis: "`A.shape[2]` is neither a constant nor an integer parameter",
    whole_arrays: "only elements of arrays are assigned",
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_mistakes_have_one_error_with_a_place(function):
    with pytest.raises(CompilationError) as caught:
        tw.loop_nest(function)
    text = str(caught.value)
    assert MISTAKES[function] in text
    first = function.__code__.co_firstlineno
    assert first < caught.value.location.line < first + 8
    assert text.count("^") >= 1


@tw.loop_nest
def counted(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def test_counts_below_zero_are_no_loops():
    a, b, c = np.ones((4, 4)), np.ones((4, 4)), np.ones((4, 4))
    for counts in ((-1, 4, 4), (4, -2, 4), (4, 4, -3)):
        counted(a, b, c, *counts)
    assert (c == 1).all()


@tw.loop_nest
def begun(A, B, C, S):
    for i in range(S, 4):
        for j in range(4):
            for k in range(4):
                C[i, j] += A[i, k] * B[k, j]


def test_loops_that_begin_before_an_array_are_an_error():
    a, b, c = np.ones((4, 4)), np.ones((4, 4)), np.ones((4, 4))
    with pytest.raises(LaunchError, match="a loop begins at -2, 'A' has extent 4"):
        begun(a, b, c, -2)
    begun(a, b, c, 3)
    assert (c[:3] == 1).all()
    assert (c[3] == 5).all()


def test_arguments_by_name():
    a, b, c = np.ones((4, 4)), np.ones((4, 4)), np.ones((4, 4))
    counted(a, b, C=c, M=4, N=np.int64(4), K=4)
    assert (c == 5).all()
    with pytest.raises(LaunchError, match="takes 6 arguments"):
        counted(a, b, C=c, M=4, K=4)
    with pytest.raises(TypeError):
        counted(a, b, c, 4, 4, 4, M=4)


@pytest.mark.parametrize("count", ["4", 4.5, None])
def test_counts_are_integers(count):
    a, b, c = np.ones((4, 4)), np.ones((4, 4)), np.ones((4, 4))
    with pytest.raises(LaunchError, match="'M' must be an integer, not a") as caught:
        counted(a, b, c, count, 4, 4)
    assert caught.value.location is not None and caught.value.location.file == __file__


@pytest.mark.parametrize("what", [3, len, None, np.ndarray])
def test_what_is_no_function(what):
    with pytest.raises(CompilationError, match="is not a function"):
        tw.loop_nest(what)


def only_a_text(A, B, C):
    """Nothing else."""


def test_functions_without_loops():
    with pytest.raises(CompilationError, match="stores 0 times") as caught:
        tw.loop_nest(only_a_text)
    assert caught.value.location is not None
