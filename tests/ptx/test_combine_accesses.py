"""Fields of records are loaded and stored as vectors: kernels executed as PTX text."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright as tw
import tilewright.language as tl
from tilewright.ir.text import parse_ir


@tw.jit
def complex_product(x, y, out, n, stride, B: tl.constexpr):
    """Interleaved real and imaginary parts, rows `stride` records apart."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    at, inside = (tl.program_id(1) * stride + i) * 2, i < n
    a, b = tl.load(x + at, mask=inside), tl.load(x + at + 1, mask=inside)
    c, d = tl.load(y + at, mask=inside), tl.load(y + at + 1, mask=inside)
    tl.store(out + at, a * c - b * d, mask=inside)
    tl.store(out + at + 1, a * d + b * c, mask=inside)


@tw.jit
def transposed(x, out, n, B: tl.constexpr):
    """4x4 matrices, entry by entry, but the last column's."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    for row in tl.static_range(4):
        for column in tl.static_range(3):
            value = tl.load(x + i * 16 + column * 4 + row, mask=i < n, other=0)
            tl.store(out + i * 16 + row * 4 + column, value, mask=i < n)


@tw.jit
def loaded_first(x, out, n, B: tl.constexpr):
    """The sums of neighbors of rows of 8 that are loaded before any is stored."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    last = tl.load(x + i * 8 + 7, mask=i < n)
    row = tl.multiple_of(x + i * 8, 8)
    first = tl.load(row, mask=i < n)
    second = tl.load(tl.multiple_of(row + 1, 1), mask=i < n)
    tl.store(out + i * 8, first + last, mask=i < n)
    tl.store(out + i * 8 + 1, first + second, mask=i < n)
    tl.store(out + i * 8 + 3, second, mask=i < n)


def run(kernel, arrays, sizes, types, constants, grid, warps):
    made = kernel.compile(types, constants, target="sm_90a", num_warps=warps)
    ends = run_ptx(made.artifact, [*arrays, *sizes], grid)
    again = run_on_copies(parse_ir(made.asm["gpu"]), [*arrays, *sizes], grid)
    for a, b in zip(ends[: len(arrays)], again[: len(arrays)], strict=True):
        np.testing.assert_array_equal(a, b)
    lines = made.asm["ptx"].splitlines()
    return ends, [line.split()[1] for line in lines if ".global." in line and "@" in line]


@pytest.mark.parametrize("stride", [96, 97])
@pytest.mark.parametrize("warps", [1, 4])
def test_complex_numbers(stride, warps):
    n, block = 90, 64
    random = np.random.default_rng(0)
    x, y = (random.integers(-9, 9, (3, stride, 2)).astype(np.float32) for _ in "xy")
    out = np.full_like(x, 7)
    types = dict.fromkeys(("x", "y", "out"), "*fp32:16") | {"n": "i32", "stride": "i32"}
    ends, forms = run(complex_product, [x, y, out], [n, stride], types, {"B": block}, (2, 3), warps)
    a, b = x[:, :n].view(np.complex64), y[:, :n].view(np.complex64)
    np.testing.assert_array_equal(ends[2][:, :n].view(np.complex64), a * b)
    assert (ends[2][:, n:] == 7).all()
    assert {f for f in forms if f.startswith("ld")} <= {"ld.global.b64", "ld.global.v2.b32"}
    assert {f for f in forms if f.startswith("st")} <= {"st.global.b64", "st.global.v2.b32"}


def test_a_store_keeps_loads_apart():
    """What is stored in between may be what is loaded later; two of three fields are a vector."""
    n, block = 50, 64
    x = np.arange(16 * n, dtype=np.float32).reshape(n, 4, 4)
    out = np.zeros_like(x)
    types = dict.fromkeys(("x", "out"), "*fp32:16") | {"n": "i32"}
    ends, forms = run(transposed, [x, out], [n], types, {"B": block}, (1,), 2)
    expected = np.swapaxes(x, 1, 2).copy()
    expected[:, :, 3] = 0
    np.testing.assert_array_equal(ends[1], expected)
    assert sum(f.startswith("ld") for f in forms) == 12
    assert all("b32" in f and ".v" not in f for f in forms if f.startswith("ld"))


def test_fields_out_of_order():
    n, block = 30, 32
    x = np.arange(8 * n, dtype=np.float16).reshape(n, 8)
    types = dict.fromkeys(("x", "out"), "*fp16:16") | {"n": "i32"}
    ends, forms = run(loaded_first, [x, np.zeros_like(x)], [n], types, {"B": block}, (1,), 1)
    expected = np.zeros_like(x)
    expected[:, 0], expected[:, 1], expected[:, 3] = x[:, 0] + x[:, 7], x[:, 0] + x[:, 1], x[:, 1]
    np.testing.assert_array_equal(ends[1], expected)
    assert sorted(forms) == ["ld.global.b16", "ld.global.b32", "st.global.b16", "st.global.b32"]
