"""Kernels as plain Python give what NumPy gives, and Python's own constructs mean what they should."""

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import DeviceAssertError, KernelTypeError

FACTOR = tl.constexpr(3)


@tilewright.jit
def scaled(x, FACTOR: tl.constexpr):
    return x * FACTOR.value


@tilewright.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(o_ptr + offsets, x + scaled(y, 2), mask=mask)


def numbers(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(kind).kind in "iu":
        return rng.integers(0, 30, n).astype(kind)
    return rng.standard_normal(n).astype(kind)


@pytest.mark.parametrize(
    "kind",
    [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16,
     np.float32, np.float64],
)  # fmt: skip
@pytest.mark.parametrize("grid", [(4,), [4], lambda meta: (tilewright.cdiv(meta["n"], 32),)])
def test_add(kind, grid):
    x, y = numbers(kind, 100), numbers(kind, 100, 1)
    out = np.zeros(100, kind)
    add[grid](x, y, out, 100, BLOCK=32)
    expected = x + (y * np.asarray(2, kind)).astype(kind)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int8"])
def test_torch(name):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, name)
    x, y = torch.arange(40).to(kind)[::2], torch.ones(20).to(kind)
    out = torch.zeros(20, dtype=kind)
    add[(2,)](x.contiguous(), y, out, 20, BLOCK=16)
    assert torch.equal(out, x + 2)


@tilewright.jit
def row_softmax(x_ptr, o_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    top = tl.exp(x - tl.max(x, axis=0))
    tl.store(o_ptr + row * stride + columns, top / tl.sum(top, axis=0), mask=columns < n)


def test_softmax():
    x = numbers(np.float32, (5, 21))
    out = np.zeros_like(x)
    row_softmax[(5,)](x, out, 21, 21, BLOCK=32)
    wide = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, wide / wide.sum(1, keepdims=True), rtol=1e-5)


@tilewright.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    pid = tl.program_id(0)
    blocks = tl.cdiv(N, BN)
    rows = (pid // blocks) * BM + tl.arange(0, BM)
    columns = (pid % blocks) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        a = tl.load(
            a_ptr + rows[:, None] * K + (k * BK + depth)[None, :],
            mask=(rows[:, None] < M) & (depth[None, :] < left), other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + (k * BK + depth)[:, None] * N + columns[None, :],
            mask=(depth[:, None] < left) & (columns[None, :] < N), other=0.0,
        )  # fmt: skip
        acc = tl.dot(a, b, acc)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=inside)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_matmul(kind):
    a, b = numbers(kind, (37, 29)), numbers(kind, (29, 45), 1)
    c = np.zeros((37, 45), np.float32)
    matmul[(3 * 3,)](a, b, c, 37, 45, 29, BM=16, BN=16, BK=16)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)


