"""Described matmuls as C functions."""

import ctypes
import subprocess

import ml_dtypes
import numpy as np
import pytest
from tests.runtime.test_export import address, build, called, needs_compiler

from tilewright import dtypes
from tilewright.generator import Contraction, Extra, MatmulConfig, Operand, Step
from tilewright.generator.config import Panels
from tilewright.runtime.export.matmul import export_matmul

FP32 = dtypes.float32
FUSED = Contraction(
    Operand(FP32),
    Operand(FP32, "column"),
    Operand(FP32),
    epilogue=(Step("add", (Extra(FP32, "n"),)), Step("leaky_relu")),
    has_alpha=True,
)


def arrays(m, n, k):
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k), dtype=np.float32)
    b = random.standard_normal((n, k), dtype=np.float32)
    x = random.standard_normal(n, dtype=np.float32)
    want = 0.5 * (a.astype(np.float64) @ b.T) + x
    return a, b, x, np.where(want >= 0, want, 0.1 * want), np.full((m, n), np.nan, np.float32)


KINDS = (*[ctypes.c_void_p] * 4, *[ctypes.c_int32] * 6, ctypes.c_float, ctypes.c_float, ctypes.c_int)  # fmt: skip


@pytest.mark.parametrize("size", [(1, 1, 1), (100, 45, 33), (256, 256, 512)])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_a_fused_product_of_any_size(tmp_path, size, target):
    exported = export_matmul(
        FUSED, tmp_path, "fused", sizes=(256, 256, 256), aligned=False, target=target
    )
    fused = called(exported, *KINDS)
    m, n, k = size
    a, b, x, want, out = arrays(m, n, k)
    pointers = map(address, (a, b, out, x))
    assert fused(*pointers, m, n, k, k, k, n, 0.5, 0.1, 0) == 0
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_aligned_products_refuse_others(tmp_path):
    exported = export_matmul(FUSED, tmp_path, "fused", sizes=(256, 256, 256))
    assert "K, /* i32, a multiple of 16 */" in exported.header.read_text()
    fused = called(exported, *KINDS)
    assert fused(16, 16, 16, 16, 5, 48, 33, 32, 32, 48, 1.0, 1.0, 0) == 106
    assert fused(8, 16, 16, 16, 5, 48, 32, 32, 32, 48, 1.0, 1.0, 0) == 100


