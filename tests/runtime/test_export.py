"""Kernels as files that C programs build with: called through ctypes, and from C where a compiler is."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError, UnsupportedTarget
from tilewright.runtime.drivers.native_code import NativeLinker
from tilewright.runtime.export import export_kernel, grids

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@tw.jit
def axpy(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(y_ptr + at, scale * tl.load(x_ptr + at, mask=at < n) + y, mask=at < n)


@tw.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        a = tl.load(a_ptr + i * K + at[None, :], mask=(i < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + j, mask=(at[:, None] < K) & (j < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i * N + j, acc, mask=(i < M) & (j < N))


@tw.jit
def places(out_ptr, flag, small, wide, half: tl.float16, limit):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.device_assert(at < limit, 'beyond "the limit"')
    tl.store(out_ptr + at, tl.where(flag, small + wide, 0) + x * 100 + y * 10 + z)


AXPY = dict(x_ptr="*fp32", y_ptr="*fp32", n="i32", scale="fp32", BLOCK=256)
MATMUL = dict(
    a_ptr="*fp32", b_ptr="*fp32", c_ptr="*fp32", M="i32", N="i32", K="i32", BM=32, BN=32, BK=32
)
PLACES = dict(out_ptr="*i64", flag="i1", small="i8", wide="i64", half="fp32", limit="i32")


def called(exported, *kinds):
    """The function in an object file, linked into this process."""
    linker = NativeLinker()
    code = linker.link(exported.code.read_bytes(), exported.name)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(code[exported.name])
    function.keep = linker, code
    return function


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("threads", [0, 1, 2, 7])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v2"])
def test_object_through_ctypes(tmp_path, threads, target):
    exported = matmul.compile(MATMUL, target=target).export(
        tmp_path, "product", grid=("cdiv(M, BM)", "cdiv(N, BN)")
    )
    pointer, integer = ctypes.c_void_p, ctypes.c_int32
    product = called(exported, *[pointer] * 3, *[integer] * 4)
    random = np.random.default_rng(0)
    a = random.standard_normal((100, 70), dtype=np.float32)
    b = random.standard_normal((70, 45), dtype=np.float32)
    c = np.full((100, 45), np.nan, np.float32)
    assert product(address(a), address(b), address(c), 100, 45, 70, threads) == 0
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_a_grid_in_parameters_and_every_kind_of_argument(tmp_path):
    exported = places.compile(PLACES, options={"debug": True}).export(tmp_path)
    assert exported.prototype == (
        "int places(int64_t *out_ptr, bool flag, int8_t small, int64_t wide, float half, int32_t limit, "
        "int64_t grid_x, int64_t grid_y, int64_t grid_z, int threads)"
    )
    big = ctypes.c_int64
    call = called(
        exported, ctypes.c_void_p, ctypes.c_bool, ctypes.c_int8, big, ctypes.c_float,
        ctypes.c_int32, big, big, big, ctypes.c_int,
    )  # fmt: skip
    out = np.zeros((3, 2, 4), np.int64)
    z, y, x = np.indices(out.shape)
    assert call(address(out), True, -5, 1 << 40, 0.0, 24, 4, 2, 3, 0) == 0
    np.testing.assert_array_equal(out, (1 << 40) - 5 + x * 100 + y * 10 + z)
    assert call(address(out), True, -5, 1, 0.0, 23, 4, 2, 3, 0) == 1000
    assert call(address(out), True, -5, 1, 0.0, 24, 4, -2, 3, 0) == 1
    assert call(address(out), True, -5, 1, 0.0, 24, 1 << 40, 1 << 20, 1 << 20, 0) == 1
    assert call(address(out), True, -5, 1, 0.0, 24, 4, 0, 3, 0) == 0
    assert 'device_assert failed: beyond \\"the limit\\"' in exported.header.read_text()


def test_what_the_code_relies_on_is_checked(tmp_path):
    kinds = {**AXPY, "x_ptr": "*fp32:16", "n": "i32:16"}
    exported = axpy.compile(kinds).export(tmp_path, grid="cdiv(n, BLOCK)")
    pointer = ctypes.c_void_p
    call = called(exported, pointer, pointer, ctypes.c_int32, ctypes.c_float, ctypes.c_int)
    x, y = np.ones(64 + 16, np.float32), np.ones(64, np.float32)
    at = -address(x) % 16 // 4
    assert call(address(x[at:]), address(y), 64, 2.0, 0) == 0
    assert (y == 3).all()
    assert call(address(x[at + 1 :]), address(y), 64, 2.0, 0) == 100
    assert call(address(x[at:]), address(y), 63, 2.0, 0) == 102
    header = exported.header.read_text()
    assert "x_ptr, /* *fp32, aligned to 16 bytes, only read */" in header
    assert "n, /* i32, a multiple of 16 */" in header
    assert "BLOCK = 256" in header


def test_integers_for_the_grid_only(tmp_path):
    exported = export_kernel(
        axpy.compile(AXPY), tmp_path, "rows", grid=("cdiv(n, BLOCK)", "batch"), sizes=("batch",)
    )
    assert exported.prototype.endswith("int32_t n, float scale, int64_t batch, int threads)")
    pointer = ctypes.c_void_p
    call = called(
        exported, pointer, pointer, ctypes.c_int32, ctypes.c_float, ctypes.c_int64, ctypes.c_int
    )
    x, y = np.ones(100, np.float32), np.ones(100, np.float32)
    assert call(address(x), address(y), 100, 1.0, 3, 1) == 0
    assert (y == 4).all()  # each of the three adds to the same rows, one after the other
    with pytest.raises(LaunchError, match="has a parameter n already"):
        export_kernel(axpy.compile(AXPY), tmp_path, "rows", grid="n", sizes=("n",))


C_PROGRAM = """
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "product.h"
#include "axpy.h"