@tilewright.autotune(
    configs=[tilewright.Config({"BLOCK": 16}), tilewright.Config({"BLOCK": 32})], key=["n"]
)
@tilewright.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@tilewright.jit
def tuned(x_ptr, o_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(o_ptr + offsets, tl.load(x_ptr + offsets) + 1)
    else:
        inside = offsets < n
        tl.store(o_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + 1, mask=inside)


@pytest.mark.parametrize("n", [64, 70])
def test_autotune_and_heuristics(n):
    x, out = numbers(np.float32, n), np.zeros(n, np.float32)
    tuned[lambda meta: (tilewright.cdiv(n, meta["BLOCK"]),)](x, out, n)
    np.testing.assert_array_equal(out, x + 1)


@tilewright.jit
def constructs(
    x_ptr, o_ptr, n, one, pair, bias, NAME: tl.constexpr, FLAG: tl.constexpr, KIND: tl.constexpr
):
    offsets = tl.arange(0, 16)
    x = tl.load(x_ptr + offsets)
    total = 0.0
    for i in range(n):
        total += i.to(tl.float32)
    while n > 2 and total < 100:
        n -= 1
        total = max(total, n)
    if NAME == "square" and FLAG is True and bias is None:
        x = x * x
    elif not FLAG:
        x = -x
    middle = 2 <= offsets < 14 and not (offsets == 5)  # noqa: SIM201
    parts = [x + j for j in range(2)]
    for k in tl.static_range(2):
        x += parts[k] * FACTOR
    x = x + pair[0] * pair[1] + one.to(tl.float32) + min(x, 0.0) + abs(x)
    assert offsets < 16, "lanes"
    assert KIND is not None
    tl.store(o_ptr + offsets, tl.where(middle, x, total).to(KIND))


@pytest.mark.parametrize("name, flag", [("square", True), ("square", False), ("other", True)])
def test_python_constructs(name, flag):
    x = numbers(np.float32, 16)
    out = np.zeros(16, np.float64)
    constructs[(1,)](x, out, 5, 1, (2, 0.5), None, name, flag, tl.float64)
    lanes = np.arange(16)
    base = x * x if name == "square" and flag else -x if not flag else x
    z = base + base * 3 + (base + 1) * 3
    z = z + 1 + 1 + np.minimum(z, 0) + abs(z)
    keep = (lanes >= 2) & (lanes < 14) & (lanes != 5)
    np.testing.assert_allclose(out, np.where(keep, z, 10.0), rtol=1e-5)


def test_kernels_of_closures():
    scale = tl.constexpr(4)

    @tilewright.jit
    def kernel(o_ptr, n):
        index = tl.arange(0, 8)
        tl.store(o_ptr + index, index * scale, mask=index < n and index != 2)

    out = np.zeros(8, np.int32)
    kernel[(1,)](out, 6)
    assert out.tolist() == [0, 4, 0, 12, 16, 20, 0, 0]


@tilewright.jit
def reductions(x_ptr, o_ptr, N: tl.constexpr):
    rows, columns = tl.arange(0, 4), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    value, index = tl.max(x, axis=1, return_indices=True)
    tl.store(o_ptr + rows, tl.sum(x, axis=1))
    tl.store(o_ptr + 4 + rows, value)
    tl.store(o_ptr + 8 + rows, index)
    tl.store(o_ptr + 12 + rows, tl.reduce(x, 1, larger))
    running = tl.associative_scan(x, 1, last_of)
    tl.store(o_ptr + 16 + rows, tl.sum(running, 1))
    back = tl.cumsum(x, 1, reverse=True)
    tl.store(o_ptr + 20 + rows, tl.max(back, 1))


@tilewright.jit
def larger(a, b):
    if a > b:
        result = a
    else:
        result = b
    return result


@tilewright.jit
def last_of(a, b):
    return b


def test_reductions_and_scans():
    x = np.random.default_rng(3).permutation(32).reshape(4, 8).astype(np.float32)
    out = np.zeros(24, np.float32)
    reductions[(1,)](x, out, 8)
    backward = x[:, ::-1].cumsum(1)
    expected = [x.sum(1), x.max(1), x.argmax(1), x.max(1), x.sum(1), backward.max(1)]
    np.testing.assert_array_equal(out.reshape(6, 4), np.stack(expected))


@tilewright.jit
def counters(x_ptr, n):
    ticket = tl.atomic_add(x_ptr, 1)
    tl.store(
        x_ptr + 1 + ticket, tl.program_id(0) + 10 * tl.program_id(1) + 100 * tl.num_programs(0)
    )


def test_grids_and_atomics():
    out = np.zeros(7, np.int32)
    counters[(3, 2)](out, 1)
    assert out.tolist() == [6, 300, 301, 302, 310, 311, 312]


@tilewright.jit
def shows(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    print(x, x.to(tl.uint8), tl.program_id(0), x_ptr + tl.arange(0, 2))
    seen.append((x.numpy(), int(tl.sum(x))))


seen: list = []


def test_tiles_print_as_arrays(capsys):
    shows[(1,)](np.array([1, 2, -1, 4], np.int32))
    assert capsys.readouterr().out == (
        "<i32[4] [ 1  2 -1  4]> <u8[4] [  1   2 255   4]> <i32 0> <pointer<i32>[2] x_ptr + [0 1]>\n"
    )
    array, total = seen.pop()
    assert (array.tolist(), total) == ([1, 2, -1, 4], 6)


@tilewright.jit
def asserts(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.device_assert(x > 0, "positive")


def test_device_assert():
    asserts[(1,)](np.ones(4, np.int32))
    with pytest.raises(DeviceAssertError, match="positive"):
        asserts[(1,)](np.array([1, 0, 1, 1]))


@tilewright.jit
def mistakes(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    return x + tl.arange(0, 8)


def test_mistakes_say_where(request):
    with pytest.raises(KernelTypeError) as caught:
        mistakes[(1,)](np.ones(4, np.int32))
    location = caught.value.location
    assert location.file == __file__
    assert location.line == mistakes.first_line + 2
    assert "return x + tl.arange(0, 8)" in str(caught.value)


def test_python_errors_pass_through():
    @tilewright.jit
    def divides(x_ptr, ZERO: tl.constexpr):
        return 1 // ZERO

    with pytest.raises(ZeroDivisionError):
        divides[(1,)](np.ones(4), 0)


def test_no_program_runs_on_an_empty_grid():
    asserts[(0,)](np.zeros(4))


def test_kernel_functions_keep_their_own_code_without_need():
    from tilewright.debug.rewrite import kernel_code

    assert kernel_code(add) is add.fn.__code__
    code = kernel_code(constructs)
    assert code is not constructs.fn.__code__
    assert (code.co_filename, code.co_name) == (__file__, "constructs")
    assert min(n for *_, n in code.co_lines() if n) >= constructs.first_line


@tilewright.jit
def looks(x_ptr, o_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    seen.append((np.asarray(x), np.asarray(x.to(tl.uint8)), np.asarray(tl.sum(x), np.float64)))
    tl.store(o_ptr + tl.arange(0, 4), x)


seen = []


def test_tiles_as_arrays():
    looks[(1,)](np.arange(4, dtype=np.float32) + 252, np.zeros(4, np.float32))
    tile, narrow, total = seen.pop()
    assert tile.dtype == np.float32 and tile.tolist() == [252, 253, 254, 255]
    assert narrow.dtype == np.uint8 and narrow.tolist() == [252, 253, 254, 255]
    assert total == 1014