FORMS = {
    "plain": MatmulConfig(32, 16, 32),
    "persistent": MatmulConfig(32, 16, 32, persistent=True),
    "split": MatmulConfig(32, 16, 32, split_k=4),
    "packed": MatmulConfig(32, 32, 32, prepack=Panels(32)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batched", ["a", "b", "both"])
def test_batches_and_chosen_tiles(tmp_path, form, batched):
    a_varies, b_varies = batched != "b", batched != "a"
    contraction = Contraction(
        Operand(FP32, batch=(a_varies,)), Operand(FP32, batch=(b_varies,)), Operand(FP32, batch=(True,)),
        batch_rank=1,
    )  # fmt: skip
    exported = export_matmul(
        contraction, tmp_path, "batched", sizes=(64, 64, 64), config=FORMS[form], aligned=False
    )
    strides = ["a_m", *["a_b0"] * a_varies, "b_k", *["b_b0"] * b_varies, "out_m", "out_b0"]
    listed = ", ".join(f"int32_t {name}" for name in ("M", "N", "K", *strides))
    # whatever the tiles are
    assert exported.prototype == (
        f"int batched(const float *a, const float *b, float *out, {listed}, int64_t batch0, int threads)"
    )
    integers = 3 + len(strides)
    call = called(
        exported, *[ctypes.c_void_p] * 3, *[ctypes.c_int32] * integers, ctypes.c_int64, ctypes.c_int
    )
    random = np.random.default_rng(1)
    a = random.standard_normal((*(3,) * a_varies, 40, 50), dtype=np.float32)
    b = random.standard_normal((*(3,) * b_varies, 50, 30), dtype=np.float32)
    out = np.full((3, 40, 30), np.nan, np.float32)
    sizes = dict(M=40, N=30, K=50, a_m=50, a_b0=2000, b_k=30, b_b0=1500, out_m=30, out_b0=1200)
    given = [sizes[p.split()[-1]] for p in listed.split(", ")]
    for threads in (1, 3):
        out[...] = np.nan
        assert call(address(a), address(b), address(out), *given, 3, threads) == 0
        np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    assert call(address(a), address(b), address(out), *given, 0, 1) == 0
    assert call(address(a), address(b), address(out), *given, -1, 1) == 1


@pytest.mark.parametrize("form", ["split", "packed"])
def test_sums_of_nothing_and_epilogues_behind_parts(tmp_path, form):
    exported = export_matmul(
        FUSED, tmp_path, "fused", sizes=(64, 64, 64), config=FORMS[form], aligned=False
    )
    fused = called(exported, *KINDS)
    header = exported.header.read_text()
    assert "Each call allocates memory" in header
    for m, n, k in ((100, 45, 33), (33, 70, 1), (5, 7, 0), (0, 5, 5)):
        a, b, x, want, out = arrays(m, n, k)
        assert fused(*map(address, (a, b, out, x)), m, n, k, k, k, n, 0.5, 0.1, 2) == 0
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_packed_words(tmp_path, dtype):
    """Types whose rows are interleaved, or that are packed in a wider one."""
    kind = getattr(dtypes, dtype)
    out_kind = dtypes.int32 if dtype == "int8" else dtypes.float32
    contraction = Contraction(Operand(kind), Operand(kind), Operand(out_kind))
    exported = export_matmul(contraction, tmp_path, "product", sizes=(512, 512, 512), aligned=False)
    call = called(exported, *[ctypes.c_void_p] * 3, *[ctypes.c_int32] * 6, ctypes.c_int)
    random = np.random.default_rng(2)
    m, n, k = 130, 95, 77
    element = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    a = random.integers(-8, 8, (m, k)).astype(element)
    b = random.integers(-8, 8, (k, n)).astype(element)
    out = np.zeros((m, n), np.int32 if dtype == "int8" else np.float32)
    assert call(address(a), address(b), address(out), m, n, k, k, n, n, 0) == 0
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


PROGRAM = """
#include <math.h>
#include <stdio.h>
#include "fused.h"
int main(void) {
    enum { M = 70, N = 50, K = 90 };
    static float a[M * K], b[N * K], x[N], out[M * N];
    for (int i = 0; i < M * K; ++i) a[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < N * K; ++i) b[i] = (float)(i * 3 % 5 - 2);
    for (int i = 0; i < N; ++i) x[i] = (float)i;
    const int code = fused(a, b, out, x, M, N, K, K, K, N, 2.0f, 0.25f, 2);
    if (code != TILEWRIGHT_OK) return puts(fused_error(code)), 1;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            double sum = 0;
            for (int k = 0; k < K; ++k) sum += (double)a[i * K + k] * b[j * K + k];
            sum = 2 * sum + x[j];
            if (sum < 0) sum *= 0.25;
            if (fabs(sum - out[i * N + j]) > 1e-2) return printf("%d %d\\n", i, j), 2;
        }
    return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize("form", ["plain", "split", "packed"])
def test_a_c_program(tmp_path, form):
    export_matmul(FUSED, tmp_path, "fused", sizes=(64, 64, 64), config=FORMS[form], aligned=False)
    (tmp_path / "main.c").write_text(PROGRAM)
    program = build(tmp_path, "main.c", "fused.o")
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_launcher_for_a_gpu(tmp_path, target):
    half = Operand(dtypes.float16)
    exported = export_matmul(
        Contraction(half, half, half), tmp_path, "product", sizes=(1024, 1024, 1024), target=target
    )
    text = exported.code.read_text()
    assert exported.code.suffix == ".c" and "CUstream stream" in exported.prototype
    assert ("encode(&maps[0]" in text) == (target == "sm_90a")