int main(void) {
    enum { M = 130, N = 77, K = 61 };
    static float a[M * K], b[K * N], c[M * N];
    for (int i = 0; i < M * K; ++i) a[i] = (float)(i % 13 - 6);
    for (int i = 0; i < K * N; ++i) b[i] = (float)(i % 7 - 3);
    int code = product(a, b, c, M, N, K, 0);
    if (code != TILEWRIGHT_OK) return puts(product_error(code)), 1;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            double sum = 0;
            for (int k = 0; k < K; ++k) sum += (double)a[i * K + k] * b[k * N + j];
            if (fabs(sum - c[i * N + j]) > 1e-3) return printf("%d %d\\n", i, j), 2;
        }
    code = axpy(a, c, K * M, 0.5f, 1);
    if (code != TILEWRIGHT_OK) return 3;
    puts(axpy_error(TILEWRIGHT_OUT_OF_MEMORY));
    return 0;
}
"""


def build(folder, *sources, language="c11", libraries=("-lpthread", "-lm"), compiler=COMPILER):
    """Compile and link; warnings are errors."""
    program = folder / "program"
    warnings = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    done = subprocess.run(
        [compiler, f"-std={language}", "-O1", *warnings, *sources, "-o", program, *libraries],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return program


@needs_compiler
def test_a_c_program(tmp_path):
    matmul.compile(MATMUL).export(tmp_path, "product", grid=("cdiv(M, BM)", "cdiv(N, BN)"))
    axpy.compile(AXPY).export(tmp_path, grid="cdiv(n, BLOCK)")
    (tmp_path / "main.c").write_text(C_PROGRAM)
    program = build(tmp_path, "main.c", "product.o", "axpy.o")
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "no memory left\n")


def test_objects_for_other_machines(tmp_path):
    machines = {"cpu:x86-64-v3": 62, "cpu:x86-64-v4": 62, "cpu:aarch64": 183}
    for target, number in machines.items():
        exported = matmul.compile(MATMUL, target=target).export(tmp_path / target, "product")
        head = exported.code.read_bytes()[:20]
        assert (head[:4], int.from_bytes(head[18:20], "little")) == (b"\x7fELF", number)
    with pytest.raises(UnsupportedTarget, match="no CPU target 'cpu:z80'"):
        matmul.compile(MATMUL, target="cpu:z80")


@pytest.mark.parametrize(
    ("text", "value", "c"),
    [
        ("cdiv(n, 4)", 3, "(((int64_t)n + INT64_C(4)) - INT64_C(1)) / INT64_C(4))"),
        ("min(n, BLOCK) * 2", 20, None),
        ("max(n // 3, n % 4) - 1", 2, None),
        ("cdiv(BLOCK, 32)", 8, "INT64_C(8)"),
    ],
)
def test_grid_expressions(text, value, c):
    (extent,) = grids.parse_grid([text], {"BLOCK": 256}, {"n": "n_"})
    assert eval(grids.with_names(extent, {"n_": "10"})) == value
    if c is not None:
        assert grids.c_text(extent).replace("n_", "n").endswith(c)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("n +", "'n +' is not a valid grid extent"),
        ("m", "the grid names 'm', which is not an integer argument"),
        ("x_ptr", "the grid names 'x_ptr'"),
        ("256 // n", "divides by something other than a positive constant"),
        ("n ** 2", "'n ** 2' is not allowed in a grid"),
        (("n", "n", "n", "n"), "one to three extents, not 4"),
    ],
)
def test_grids_that_cannot_be(tmp_path, grid, message):
    with pytest.raises(LaunchError, match=message.replace("*", r"\*").replace("+", r"\+")):
        axpy.compile(AXPY).export(tmp_path, grid=grid)


def test_names_that_cannot_be(tmp_path):
    with pytest.raises(LaunchError, match="cannot be the name of a C function"):
        axpy.compile(AXPY).export(tmp_path, "9 lives")
